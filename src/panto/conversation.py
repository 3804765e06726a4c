"""Messages, their blocks, and the conversation they make.

Law: the stored history is the truth. Blocks are frozen values, so that surgery replaces a block and never changes one
that an event, a store or a cache still holds; messages and conversations are mutable, with plain lists.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeAlias

import msgspec

from .config import JSON, StopReason, WireIdentity
from .errors import ConfigError
from .usage import Usage

__all__ = [
    "CompactionSummaryBlock",
    "ContentBlock",
    "ContentBlockType",
    "Conversation",
    "MediaPart",
    "Message",
    "MessageRole",
    "OpaqueBlock",
    "Problem",
    "ResultPartStored",
    "StoredMediaPart",
    "SystemBlock",
    "SystemMode",
    "TextPart",
    "TextualBlock",
    "ThinkingBlock",
    "ToolResultBlock",
    "ToolUseBlock",
    "UserMessage",
    "effective_system_blocks",
]


class MessageRole(enum.StrEnum):
    """Who speaks. Results of tool calls are a `user` message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class ContentBlockType(enum.StrEnum):
    """What a block is; the events of a stream carry it."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    MEDIA = "media"
    SYSTEM = "system"
    COMPACTION_SUMMARY = "compaction_summary"
    OPAQUE = "opaque"


class SystemMode(enum.StrEnum):
    """How a system block acts on those before it."""

    APPEND = "append"
    REPLACE = "replace"


class TextPart(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="text"):
    """Text in a tool's result."""

    text: str


class MediaPart(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="media"):
    """An image or document as bytes, as a tool or a user gives it.

    `media_type` is a claim: what goes on the wire is told from the bytes. An image longer than `Config.max_image_side`,
    or of too many bytes, is shrunk before it is stored; what no provider can read becomes a text that says so.
    """

    media_type: str
    data: bytes

    def __repr__(self) -> str:
        return f"MediaPart({self.media_type!r}, {len(self.data)} bytes)"


class StoredMediaPart(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="media"):
    """An image or document as the history holds it: `data` is base64 text."""

    media_type: str
    data: str

    @classmethod
    def of(cls, part: MediaPart) -> StoredMediaPart:
        """The stored form of `part`. Raises `ConfigError` when its data are no bytes."""
        data: object = part.data
        if not isinstance(data, bytes | bytearray | memoryview):
            raise ConfigError(f"the data of a MediaPart are bytes, not {type(data).__name__}")
        return cls(part.media_type, base64.b64encode(part.data).decode("ascii"))

    def __repr__(self) -> str:
        return f"StoredMediaPart({self.media_type!r}, {len(self.data)} characters of base64)"


ResultPartStored: TypeAlias = TextPart | StoredMediaPart
"""One part of a tool's result as the history holds it."""


class TextualBlock(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="text"):
    """Text that a user or a model wrote."""

    text: str


class MediaBlock(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="media"):
    """An image or document that a user sent; `data` is base64 text."""

    media_type: str
    data: str

    def __repr__(self) -> str:
        return f"MediaBlock({self.media_type!r}, {len(self.data)} characters of base64)"


class ThinkingBlock(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="thinking", omit_defaults=True):
    """What a model thought before it answered.

    `signature` binds it to the provider that wrote it; `redacted` is the opaque payload of thinking that the provider
    does not show, and `text` is then empty. Both travel byte for byte and only to where they came from.
    """

    text: str = ""
    signature: str | None = None
    redacted: str | None = None


class ToolUseBlock(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="tool_use"):
    """A model's call of a tool. `arguments` is the raw JSON text as it came; empty means no arguments."""

    id: str
    name: str
    arguments: str


class ToolResultBlock(msgspec.Struct, frozen=True, tag_field="kind", tag="tool_result", omit_defaults=True):
    """The result of the call with the same `id`. `details` is for programs and never shown to the model."""

    id: str
    parts: tuple[ResultPartStored, ...]
    is_error: bool = False
    details: JSON = None

    def __post_init__(self) -> None:
        if type(self.parts) is not tuple:
            msgspec.structs.force_setattr(self, "parts", tuple(self.parts))

    @property
    def text(self) -> str:
        """The text of all parts, one after the other."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


class SystemBlock(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="system"):
    """A part of the system prompt."""

    text: str
    mode: SystemMode = SystemMode.APPEND


class CompactionSummaryBlock(
    msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="compaction_summary", omit_defaults=True
):
    """What a compaction left of the `replaced` messages before it, and who wrote it."""

    text: str
    replaced: int = 0
    identity: WireIdentity | None = None


class OpaqueBlock(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="opaque"):
    """Whatever a provider sends that panto has no type for; it goes back to where it came from, and only there.

    `type` is the provider's word, `raw` the JSON of the whole block.
    """

    type: str
    raw: str


ContentBlock: TypeAlias = (
    TextualBlock
    | MediaBlock
    | ThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | SystemBlock
    | CompactionSummaryBlock
    | OpaqueBlock
)
"""One block of a message's content."""


class Message(msgspec.Struct, kw_only=False, omit_defaults=True):
    """One message of a conversation.

    Attributes:
        role: Who speaks.
        content: The blocks, in order. A plain list: surgery replaces blocks in it.
        metadata: The caller's own bag, documented to be JSON; never parsed, byte for byte through every store.
        id: Unique id, made by panto when the message joins an agent's conversation.
        identity: Who answered; `None` on messages of users and systems.
        usage: Tokens of the answer; `None` where not told.
        stop_reason: Why the answer ended.
        stop_raw: The provider's own word for it.
    """

    role: MessageRole
    content: list[ContentBlock]
    metadata: str | None = None
    id: str | None = None
    identity: WireIdentity | None = None
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    stop_raw: str | None = None

    def __post_init__(self) -> None:
        given: object = self.content
        if isinstance(given, str):
            self.content = [TextualBlock(given)]
        elif not isinstance(given, list):
            self.content = list(self.content)
        if type(self.role) is not MessageRole:
            self.role = MessageRole(self.role)

    @property
    def text(self) -> str:
        """The text blocks, one after the other."""
        return "".join(block.text for block in self.content if isinstance(block, TextualBlock))

    @property
    def tool_calls(self) -> list[ToolUseBlock]:
        """The calls in this message, in order."""
        return [block for block in self.content if isinstance(block, ToolUseBlock)]


class Problem(msgspec.Struct, frozen=True, gc=False):
    """One thing that is wrong with a history, or that one provider would refuse.

    rule: the name of the rule in `panto.rules`.
    message: the index of the message it concerns, or `None` for the whole.
    block: the index of the block within it, or `None`.
    what: what is wrong, for a reader.
    repair: what the view does about it when a request is built; the history itself stays as it is.
    """

    rule: str
    message: int | None
    block: int | None
    what: str
    repair: str


class UserMessage(msgspec.Struct, frozen=True):
    """What a user says in one turn: text, images or documents, and the caller's own bag."""

    text: str
    media: Sequence[MediaPart] = ()
    metadata: str | None = None


class Conversation:
    """A history of messages, to be built, edited and sent.

    `messages` is a plain list, for surgery between turns. `metadata` is the caller's own bag, documented to be JSON,
    never parsed; a store takes it with the first record.

    >>> talk = Conversation()
    >>> talk.add_system_message("Be brief.")
    >>> talk.add_user_message("Hello")
    >>> [message.role.value for message in talk.messages]
    ['system', 'user']
    >>> talk.problems()
    []
    """

    __slots__ = ("__weakref__", "messages", "metadata")

    def __init__(self, metadata: str | None = None, messages: Iterable[Message] = ()) -> None:
        self.metadata: str | None = metadata
        self.messages: list[Message] = list(messages)

    def add_user_message(self, text: str, media: Sequence[MediaPart] = (), metadata: str | None = None) -> None:
        """Append what a user says. Media are stored as they are; `Agent.run` makes its own fit for every provider."""
        self.messages.append(user_message(UserMessage(text, media, metadata)))

    def add_assistant_message(
        self,
        blocks: Sequence[ContentBlock] | str,
        usage: Usage | None = None,
        identity: WireIdentity | None = None,
    ) -> None:
        """Append an answer. Without `identity` nothing in it counts as signed by anybody."""
        content: list[ContentBlock] = [TextualBlock(blocks)] if isinstance(blocks, str) else list(blocks)
        self.messages.append(Message(MessageRole.ASSISTANT, content, usage=usage, identity=identity))

    def add_system_message(self, text: str) -> None:
        """Append a part to the system prompt."""
        self.messages.append(system_message(text, SystemMode.APPEND))

    def replace_system_message(self, text: str) -> None:
        """Replace the whole system prompt from here on."""
        self.messages.append(system_message(text, SystemMode.REPLACE))

    def add_compaction_summary(self, text: str, replaced: int = 0, identity: WireIdentity | None = None) -> None:
        """Append a summary of what went before. It is sent as words of the user."""
        block = CompactionSummaryBlock(text, replaced, identity)
        self.messages.append(Message(MessageRole.USER, [block]))

    def problems(self, for_: WireIdentity | None = None) -> list[Problem]:
        """What is wrong with the history, or what the provider of `for_` would refuse, and what the view does.

        An empty list means that it can be sent as it stands.
        """
        from .rules import problems

        return problems(self.messages, for_)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Conversation):
            return NotImplemented
        return self.metadata == other.metadata and self.messages == other.messages

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Conversation({len(self.messages)} messages)"


def user_message(said: UserMessage) -> Message:
    """The message that `said` makes in a history."""
    text: object = said.text
    media: object = said.media
    if not isinstance(text, str):
        raise ConfigError(f"the text of a user's message is a str, not {type(text).__name__}")
    if not isinstance(media, list | tuple) or not all(isinstance(part, MediaPart) for part in media):
        raise ConfigError("the media of a user's message are a list of panto.MediaPart(media_type, data)")
    content: list[ContentBlock] = []
    for part in said.media:
        stored = StoredMediaPart.of(part)
        content.append(MediaBlock(stored.media_type, stored.data))
    if said.text or not content:
        content.append(TextualBlock(said.text))
    return Message(MessageRole.USER, content, metadata=said.metadata)


def system_message(text: str, mode: SystemMode) -> Message:
    """The message that changes the system prompt."""
    return Message(MessageRole.SYSTEM, [SystemBlock(text, mode)])


def effective_system_blocks(messages: Iterable[Message]) -> list[SystemBlock]:
    """The system blocks in force after `messages`: append and replace, replayed in order.

    Blank blocks are kept, as they are in the history; the view leaves them out.
    """
    effective: list[SystemBlock] = []
    for message in messages:
        if message.role is MessageRole.SYSTEM:
            for block in message.content:
                if isinstance(block, SystemBlock):
                    if block.mode is SystemMode.REPLACE:
                        effective.clear()
                    effective.append(block)
    return effective
