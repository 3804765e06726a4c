"""What a history must obey, as data: `problems()` reports by these rules, the view repairs by them.

Law: a rule is a row, and what a provider takes is a `Target`; nothing here performs a repair. What of a message is
sent is decided in `verdicts`, for the report and for the view alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

import msgspec

from panto.config import APIStyle, WireIdentity
from panto.conversation import (
    CompactionSummaryBlock,
    ContentBlock,
    MediaBlock,
    Message,
    MessageRole,
    OpaqueBlock,
    Problem,
    StoredMediaPart,
    SystemBlock,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

from .verdicts import (
    Target,
    arguments_rule,
    broken_media,
    check_made,
    fits,
    goes_on,
    has_surrogates,
    is_blank,
    passes,
    server_calls,
    verdicts,
)

__all__ = ["RULES", "Rule", "Target", "problems"]


class Rule(msgspec.Struct, frozen=True):
    """One thing that a history, or what is sent of it, must obey.

    what: what is wrong where it is broken.
    repair: what the view does about it.
    left_out: whether that is to send nothing of the block.
    styles: the wires it concerns; it is reported only for an identity of one of them. `None`: it holds everywhere,
        and is reported always.
    """

    name: str
    what: str
    repair: str
    left_out: bool = False
    styles: frozenset[APIStyle] | None = None


_ALL: Final = frozenset(APIStyle)
_CHAT: Final = frozenset({APIStyle.OPENAI_CHAT})
_MESSAGES: Final = frozenset({APIStyle.ANTHROPIC_MESSAGES})
_OUT: Final = "left out"

RULES: Final[dict[str, Rule]] = {
    rule.name: rule
    for rule in (
        # Pairing and order: every provider refuses a history that breaks these.
        Rule("missing_result", "a call has no result", "an error result says that the outcome is unknown"),
        Rule("orphan_result", "a result answers no call before it", _OUT, left_out=True),
        Rule("second_result", "a call has more than one result", "the first one counts", left_out=True),
        Rule("result_order", "a result is not right after its calls, in their order", "moved there"),
        Rule("repeated_id", "an earlier call has the same id", "sent under an id of its own, with its result"),
        # Shape.
        Rule("wrong_place", "a message of this role cannot hold such a block", _OUT, left_out=True),
        Rule("empty_message", "the message holds nothing", "left out; its neighbours join"),
        Rule("blank", "there is nothing in it but white space", _OUT, left_out=True),
        Rule("surrogates", "it holds half a surrogate pair, which UTF-8 cannot carry", "U+FFFD in its place"),
        Rule("arguments", "the arguments of a call are not a JSON object", "sent as {}"),
        Rule("blank_name", "a call names no tool", "sent under a name that no tool has"),
        Rule("blank_error", "the result of a failed call says nothing", "sent with words of panto's"),
        Rule("blank_part", "a part of a result holds nothing", "the part is left out"),
        Rule("broken_media", "the data of an image or document is no base64", _OUT, left_out=True),
        Rule("broken_seal", "signed thinking holds text that UTF-8 cannot carry", _OUT, left_out=True),
        Rule("broken_opaque", "an opaque block is not JSON", _OUT, left_out=True),
        # Reasoning and what else belongs to one provider.
        Rule("foreign_reasoning", "another provider or model thought this", _OUT, left_out=True, styles=_ALL),
        Rule("reasoning_as_text", "another provider or model thought this", "sent as text", styles=_ALL),
        Rule("unsigned_reasoning", "thinking without a signature", _OUT, left_out=True, styles=_ALL),
        Rule("own_reasoning", "the provider does not want this reasoning back", _OUT, left_out=True, styles=_ALL),
        Rule("ends_on_thinking", "the answer ends with thinking", _OUT, left_out=True, styles=_MESSAGES),
        Rule("only_thinking", "the answer holds nothing but thinking", _OUT, left_out=True, styles=_ALL),
        Rule("foreign_opaque", "only another provider or model can read this", _OUT, left_out=True, styles=_ALL),
        Rule("open_server_use", "a server tool's call was cut before its result", _OUT, left_out=True, styles=_ALL),
        Rule("orphan_server_result", "a server tool's result has no call", _OUT, left_out=True, styles=_ALL),
        Rule("refused", "the vendor asks to leave a refused answer out", _OUT, left_out=True, styles=_MESSAGES),
        # What one provider takes.
        Rule("id_shape", "the provider does not take such a call id", "sent under one that it takes", styles=_ALL),
        Rule("begins_with_answer", "no question precedes the first answer", "a fixed one is put before", styles=_ALL),
        Rule("same_role", "two messages of one role in a row; strict templates refuse", "joined", styles=_CHAT),
    )
}
"""Every rule, by name."""


class _Calls(msgspec.Struct):
    """The calls of one answer: for each its block, and the results that came, as (call, message, block)."""

    message: int
    blocks: list[int]
    ids: list[str]
    came: list[tuple[int, int, int]] = []


def problems(messages: Sequence[Message], for_: WireIdentity | Target | None = None) -> list[Problem]:
    """See `Conversation.problems`. A `Target` tells more of a provider than its identity does."""
    target = Target.of(for_) if isinstance(for_, WireIdentity) else for_
    found: list[Problem] = []

    def report(name: str, message: int, block: int | None = None) -> None:
        rule = RULES[name]
        if rule.styles is None or (target is not None and target.identity.api_style in rule.styles):
            found.append(Problem(name, message, block, rule.what, rule.repair))

    groups: list[_Calls] = []
    by_id: dict[str, _Calls] = {}
    server_uses: set[str] = set()
    used: set[str] = set()
    spoke: MessageRole | None = None
    calls_open = False
    thoughts: list[tuple[int, int]] = []
    paused: dict[str, tuple[int, int]] = {}
    last_thoughts: list[tuple[int, int]] = []
    for at, message in enumerate(messages):
        check_made(at, message)
        if not message.content and message.role is not MessageRole.SYSTEM:
            report("empty_message", at)
        judged = verdicts(message, target, server_uses)
        sent: list[int] = []
        for n, (block, verdict) in enumerate(zip(message.content, judged)):
            if verdict is not None:
                report(verdict, at, n)
                if RULES[verdict].left_out:
                    continue
            for name in _blemishes(block, target):
                report(name, at, n)
            if not isinstance(block, ToolResultBlock):
                sent.append(n)
                if isinstance(block, ThinkingBlock) and target is not None and passes(block, target):
                    thoughts.append((at, n))
                calls_open = calls_open and message.role is not MessageRole.USER
                continue
            group = by_id.get(block.id)
            if group is None:
                report("orphan_result", at, n)
                continue
            taken = {call for call, _, _ in group.came}
            free = [call for call, id in enumerate(group.ids) if id == block.id and call not in taken]
            if not free:
                report("second_result", at, n)
                continue
            if not calls_open or group is not groups[-1] or any(call > free[0] for call in taken):
                report("result_order", at, n)
            group.came.append((free[0], at, n))
        if not sent or message.role is MessageRole.SYSTEM:
            continue
        if message.role is MessageRole.USER:
            for place in thoughts:
                report("own_reasoning", *place)
            for use, place in paused.items():
                report("open_server_use", *place)
                server_uses.discard(use)
            for place in last_thoughts:
                report("ends_on_thinking", *place)
            thoughts, paused, last_thoughts = [], {}, []
        else:
            if spoke is None:
                report("begins_with_answer", at)
            uses, answered = server_calls([message.content[n] for n in sent])
            paused = {}  # the provider went on; what it then left open is its own affair
            if goes_on(message):
                paused = {use: (at, sent[n]) for use, n in uses.items() if use not in answered}
            last_thoughts = []
            while sent[len(last_thoughts) :] and _is_thinking(message, judged, sent[-1 - len(last_thoughts)]):
                last_thoughts.append((at, sent[-1 - len(last_thoughts)]))
        calls = [n for n in sent if isinstance(message.content[n], ToolUseBlock)]
        if spoke is message.role and not calls_open:
            report("same_role", at)
        spoke = message.role
        if message.role is MessageRole.ASSISTANT:
            calls_open = bool(calls)
        if calls:
            group = _Calls(at, calls, [_call(message, n).id for n in calls])
            groups.append(group)
            by_id.update(dict.fromkeys(group.ids, group))
            for n, id in zip(group.blocks, group.ids):
                if id in used:
                    report("repeated_id", at, n)
                elif target is not None and not fits(id, target):
                    report("id_shape", at, n)
                used.add(id)
    for group in groups:
        for call in set(range(len(group.ids))) - {call for call, _, _ in group.came}:
            report("missing_result", group.message, group.blocks[call])
    return sorted(found, key=lambda problem: (problem.message or 0, -1 if problem.block is None else problem.block))


def _is_thinking(message: Message, judged: Sequence[str | None], at: int) -> bool:
    return judged[at] is None and isinstance(message.content[at], ThinkingBlock)


def _call(message: Message, at: int) -> ToolUseBlock:
    block = message.content[at]
    assert isinstance(block, ToolUseBlock)
    return block


def _blemishes(block: ContentBlock, target: Target | None) -> Iterator[str]:
    """The rules that `block`, which is sent, breaks by itself."""
    match block:
        case TextualBlock() | SystemBlock() | CompactionSummaryBlock() | ThinkingBlock():
            if has_surrogates(block.text):
                yield "surrogates"
        case ToolUseBlock():
            if is_blank(block.name):
                yield "blank_name"
            rule = arguments_rule(block.arguments)
            if rule == "arguments":
                yield rule
            if rule == "surrogates" or has_surrogates(block.name) or (target is None and has_surrogates(block.id)):
                yield "surrogates"
        case ToolResultBlock():
            for part in block.parts:
                if is_blank(part.text) if isinstance(part, TextPart) else broken_media(part):
                    yield "blank_part"
                elif isinstance(part, TextPart) and has_surrogates(part.text):
                    yield "surrogates"
            if block.is_error and not any(_says(part) for part in block.parts):
                yield "blank_error"
        case MediaBlock() | OpaqueBlock():
            pass
        case _:
            assert_never(block)


def _says(part: TextPart | StoredMediaPart) -> bool:
    return not (is_blank(part.text) if isinstance(part, TextPart) else broken_media(part))
