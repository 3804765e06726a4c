"""From the lines of a session to the conversation as it stood.

Law: in order, each message once, compactions replayed; a line that cannot be read costs that line and nothing else.
Where there are compactions, messages stay in bytes until it is sure that they are wanted: what was replaced is never
looked into.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from panto.conversation import CompactionSummaryBlock, Message, MessageRole
from panto.session import replay_compaction

from ._jsonl_entry import BadLine, Entry, EntryAtOnce, read_entry, read_message

__all__ = ["Replayed", "replay"]


class Replayed(msgspec.Struct):
    """What the lines held.

    messages: the conversation as it stood.
    ids: of all entries, also those that a compaction replaced.
    bad: how many lines were no entries.
    """

    messages: list[Message]
    ids: set[str]
    bad: int = 0


class _Brief(msgspec.Struct):
    role: str


_brief = msgspec.json.Decoder(_Brief)


def replay(lines: Iterable[bytes], compacted: bool = True) -> Replayed:
    """Replay the lines after the header. A message id that was there before is the same message, offered again.

    compacted: whether a compaction is to be expected; if not, messages are decoded at once, which is faster, and right
        all the same.
    """
    entries: list[Entry | EntryAtOnce] = []
    spares: dict[str, list[Entry | EntryAtOnce]] = {}  # the first of an id that can be read counts
    ids: set[str] = set()
    bad = 0
    for line in lines:
        try:
            entry = read_entry(line, not compacted)
            replaced = _replaced(read_message(entry)) if entry.type == "compaction" else 0
        except BadLine:
            bad += 1 if line.strip() else 0
            continue
        if (id := entry.id) is not None:
            if id in ids:
                spares.setdefault(id, []).append(entry)
                continue
            ids.add(id)
        if entry.type == "message":
            entries.append(entry)
        elif entry.type == "compaction":
            entries = replay_compaction(entries, entry, replaced, _is_system)
    messages: list[Message] = []
    for entry in entries:
        for one in (entry, *spares.get(entry.id or "", ())) if spares else (entry,):
            try:
                messages.append(read_message(one))
            except BadLine:
                bad += 1
            else:
                break
    return Replayed(messages, ids, bad)


def _replaced(summary: Message) -> int:
    return sum(block.replaced for block in summary.content if isinstance(block, CompactionSummaryBlock))


def _is_system(entry: Entry | EntryAtOnce) -> bool:
    if isinstance(entry, EntryAtOnce):
        return entry.message is not None and entry.message.role is MessageRole.SYSTEM
    try:
        return _brief.decode(entry.message).role == MessageRole.SYSTEM.value
    except msgspec.MsgspecError:
        return False
