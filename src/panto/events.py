"""What a stream tells while a run goes on.

Law: an event is a frozen value; none holds what may still change. `index` counts blocks within one message.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from .config import JSON, StopReason
from .conversation import ContentBlock, ContentBlockType, Message
from .errors import ErrorKind
from .tools import ToolCall, ToolCallResult
from .usage import Usage

__all__ = [
    "BlockComplete",
    "BlockStart",
    "ContentDelta",
    "Event",
    "MessageComplete",
    "ProviderRetry",
    "ProviderRetryInfo",
    "ToolDetails",
    "ToolDispatchComplete",
    "ToolDispatchStart",
    "ToolProgress",
    "TurnComplete",
]


class BlockStart(msgspec.Struct, frozen=True, gc=False, tag_field="event", tag="block_start"):
    """A block begins. Several may be open at once; indices are 0, 1, 2 ... and start again with each message."""

    index: int
    type: ContentBlockType


class ToolDetails(msgspec.Struct, frozen=True, gc=False, tag_field="event", tag="tool_details"):
    """Which tool the call in block `index` is for."""

    index: int
    id: str
    name: str


class ContentDelta(msgspec.Struct, frozen=True, gc=False, tag_field="event", tag="content_delta"):
    """More of block `index`: text, thinking, or a fragment of a call's arguments, by `type`. Never empty."""

    index: int
    type: ContentBlockType
    text: str


class BlockComplete(msgspec.Struct, frozen=True, gc=False, tag_field="event", tag="block_complete"):
    """A block is whole; `block` is `message.content[index]` of the message to come."""

    index: int
    block: ContentBlock


class MessageComplete(msgspec.Struct, frozen=True, tag_field="event", tag="message_complete"):
    """An answer is whole and stored. Once per provider answer; never for a failed one."""

    message: Message
    usage: Usage | None
    stop_reason: StopReason


class ToolDispatchStart(msgspec.Struct, frozen=True, tag_field="event", tag="tool_dispatch_start"):
    """A call is about to be run, or refused."""

    call: ToolCall


class ToolProgress(msgspec.Struct, frozen=True, tag_field="event", tag="tool_progress"):
    """What a running tool has to say meanwhile."""

    call: ToolCall
    text: str


class ToolDispatchComplete(msgspec.Struct, frozen=True, tag_field="event", tag="tool_dispatch_complete"):
    """A call has its result. Calls of one message may complete in any order."""

    call: ToolCall
    result: ToolCallResult


class ProviderRetryInfo(msgspec.Struct, frozen=True, gc=False):
    """Why a provider call is tried again, and when.

    attempt, limit: the number of this retry, and how many there may be.
    delay: seconds until it.
    kind, status, message: of the failure, in the provider's words.
    voided: the deltas shown for this message so far are void; its indices start again at 0.
    """

    attempt: int
    limit: int
    delay: float
    kind: ErrorKind
    status: int | None
    message: str
    voided: bool


class ProviderRetry(msgspec.Struct, frozen=True, gc=False, tag_field="event", tag="provider_retry"):
    """A provider call failed and is tried again after `info.delay` seconds."""

    info: ProviderRetryInfo


class TurnComplete(msgspec.Struct, frozen=True, tag_field="event", tag="turn_complete"):
    """The run is over; the last event.

    `stop_reason` is the last message's, or `limit` (`detail` says which), `awaiting` or `aborted`. `usage` is the
    sum over the run. `output` is the validated structured answer of `run(..., output=type)`.
    """

    stop_reason: StopReason
    usage: Usage
    detail: str | None = None
    output: JSON = None


Event: TypeAlias = (
    BlockStart
    | ToolDetails
    | ContentDelta
    | BlockComplete
    | MessageComplete
    | ToolDispatchStart
    | ToolProgress
    | ToolDispatchComplete
    | ProviderRetry
    | TurnComplete
)
"""Everything a stream may yield; match on it."""
