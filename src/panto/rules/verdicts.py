"""What of a message is sent: the one judgement that the report and the view share, so that they cannot disagree.

Law: a verdict is the name of a rule; it follows from the message and the target alone, and repairs nothing.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Sequence
from typing import Literal, assert_never

import msgspec

from panto.config import APIStyle, StopReason, WireIdentity
from panto.conversation import (
    CompactionSummaryBlock,
    ContentBlock,
    MediaBlock,
    Message,
    MessageRole,
    OpaqueBlock,
    StoredMediaPart,
    SystemBlock,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from panto.errors import ConfigError

from .ids import id_shape


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
        shape = id_shape(identity)
        messages = identity.api_style is APIStyle.ANTHROPIC_MESSAGES
        return cls(identity, shape.pattern, shape.longest, needs_signature=messages, drop_refused=messages)


# ------------------------------------------------------- what the rules look at


def is_blank(text: str) -> bool:
    """Whether there is nothing but white space."""
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


def no_arguments(text: str) -> bool:
    """Whether `text` says that a call has no arguments: nothing, or `null`. It breaks no rule and is sent as `{}`."""
    return is_blank(text) or text.strip() == "null"


def arguments_rule(text: str) -> str | None:
    """The rule that the arguments of a call break: `arguments`, `surrogates` (escaped ones too), or none."""
    if no_arguments(text):
        return None
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        # Also what is legal and odd: lone surrogates in escapes, numbers beyond 64 bits.
        try:
            value = _loads(text)
            if isinstance(value, dict) and has_surrogates(json.dumps(value, ensure_ascii=False)):
                return "surrogates"
        except (ValueError, RecursionError):
            return "arguments"
    return None if isinstance(value, dict) else "arguments"


def _loads(text: str) -> object:
    """What strict JSON says, but for its numbers, which may be of any length."""

    def number(_: str) -> int:
        return 0

    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_int=number, parse_float=number, parse_constant=refuse)


def broken_media(media: MediaBlock | StoredMediaPart) -> bool:
    """Whether no provider can read the data."""
    try:
        return not binascii.a2b_base64(media.data, strict_mode=True) or not media.media_type.isascii()
    except ValueError:
        return True


class OpaqueFacts(msgspec.Struct, gc=False):
    """What the rules must know of an opaque block: which server tool's call it is, or which one it answers."""

    use: str | None = None
    answers: str | None = None


def opaque_facts(block: OpaqueBlock) -> OpaqueFacts | None:
    """The facts of `block`, or `None` when its `raw` is no JSON that can be sent."""
    try:
        value = None if has_surrogates(block.raw) else _loads(block.raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None if value is None else OpaqueFacts()
    use, answers = value.get("id"), value.get("tool_use_id")
    return OpaqueFacts(
        use if isinstance(use, str) and block.type.endswith("tool_use") else None,
        answers if isinstance(answers, str) and block.type.endswith("tool_result") else None,
    )


# ------------------------------------------------------------- what is sent


def check_made(at: int, message: object) -> None:
    """Refuse what is no message, or holds what is no block: a mistake of the program, which no view can mend."""
    if not isinstance(message, Message):
        raise ConfigError(f"message {at} of the conversation is a {type(message).__name__}, not a panto.Message")
    blocks: list[object] = list(message.content)
    for where, block in enumerate(blocks):
        if not isinstance(block, ContentBlock):
            kind = type(block).__name__
            raise ConfigError(f"block {where} of message {at} is a {kind}, not a content block such as TextualBlock")


def verdicts(message: Message, target: Target | None, server_uses: set[str]) -> list[str | None]:
    """For each block of `message` the rule by which it is left out or turned to text, or `None`: it is sent.

    target: where it goes; `None` tells only what no provider takes.
    server_uses: ids of the server tools' calls that are sent; those of this message are added.

    Results are judged by `problems` and by the view, which know of the calls before them.
    """
    match message.role:
        case MessageRole.SYSTEM:
            return [
                ("blank" if is_blank(block.text) else None) if isinstance(block, SystemBlock) else "wrong_place"
                for block in message.content
            ]
        case MessageRole.USER:
            return [_said(block) for block in message.content]
        case MessageRole.ASSISTANT:
            return _answered(message, target, server_uses)
        case _:
            assert_never(message.role)


def _said(block: ContentBlock) -> str | None:
    match block:
        case TextualBlock() | CompactionSummaryBlock():
            return "blank" if is_blank(block.text) else None
        case MediaBlock():
            return "broken_media" if broken_media(block) else None
        case ToolResultBlock():
            return None
        case ThinkingBlock() | ToolUseBlock() | OpaqueBlock() | SystemBlock():
            return "wrong_place"
        case _:
            assert_never(block)


def _answered(message: Message, target: Target | None, server_uses: set[str]) -> list[str | None]:
    content = message.content
    if target is not None and target.drop_refused and message.stop_reason is StopReason.REFUSAL:
        return ["refused"] * len(content)
    home = target is not None and target.identity.same_origin(message.identity)
    found: list[str | None] = []
    facts = {at: opaque_facts(block) for at, block in enumerate(content) if isinstance(block, OpaqueBlock)}
    answered = {fact.answers: at for at, fact in facts.items() if fact is not None}  # each by its last answer
    # When the provider paused, or waits for the results of our calls, its own tools answer in a later message.
    waits = goes_on(message) or (message.stop_reason is StopReason.TOOL_USE and bool(message.tool_calls))
    for at, block in enumerate(content):
        match block:
            case TextualBlock():
                found.append("blank" if is_blank(block.text) else None)
            case ToolUseBlock():
                found.append(None)
            case ThinkingBlock():
                found.append(_thought(block, home, target))
            case OpaqueBlock():
                fact = facts[at]
                if fact is None:
                    found.append("broken_opaque")
                elif target is None:
                    found.append(None)
                elif not home:
                    found.append("foreign_opaque")
                elif fact.use is not None and not waits and answered.get(fact.use, -1) < at:
                    found.append("open_server_use")
                elif fact.answers is not None and fact.answers not in server_uses:
                    found.append("orphan_server_result")
                else:
                    found.append(None)
                    if fact.use is not None:
                        server_uses.add(fact.use)
            case ToolResultBlock() | MediaBlock() | SystemBlock() | CompactionSummaryBlock():
                found.append("wrong_place")
            case _:
                assert_never(block)
    if target is not None:
        _judge_ending(message, found, target)
    return found


def _thought(block: ThinkingBlock, home: bool, target: Target | None) -> str | None:
    sealed = is_sealed(block)
    if not sealed and is_blank(block.text):
        return "blank"
    if target is not None and not home:
        as_text = target.foreign_reasoning == "text" and not is_blank(block.text)
        return "reasoning_as_text" if as_text else "foreign_reasoning"
    if sealed:
        texts = (block.text, block.signature or "", block.redacted or "")
        return "broken_seal" if any(has_surrogates(text) for text in texts) else None
    if target is not None and target.needs_signature:
        return "unsigned_reasoning"
    return "own_reasoning" if target is not None and target.replay_reasoning == "never" else None


def is_sealed(block: ThinkingBlock) -> bool:
    """Whether `block` is bound to the provider that wrote it."""
    return bool(block.signature or block.redacted)


def _judge_ending(message: Message, found: list[str | None], target: Target) -> None:
    """Leave out the thinking that nothing follows, where it may not be last, and thinking that stands alone."""
    sent = [at for at, verdict in enumerate(found) if verdict in (None, "reasoning_as_text")]
    thinking = [at for at in sent if found[at] is None and isinstance(message.content[at], ThinkingBlock)]
    if len(thinking) == len(sent):
        for at in thinking:
            found[at] = "only_thinking"
    elif must_not_end_on_thinking(target) and not goes_on(message):
        while sent and thinking and sent[-1] == thinking[-1]:
            found[sent.pop()] = "ends_on_thinking"
            thinking.pop()


def must_not_end_on_thinking(target: Target) -> bool:
    """Whether the provider refuses an answer that ends with thinking.

    "The final block in an assistant message cannot be `thinking`" (Messages API, 2025-12).
    """
    return target.identity.api_style is APIStyle.ANTHROPIC_MESSAGES


def goes_on(message: Message) -> bool:
    """Whether the provider paused in `message` and wants it back as it is, to go on; a question ends that."""
    return message.stop_reason is StopReason.PAUSE and not message.tool_calls


def server_calls(blocks: Sequence[ContentBlock]) -> tuple[dict[str, int], set[str]]:
    """The server tools' calls among `blocks`, each with its place there, and the calls that are answered in them."""
    facts = {at: opaque_facts(block) for at, block in enumerate(blocks) if isinstance(block, OpaqueBlock)}
    uses = {fact.use: at for at, fact in facts.items() if fact is not None and fact.use is not None}
    return uses, {fact.answers for fact in facts.values() if fact is not None and fact.answers is not None}


def passes(block: ContentBlock, target: Target) -> bool:
    """Whether `block`, which is sent now, is left out from the user's next question on."""
    return target.replay_reasoning == "tool_loop" and isinstance(block, ThinkingBlock) and not is_sealed(block)
