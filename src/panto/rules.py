"""What a history must obey, as data: `problems()` reports by these rules, the view repairs by them.

Law: a rule is a row, and what a provider takes is a `Target`; nothing here performs a repair.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from .config import APIStyle, StopReason, WireIdentity
from .conversation import (
    ContentBlockType,
    Message,
    MessageRole,
    OpaqueBlock,
    Problem,
    ThinkingBlock,
)

__all__ = ["Target", "problems"]


class Target(msgspec.Struct, frozen=True):
    """What the provider of a request takes; the view makes a history fit it.

    identity: who will answer; what is signed goes only to the same api_style, base_url and model.
    id_pattern, id_max: shape of a call id there (a regular expression for the whole id) and its greatest length.
    replay_reasoning: whether unsigned reasoning of the same origin is sent back: never, since the last question of
        the user (`"tool_loop"`), or always.
    needs_signature: whether thinking without a signature is refused.
    foreign_reasoning: whether reasoning of other origins is dropped or sent as text.
    drop_refused: whether a refused answer is left out of later requests.
    """

    identity: WireIdentity
    id_pattern: str = r"[a-zA-Z0-9_-]+"
    id_max: int = 64
    replay_reasoning: Literal["never", "tool_loop", "always"] = "never"
    needs_signature: bool = False
    foreign_reasoning: Literal["drop", "text"] = "drop"
    drop_refused: bool = False

    @classmethod
    def of(cls, identity: WireIdentity) -> Target:
        """What is known from the identity alone."""
        if identity.api_style is APIStyle.ANTHROPIC_MESSAGES:
            return cls(identity, needs_signature=True, drop_refused=True)
        return cls(identity, id_max=40)


# ------------------------------------------------------- what the rules look at


def is_blank(text: str) -> bool:
    """Whether there is nothing but white space: `text content blocks must contain non-whitespace text`."""
    return not text or text.isspace()


def has_surrogates(text: str) -> bool:
    """Whether UTF-8 cannot carry `text`."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def fits(call_id: str, target: Target) -> bool:
    """Whether `call_id` may be sent to `target` as it is."""
    return len(call_id) <= target.id_max and re.fullmatch(target.id_pattern, call_id) is not None


def arguments_rule(text: str) -> str | None:
    """The rule that the arguments of a call break: `arguments`, `surrogates` (escaped ones too), or none.

    No text and `null` mean no arguments and break none.
    """
    if is_blank(text) or text.strip() == "null":
        return None
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        # Also what is legal and odd: lone surrogates in escapes, numbers beyond 64 bits.
        try:
            value = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_refuse)
            if isinstance(value, dict) and has_surrogates(json.dumps(value, ensure_ascii=False)):
                return "surrogates"
        except (ValueError, RecursionError):
            return "arguments"
    return None if isinstance(value, dict) else "arguments"


def _number(_: str) -> int:
    return 0


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


class OpaqueFacts(msgspec.Struct, gc=False):
    """What the rules must know of an opaque block: that it is JSON, and which server tool's call it is or answers."""

    id: str | None = None
    tool_use_id: str | None = None


def opaque_facts(block: OpaqueBlock) -> OpaqueFacts | None:
    """The facts of `block`, or `None` when its `raw` is no JSON object or array that can be sent."""
    if has_surrogates(block.raw):
        return None
    try:
        value: object = json.loads(block.raw, parse_int=_number, parse_float=_number, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        return OpaqueFacts()
    if not isinstance(value, dict):
        return None
    ids = {key: text for key in ("id", "tool_use_id") if isinstance(text := value.get(key), str)}
    is_use, is_result = block.type.endswith("tool_use"), block.type.endswith("tool_result")
    return OpaqueFacts(ids.get("id") if is_use else None, ids.get("tool_use_id") if is_result else None)


def leaves_uses_open(message: Message) -> bool:
    """Whether a server tool's call in `message` may have its result in a later answer: the provider paused, or it
    waits for the results of our calls.
    """
    return message.stop_reason in (StopReason.PAUSE, StopReason.TOOL_USE)


def thinking_rule(block: ThinkingBlock, home: bool, target: Target | None) -> str | None:
    """The rule by which `block` is not sent to `target` as it is, or none.

    home: whether the message came from where the request goes.
    """
    sealed = bool(block.signature or block.redacted)
    if not sealed and is_blank(block.text):
        return "blank"
    if sealed and any(has_surrogates(text) for text in (block.text, block.signature or "", block.redacted or "")):
        return "broken_seal"
    if target is not None:
        if not home:
            return "foreign_reasoning"
        if not sealed and target.needs_signature:
            return "unsigned_reasoning"
        if not sealed and target.replay_reasoning == "never":
            return "own_reasoning"
    return None if sealed or not has_surrogates(block.text) else "surrogates"


ROOM: dict[MessageRole, frozenset[ContentBlockType]] = {
    MessageRole.SYSTEM: frozenset({ContentBlockType.SYSTEM}),
    MessageRole.USER: frozenset(
        {
            ContentBlockType.TEXT,
            ContentBlockType.MEDIA,
            ContentBlockType.TOOL_RESULT,
            ContentBlockType.COMPACTION_SUMMARY,
        }
    ),
    MessageRole.ASSISTANT: frozenset(
        {ContentBlockType.TEXT, ContentBlockType.THINKING, ContentBlockType.TOOL_USE, ContentBlockType.OPAQUE}
    ),
}
"""Which blocks a message of a role holds."""


def ends_on_thinking(target: Target) -> bool:
    """Whether an answer sent to `target` may end with thinking. The Messages API: "The final block in an assistant
    message cannot be `thinking`" (2025-12).
    """
    return target.identity.api_style is not APIStyle.ANTHROPIC_MESSAGES


def problems(messages: Sequence[Message], for_: WireIdentity | Target | None = None) -> list[Problem]:
    """See `Conversation.problems`."""
    raise NotImplementedError
