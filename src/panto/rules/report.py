"""`problems()`: one walk over a history, by the rules.

Law: it judges what the view will do, in the order in which the view does it, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import msgspec

from panto.config import WireIdentity
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

from .media import Album, AlbumChanged, broken_rule, limits_of
from .table import RULES
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

__all__ = ["problems"]


def problems(messages: Sequence[Message], for_: WireIdentity | Target | None = None) -> list[Problem]:
    """See `Conversation.problems`. A `Target` tells more of a provider than its identity does."""
    walk = _Walk(Target.of(for_) if isinstance(for_, WireIdentity) else for_)
    for at, message in enumerate(messages):
        check_made(at, message)
        walk.take(at, message)
    return walk.end()


class _Calls(msgspec.Struct):
    """The calls of one answer: for each its block, and the results that came, as (call, message, block)."""

    message: int
    blocks: list[int]
    ids: list[str]
    came: list[tuple[int, int, int]] = []


class _Walk:
    """What is known of a history so far, and what was found in it."""

    def __init__(self, target: Target | None) -> None:
        self.target = target
        self.found: list[Problem] = []
        # Calls: every group in order, the last group of each id, the ids given away.
        self.groups: list[_Calls] = []
        self.by_id: dict[str, _Calls] = {}
        self.used: set[str] = set()
        # Whether the results of the last answer's calls may still come without a word between.
        self.calls_open = False
        self.spoke: MessageRole | None = None
        # What the user's next words end: reasoning of this loop, server tools' calls of a pause, thoughts at the end.
        self.thoughts: list[tuple[int, int]] = []
        self.paused: dict[str, tuple[int, int]] = {}
        self.last_thoughts: list[tuple[int, int]] = []
        self.server_uses: set[str] = set()
        self.media: list[tuple[int, int, MediaBlock | StoredMediaPart]] = []

    def report(self, name: str, message: int, block: int | None = None) -> None:
        """Note that a rule is broken, if it concerns the target."""
        rule = RULES[name]
        if rule.styles is None or (self.target is not None and self.target.identity.api_style in rule.styles):
            self.found.append(Problem(name, message, block, rule.what, rule.repair))

    def take(self, at: int, message: Message) -> None:
        """Judge the next message."""
        if not message.content and message.role is not MessageRole.SYSTEM:
            self.report("empty_message", at)
        judged = verdicts(message, self.target, self.server_uses)
        sent = self._blocks(at, message, judged)
        if not sent or message.role is MessageRole.SYSTEM:
            return
        if message.role is MessageRole.USER:
            self._question()
        else:
            self._answer(at, message, judged, sent)
        if self.spoke is message.role and not self.calls_open:
            self.report("same_role", at)
        self.spoke = message.role
        self._calls(at, message, [n for n in sent if isinstance(message.content[n], ToolUseBlock)])

    def end(self) -> list[Problem]:
        """All that was found, in order of the history."""
        for group in self.groups:
            for call in set(range(len(group.ids))) - {call for call, _, _ in group.came}:
                self.report("missing_result", group.message, group.blocks[call])
        if self.target is not None:
            self._album(self.target)
        return sorted(self.found, key=lambda one: (one.message or 0, -1 if one.block is None else one.block))

    def _blocks(self, at: int, message: Message, judged: Sequence[str | None]) -> list[int]:
        """Judge each block; where those are that are sent, but for results."""
        sent: list[int] = []
        for n, (block, verdict) in enumerate(zip(message.content, judged, strict=True)):
            if verdict is not None:
                self.report(verdict, at, n)
                if RULES[verdict].left_out:
                    continue
            for name in _blemishes(block, self.target):
                self.report(name, at, n)
            if isinstance(block, ToolResultBlock):
                self._result(at, n, block)
                continue
            sent.append(n)
            self._media(at, n, block)
            if isinstance(block, ThinkingBlock) and self.target is not None and passes(block, self.target):
                self.thoughts.append((at, n))
            self.calls_open = self.calls_open and message.role is not MessageRole.USER
        return sent

    def _result(self, at: int, n: int, block: ToolResultBlock) -> None:
        group = self.by_id.get(block.id)
        if group is None:
            self.report("orphan_result", at, n)
            return
        taken = {call for call, _, _ in group.came}
        free = [call for call, id in enumerate(group.ids) if id == block.id and call not in taken]
        if not free:
            self.report("second_result", at, n)
            return
        if not self.calls_open or group is not self.groups[-1] or any(call > free[0] for call in taken):
            self.report("result_order", at, n)
        group.came.append((free[0], at, n))
        for part in block.parts:
            self._media(at, n, part)

    def _media(self, at: int, n: int, media: ContentBlock | TextPart | StoredMediaPart) -> None:
        if isinstance(media, MediaBlock | StoredMediaPart) and not broken_media(media):
            self.media.append((at, n, media))

    def _album(self, target: Target) -> None:
        """What is wrong with media only because of all the others."""
        album = Album(limits_of(target.identity.api_style))
        while True:
            album.begin()
            try:
                judged = [self._judge(album, place) for place in range(len(self.media))]
                break
            except AlbumChanged:
                continue
        for (at, n, media), rule in zip(self.media, judged, strict=True):
            if rule is not None and rule != _media_rule(media, target):
                self.report(rule, at, n)

    def _judge(self, album: Album, place: int) -> str | None:
        if place == 0 or self.media[place][0] != self.media[place - 1][0]:
            album.turn()
        return album.judge(self.media[place][2])

    def _question(self) -> None:
        """The user speaks: what only a loop, a pause or the end of an answer held is left out from here."""
        for place in self.thoughts:
            self.report("own_reasoning", *place)
        for use, place in self.paused.items():
            self.report("open_server_use", *place)
            self.server_uses.discard(use)
        for place in self.last_thoughts:
            self.report("ends_on_thinking", *place)
        self.thoughts, self.paused, self.last_thoughts = [], {}, []

    def _answer(self, at: int, message: Message, judged: Sequence[str | None], sent: list[int]) -> None:
        if self.spoke is None:
            self.report("begins_with_answer", at)
        uses, answered = server_calls([message.content[n] for n in sent])
        self.paused = {}  # the provider went on; what it then left open is its own affair
        if goes_on(message):
            self.paused = {use: (at, sent[n]) for use, n in uses.items() if use not in answered}
        last: list[tuple[int, int]] = []
        while sent[len(last) :] and _is_thinking(message, judged, sent[-1 - len(last)]):
            last.append((at, sent[-1 - len(last)]))
        self.last_thoughts = last

    def _calls(self, at: int, message: Message, calls: list[int]) -> None:
        if message.role is MessageRole.ASSISTANT:
            self.calls_open = bool(calls)
        if not calls:
            return
        group = _Calls(at, calls, [_call(message, n).id for n in calls])
        self.groups.append(group)
        self.by_id.update(dict.fromkeys(group.ids, group))
        for n, id in zip(group.blocks, group.ids, strict=True):
            if id in self.used:
                self.report("repeated_id", at, n)
            elif self.target is not None and not fits(id, self.target):
                self.report("id_shape", at, n)
            self.used.add(id)


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
                elif isinstance(part, StoredMediaPart):
                    if (rule := _media_rule(part, target)) is not None:
                        yield rule
                elif has_surrogates(part.text):
                    yield "surrogates"
            if block.is_error and not any(_says(part) for part in block.parts):
                yield "blank_error"
        case MediaBlock():
            if (rule := _media_rule(block, target)) is not None:
                yield rule
        case OpaqueBlock():
            pass
        case _:
            assert_never(block)


def _media_rule(media: MediaBlock | StoredMediaPart, target: Target | None) -> str | None:
    return broken_rule(media, None if target is None else limits_of(target.identity.api_style))


def _says(part: TextPart | StoredMediaPart) -> bool:
    return not (is_blank(part.text) if isinstance(part, TextPart) else broken_media(part))
