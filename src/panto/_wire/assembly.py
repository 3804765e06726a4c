"""The blocks of one message as they grow, and the events that tell of it. Both decoders build with it.

Law: indices count up in order of start, an empty delta starts no block, a block's deltas joined are its text, and
fragments are joined once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from panto.conversation import ContentBlock, ContentBlockType, OpaqueBlock, TextualBlock, ThinkingBlock, ToolUseBlock
from panto.events import BlockComplete, BlockStart, ContentDelta, ToolDetails

from .protocol import StreamEvent


class Draft:
    """One block being written: `parts` are the fragments shown so far, `block` the whole once it is complete."""

    __slots__ = ("block", "id", "index", "name", "parts", "redacted", "signature", "told", "type")

    def __init__(self, index: int, type: ContentBlockType) -> None:
        self.index = index
        self.type = type
        self.parts: list[str] = []
        self.id = ""
        self.name = ""
        self.told = False
        self.signature: str | None = None
        self.redacted: str | None = None
        self.block: ContentBlock | None = None


class Assembly:
    """Drafts in order of start, and the events not yet taken."""

    __slots__ = ("drafts", "events", "seed")

    def __init__(self, seed: str) -> None:
        self.drafts: list[Draft] = []
        self.events: list[StreamEvent] = []
        self.seed = seed

    def take(self) -> list[StreamEvent]:
        """The events since the last take."""
        events, self.events = self.events, []
        return events

    def start(self, type: ContentBlockType) -> Draft:
        """A new block."""
        draft = Draft(len(self.drafts), type)
        self.drafts.append(draft)
        self.events.append(BlockStart(draft.index, type))
        return draft

    def delta(self, draft: Draft, text: str) -> None:
        """More of a block; nothing for no text."""
        if text:
            draft.parts.append(text)
            self.events.append(ContentDelta(draft.index, draft.type, text))

    def details(self, draft: Draft) -> None:
        """Tell, once, which tool a call is for; a call without an id gets one."""
        if not draft.told:
            draft.told = True
            draft.id = draft.id or self.new_id(draft.index)
            self.events.append(ToolDetails(draft.index, draft.id, draft.name))

    def new_id(self, index: int) -> str:
        """An id for the call in block `index`: unique, and fit for every wire."""
        return f"call_{self.seed}_{index}"

    def complete(self, draft: Draft, block: ContentBlock | None = None) -> None:
        """A block is whole; `block` where it is more than its fragments."""
        if draft.block is not None:
            return
        if draft.type is ContentBlockType.TOOL_USE:
            self.details(draft)
        draft.block = block if block is not None else _block(draft, "".join(draft.parts))
        self.events.append(BlockComplete(draft.index, draft.block))

    def opaque(self, type: str, raw: str) -> None:
        """A whole block that panto has no type for."""
        self.complete(self.start(ContentBlockType.OPAQUE), OpaqueBlock(type, raw))

    def content(self) -> list[ContentBlock]:
        """The whole message; every draft is complete."""
        return [draft.block for draft in self.drafts if draft.block is not None]

    def partial(self, unseen: Sequence[StreamEvent]) -> list[ContentBlock]:
        """See `Decoder.partial`."""
        hidden: dict[int, int] = {}
        unstarted: set[int] = set()
        uncompleted: set[int] = set()
        for event in unseen:
            if isinstance(event, ContentDelta):
                hidden[event.index] = hidden.get(event.index, 0) + 1
            elif isinstance(event, BlockStart):
                unstarted.add(event.index)
            elif isinstance(event, BlockComplete):
                uncompleted.add(event.index)
        shown: list[ContentBlock] = []
        for draft in self.drafts:
            if draft.index in unstarted:
                continue
            whole = draft.block is not None and draft.index not in uncompleted
            if draft.type is ContentBlockType.TEXT:
                if text := "".join(draft.parts[: len(draft.parts) - hidden.get(draft.index, 0)]):
                    shown.append(TextualBlock(text))
            elif whole and draft.block is not None and _keepable(draft.block):
                shown.append(draft.block)
        return shown


def _block(draft: Draft, text: str) -> ContentBlock:
    if draft.type is ContentBlockType.TEXT:
        return TextualBlock(text)
    if draft.type is ContentBlockType.THINKING:
        return ThinkingBlock(text, draft.signature, draft.redacted)
    if draft.type is ContentBlockType.TOOL_USE:
        return ToolUseBlock(draft.id, draft.name, text)
    raise AssertionError(f"a block of type {draft.type} is not made of fragments")


def _keepable(block: ContentBlock) -> bool:
    """Not a call, which would need a result, and no thinking that nobody would take back."""
    if isinstance(block, ThinkingBlock):
        return block.signature is not None or block.redacted is not None
    return not isinstance(block, ToolUseBlock)
