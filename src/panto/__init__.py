"""panto: run LLM agents, and construct and operate on conversations.

Law: this list is the public surface and its only definition. Names are imported when they are first used, so that
`import panto` costs next to nothing.
"""

TYPE_CHECKING = False  # what type checkers take for true; `typing` itself would be half the time of this import

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ._core.state import State as State
    from ._drive.http import Transport as Transport
    from ._drive.http import deinit as deinit
    from ._drive.http import init as init
    from .agent import Agent as Agent
    from .agent import Stream as Stream
    from .aio import AsyncAgent as AsyncAgent
    from .aio import AsyncStream as AsyncStream
    from .config import JSON as JSON
    from .config import AnthropicMessagesConfig as AnthropicMessagesConfig
    from .config import APIStyle as APIStyle
    from .config import ChatCompat as ChatCompat
    from .config import CompactionConfig as CompactionConfig
    from .config import Config as Config
    from .config import Limits as Limits
    from .config import OpenAIChatConfig as OpenAIChatConfig
    from .config import ProviderConfig as ProviderConfig
    from .config import ReasoningEffort as ReasoningEffort
    from .config import RetryConfig as RetryConfig
    from .config import StopReason as StopReason
    from .config import Timeouts as Timeouts
    from .config import WireIdentity as WireIdentity
    from .conversation import CompactionSummaryBlock as CompactionSummaryBlock
    from .conversation import ContentBlock as ContentBlock
    from .conversation import ContentBlockType as ContentBlockType
    from .conversation import Conversation as Conversation
    from .conversation import MediaBlock as MediaBlock
    from .conversation import MediaPart as MediaPart
    from .conversation import Message as Message
    from .conversation import MessageRole as MessageRole
    from .conversation import OpaqueBlock as OpaqueBlock
    from .conversation import Problem as Problem
    from .conversation import ResultPartStored as ResultPartStored
    from .conversation import StoredMediaPart as StoredMediaPart
    from .conversation import SystemBlock as SystemBlock
    from .conversation import SystemMode as SystemMode
    from .conversation import TextPart as TextPart
    from .conversation import TextualBlock as TextualBlock
    from .conversation import ThinkingBlock as ThinkingBlock
    from .conversation import ToolResultBlock as ToolResultBlock
    from .conversation import ToolUseBlock as ToolUseBlock
    from .conversation import UserMessage as UserMessage
    from .conversation import effective_system_blocks as effective_system_blocks
    from .errors import AmbiguousSession as AmbiguousSession
    from .errors import ConfigError as ConfigError
    from .errors import ContextOverflowError as ContextOverflowError
    from .errors import ErrorKind as ErrorKind
    from .errors import PantoError as PantoError
    from .errors import ProviderError as ProviderError
    from .errors import SessionBusy as SessionBusy
    from .errors import SessionError as SessionError
    from .errors import SessionNotFound as SessionNotFound
    from .errors import StateError as StateError
    from .errors import StoreError as StoreError
    from .errors import ToolNameError as ToolNameError
    from .estimate import estimate_tokens as estimate_tokens
    from .events import BlockComplete as BlockComplete
    from .events import BlockStart as BlockStart
    from .events import ContentDelta as ContentDelta
    from .events import Event as Event
    from .events import MessageComplete as MessageComplete
    from .events import ProviderRetry as ProviderRetry
    from .events import ProviderRetryInfo as ProviderRetryInfo
    from .events import ToolDetails as ToolDetails
    from .events import ToolDispatchComplete as ToolDispatchComplete
    from .events import ToolDispatchStart as ToolDispatchStart
    from .events import ToolProgress as ToolProgress
    from .events import TurnComplete as TurnComplete
    from .session import PersistentMessage as PersistentMessage
    from .session import Session as Session
    from .session import SessionInfo as SessionInfo
    from .session import SessionStore as SessionStore
    from .session import match as match
    from .stores.jsonl import FileSystemJSONLStore as FileSystemJSONLStore
    from .stores.memory import MemoryStore as MemoryStore
    from .stores.null import NullStore as NullStore
    from .tools import Allow as Allow
    from .tools import Ask as Ask
    from .tools import Change as Change
    from .tools import Deny as Deny
    from .tools import Hooks as Hooks
    from .tools import Pause as Pause
    from .tools import ResultPart as ResultPart
    from .tools import ResultParts as ResultParts
    from .tools import Tool as Tool
    from .tools import ToolCall as ToolCall
    from .tools import ToolCallResult as ToolCallResult
    from .tools import ToolContext as ToolContext
    from .tools import ToolDecl as ToolDecl
    from .tools import ToolSource as ToolSource
    from .usage import ContextUsage as ContextUsage
    from .usage import Usage as Usage

_HOMES: dict[str, str] = {
    "_core.state": "State",
    "_drive.http": "Transport deinit init",
    "agent": "Agent Stream",
    "aio": "AsyncAgent AsyncStream",
    "config": "APIStyle AnthropicMessagesConfig ChatCompat CompactionConfig Config JSON Limits OpenAIChatConfig "
    "ProviderConfig ReasoningEffort RetryConfig StopReason Timeouts WireIdentity",
    "conversation": "CompactionSummaryBlock ContentBlock ContentBlockType Conversation MediaBlock MediaPart Message "
    "MessageRole OpaqueBlock Problem ResultPartStored StoredMediaPart SystemBlock SystemMode TextPart TextualBlock "
    "ThinkingBlock ToolResultBlock ToolUseBlock UserMessage effective_system_blocks",
    "errors": "AmbiguousSession ConfigError ContextOverflowError ErrorKind PantoError ProviderError SessionBusy "
    "SessionError SessionNotFound StateError StoreError ToolNameError",
    "events": "BlockComplete BlockStart ContentDelta Event MessageComplete ProviderRetry ProviderRetryInfo ToolDetails "
    "ToolDispatchComplete ToolDispatchStart ToolProgress TurnComplete",
    "session": "PersistentMessage Session SessionInfo SessionStore match",
    "stores.jsonl": "FileSystemJSONLStore",
    "stores.memory": "MemoryStore",
    "stores.null": "NullStore",
    "tools": "Allow Ask Change Deny Hooks Pause ResultPart ResultParts Tool ToolCall ToolCallResult ToolContext "
    "ToolDecl ToolSource",
    "estimate": "estimate_tokens",
    "usage": "ContextUsage Usage",
}

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name == "__all__":
        return sorted(_HOME_OF)
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'panto' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
