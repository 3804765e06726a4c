"""The view: what of a history is sent, repaired and fit for its target.

Law: the stored history is the truth and is never changed; an update costs what was added, and a `Sendable` that did
not change stays the very same object, with the bytes that its wire keeps in it.

How: the history is folded, message by message, into turns that alternate between user and assistant. An answer with
calls opens the user's turn after it with one slot a call; a slot without a result shows an error result, and a result
fills its slot whenever it comes. So results stand in call order right after their calls, whatever the stored order.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import assert_never

import msgspec

from panto._wire.protocol import Sendable
from panto._wire.surrogates import well_formed
from panto.conversation import (
    CompactionSummaryBlock,
    ContentBlock,
    MediaBlock,
    Message,
    MessageRole,
    OpaqueBlock,
    SystemBlock,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    effective_system_blocks,
)
from panto.rules import RULES
from panto.rules.media import Album, AlbumChanged, limits_of
from panto.rules.verdicts import (
    Target,
    check_made,
    goes_on,
    has_surrogates,
    is_blank,
    is_sealed,
    must_not_end_on_thinking,
    passes,
    server_calls,
    verdicts,
)

from .repair import (
    BEGINNING,
    INTERRUPTED,
    CallIds,
    IdClash,
    as_text,
    clean_arguments,
    clean_name,
    clean_result,
    clean_system,
    fit_media,
    missing_result,
    summary_text,
)

__all__ = ["View", "Viewed"]


class Viewed(msgspec.Struct, frozen=True):
    """What a request is made of: the system prompt in force, and the messages, user first and alternating."""

    system: tuple[SystemBlock, ...]
    items: list[Sendable]


class _Slot:
    """Where the result of one call goes."""

    __slots__ = ("call_id", "result", "turn")

    def __init__(self, call_id: str, turn: _Turn) -> None:
        self.call_id = call_id
        self.turn = turn
        self.result: ToolResultBlock | None = None


class _Turn:
    """Adjacent messages of one role. A user's turn begins with the slots of the calls before it."""

    __slots__ = ("blocks", "index", "passing", "role", "sendable", "slots")

    def __init__(self, role: MessageRole, index: int) -> None:
        self.role = role
        self.index = index
        self.slots: list[_Slot] = []
        self.blocks: list[ContentBlock] = []
        self.passing: list[ContentBlock] = []
        self.sendable: Sendable | None = None

    def all_blocks(self) -> tuple[ContentBlock, ...]:
        results = [missing_result(s.call_id) if s.result is None else s.result for s in self.slots]
        return (*results, *self.blocks)


_SNAPSHOT = attrgetter("role", "content", "identity", "stop_reason")


class View:
    """The view of one growing history for one target.

    `update` takes the whole history each time and looks anew only at what was added. Surgery on what it has seen
    (a message or block removed, replaced, moved) makes it begin anew; `Sendable`s that come out the same are kept.

    work: messages looked at so far.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.work = 0
        self._reserved: set[str] = set()
        self._album = self._new_album()
        self._items: list[Sendable] = []
        self._begin()

    def _begin(self) -> None:
        self._seen: list[tuple[object, ...]] = []
        self._turns: list[_Turn] = []
        self._dirty = 0
        self._ids = CallIds(self.target, self._reserved)
        self._slots: dict[str, list[_Slot]] = {}
        self._server_uses: set[str] = set()
        self._album.begin()
        self._passing: list[_Turn] = []
        self._paused: dict[str, tuple[_Turn, ContentBlock]] = {}
        self._effective: list[SystemBlock] = []
        self._system: tuple[SystemBlock, ...] = ()

    def _new_album(self) -> Album:
        return Album(limits_of(self.target.identity.api_style))

    def update(self, messages: Sequence[Message]) -> Viewed:
        """What to send for `messages`, which stay as they are."""
        known = len(self._seen)
        if known > len(messages) or list(map(_SNAPSHOT, messages[:known])) != self._seen:
            self._reserved = set()
            self._album = self._new_album()
            self._begin()
        while True:
            try:
                for message in messages[len(self._seen) :]:
                    self._take(message)
                break
            except (IdClash, AlbumChanged):
                self._begin()
        self._render()
        return Viewed(self._system, list(self._items))

    # ------------------------------------------------------------ folding

    def _take(self, message: Message) -> None:
        self.work += 1
        check_made(len(self._seen), message)
        self._album.turn()
        match message.role:
            case MessageRole.SYSTEM:
                so_far = Message(MessageRole.SYSTEM, list(self._effective))
                self._effective = effective_system_blocks([so_far, message])
                self._system = tuple(clean_system(block) for block in self._effective if not is_blank(block.text))
            case MessageRole.USER:
                self._take_question(message)
            case MessageRole.ASSISTANT:
                self._take_answer(message)
            case _:
                assert_never(message.role)
        self._seen.append((message.role, list(message.content), message.identity, message.stop_reason))

    def _take_question(self, message: Message) -> None:
        said: list[ContentBlock] = []
        for block in self._sent_of(message):
            match block:
                case ToolResultBlock():
                    self._take_result(block)
                case _:
                    said.append(self._fit(block))
        if said:
            self._end_loop()
            self._end_pause()
            self._turn(MessageRole.USER).blocks += said

    def _take_result(self, block: ToolResultBlock) -> None:
        """A result belongs to the last call of its id before it; without one, or with another there, it is dropped."""
        for slot in self._slots.get(block.id, ()):
            if slot.result is None:
                slot.result = clean_result(block, slot.call_id, self._album)
                self._touch(slot.turn)
                return

    def _take_answer(self, message: Message) -> None:
        kept = self._sent_of(message)
        if not kept:
            return
        fit = [self._fit(block) for block in kept]
        turn = self._turn(MessageRole.ASSISTANT)
        turn.blocks += fit
        passing = [block for block in fit if passes(block, self.target)]
        if passing:
            turn.passing += passing
            self._passing.append(turn)
        uses, answered = server_calls(kept)
        self._paused = {}  # the provider went on; what it then left open is its own affair
        if goes_on(message):
            self._paused.update({use: (turn, fit[at]) for use, at in uses.items() if use not in answered})
        slots: dict[str, list[_Slot]] = {}
        for stored, sent in zip(kept, fit):
            if isinstance(stored, ToolUseBlock) and isinstance(sent, ToolUseBlock):
                results = self._turn(MessageRole.USER)
                slot = _Slot(sent.id, results)
                results.slots.append(slot)
                slots.setdefault(stored.id, []).append(slot)
        self._slots.update(slots)

    def _sent_of(self, message: Message) -> list[ContentBlock]:
        """The blocks of `message` that are sent, as they are stored, but for reasoning that goes as text."""
        sent: list[ContentBlock] = []
        for block, verdict in zip(message.content, verdicts(message, self.target, self._server_uses)):
            if verdict == "reasoning_as_text" and isinstance(block, ThinkingBlock):
                sent.append(as_text(block))
            elif verdict is None or not RULES[verdict].left_out:
                sent.append(block)
        return sent

    def _fit(self, block: ContentBlock) -> ContentBlock:
        """A block as it is sent; the very same object where nothing is wrong with it."""
        match block:
            case TextualBlock():
                return TextualBlock(well_formed(block.text)) if has_surrogates(block.text) else block
            case CompactionSummaryBlock():
                return summary_text(block)
            case ToolUseBlock():
                fit = ToolUseBlock(self._ids.give(block.id), clean_name(block.name), clean_arguments(block.arguments))
                return block if fit == block else fit
            case ThinkingBlock():
                return (
                    block
                    if is_sealed(block) or not has_surrogates(block.text)
                    else ThinkingBlock(well_formed(block.text))
                )
            case MediaBlock():
                media = fit_media(block, self._album)
                return TextualBlock(media) if isinstance(media, str) else media
            case OpaqueBlock() | ToolResultBlock() | SystemBlock():
                return block
            case _:
                assert_never(block)

    def _end_loop(self) -> None:
        """A question of the user: reasoning that was sent back only while its tool loop ran is left out from here."""
        for turn in self._passing:
            turn.blocks = [block for block in turn.blocks if not any(block is gone for gone in turn.passing)]
            turn.passing = []
            self._touch(turn)
        self._passing = []

    def _end_pause(self) -> None:
        """A question of the user: where the provider had paused, what only its going on would complete is left out."""
        ended = self._turns[-1:] if must_not_end_on_thinking(self.target) else []
        for use, (turn, block) in self._paused.items():
            turn.blocks = [other for other in turn.blocks if other is not block]
            self._server_uses.discard(use)
            ended.append(turn)
        self._paused = {}
        for turn in ended:
            if turn.role is MessageRole.ASSISTANT:
                while turn.blocks and isinstance(turn.blocks[-1], ThinkingBlock):
                    turn.blocks.pop()
                turn.blocks = turn.blocks or [INTERRUPTED]
                self._touch(turn)

    # ---------------------------------------------------------- rendering

    def _turn(self, role: MessageRole) -> _Turn:
        """The turn to which the next block of `role` belongs."""
        if not self._turns and role is MessageRole.ASSISTANT:
            self._turn(MessageRole.USER).blocks.append(BEGINNING)
        if not self._turns or self._turns[-1].role is not role:
            self._turns.append(_Turn(role, len(self._turns)))
        self._touch(self._turns[-1])
        return self._turns[-1]

    def _touch(self, turn: _Turn) -> None:
        turn.sendable = None
        self._dirty = min(self._dirty, turn.index)

    def _render(self) -> None:
        """Make the `Sendable`s of turns that changed; one that comes out as it was before is kept."""
        start = self._dirty
        old = self._items[start:]
        end_offset = len(old) - (len(self._turns) - start)
        for at, turn in enumerate(self._turns[start:]):
            if turn.sendable is None:
                blocks = turn.all_blocks()
                for there in (at, at + end_offset):
                    if 0 <= there < len(old) and old[there].role == turn.role and old[there].blocks == blocks:
                        turn.sendable = old[there]
                        break
                else:
                    turn.sendable = Sendable(turn.role, blocks)
        self._items[start:] = [turn.sendable for turn in self._turns[start:] if turn.sendable is not None]
        self._dirty = len(self._turns)
