"""Stores that break one promise each: what the conformance kit must find."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter

import msgspec

from panto.conversation import Conversation, OpaqueBlock
from panto.session import Session, SessionInfo
from panto.stores import MemoryStore, _ids


class Drops(MemoryStore):
    """Keeps the last message of every append only."""

    def append_messages(self, session_id, messages):
        super().append_messages(session_id, messages[-1:])


class Reorders(MemoryStore):
    """Keeps the messages of one append in the wrong order."""

    def append_messages(self, session_id, messages):
        super().append_messages(session_id, messages[::-1])


class Duplicates(MemoryStore):
    """Keeps again what is offered again."""

    def __init__(self):
        super().__init__()
        self.offered = Counter()

    def append_messages(self, session_id, messages):
        super().append_messages(session_id, messages)
        self.offered.update((session_id, record.message.id) for record in messages)

    def load(self, id):
        if found := super().load(id):
            found.messages = [each for each in found.messages for _ in range(self.offered[id, each.id])]
        return found


class ParsesMetadata(MemoryStore):
    """Reads bags as JSON and writes them anew."""

    def load(self, id):
        if found := super().load(id):
            for message in found.messages:
                try:
                    message.metadata = json.dumps(json.loads(message.metadata))
                except (TypeError, ValueError):
                    pass
        return found


class Aliases(MemoryStore):
    """Keeps the live messages and gives them out."""

    def __init__(self):
        super().__init__()
        self.live = {}

    def append_messages(self, session_id, messages):
        super().append_messages(session_id, messages)
        live = self.live.setdefault(session_id, {})
        for record in messages:
            live.setdefault(record.message.id, record.message)

    def load(self, id):
        found = super().load(id)
        if found:
            found.messages = [self.live[id].get(message.id, message) for message in found.messages]
        return found


class ForgetsTheBag(MemoryStore):
    """Keeps the messages alone."""

    def load(self, id):
        found = super().load(id)
        return Conversation(None, found.messages) if found else None


class LosesUnknownFields(MemoryStore):
    """Keeps the type of an opaque block and what of it has a name."""

    def append_messages(self, session_id, messages):
        def known(block):
            if not isinstance(block, OpaqueBlock):
                return block
            value = json.loads(block.raw)
            return OpaqueBlock(block.type, json.dumps({"type": value["type"], "id": value["id"]}))

        replace = msgspec.structs.replace
        super().append_messages(
            session_id,
            [
                replace(record, message=replace(record.message, content=[known(b) for b in record.message.content]))
                for record in messages
            ],
        )


class MixesSessions(MemoryStore):
    """Names sessions by the second they were made in."""

    def append_messages(self, session_id, messages):
        super().append_messages(session_id[:9] + "0000-7000-8000-000000000000", messages)

    def load(self, id):
        return super().load(id[:9] + "0000-7000-8000-000000000000")


class ResolvesAmbiguousPrefixes(MemoryStore):
    """Takes the newest session that fits."""

    def resolve(self, id):
        known = {info.id: info for info in self.list()}
        names = _ids.fitting(id, known)
        return Session(known[names[0]], self) if names else None


class BlocksOnCreate(MemoryStore):
    """Reaches for its database when a session is created."""

    def create(self):
        time.sleep(0.06)
        return super().create()


BROKEN = {
    Drops: "messages_come_back_whole_and_in_order",
    Reorders: "messages_come_back_whole_and_in_order",
    Duplicates: "a_message_offered_again_is_kept_once",
    ParsesMetadata: "the_bag_of_a_message_comes_back_byte_for_byte",
    Aliases: "what_is_kept_is_a_copy",
    ForgetsTheBag: "the_bag_of_a_conversation_comes_back_byte_for_byte",
    LosesUnknownFields: "every_field_comes_back",
    MixesSessions: "sessions_are_not_mixed",
    ResolvesAmbiguousPrefixes: "a_session_resolves_by_a_beginning_that_fits_no_other",
    BlocksOnCreate: "create_touches_nothing_and_cannot_fail",
}


class Asynchronous:
    """A memory store behind coroutines that really wait."""

    def __init__(self, inner=None):
        self.inner = inner or MemoryStore()
        self.closed = False

    def create(self):
        return Session(self.inner.create().info, self)

    async def list(self):
        await _pause()
        return self.inner.list()

    async def resolve(self, id):
        await _pause()
        found = self.inner.resolve(id)
        return found and Session(found.info, self)

    async def latest(self):
        await _pause()
        found = self.inner.latest()
        return found and Session(found.info, self)

    async def load(self, id):
        await _pause()
        return self.inner.load(id)

    async def append_messages(self, session_id, messages):
        await _pause()
        self.inner.append_messages(session_id, messages)

    async def aclose(self):
        await _pause()
        self.closed = True


async def _pause():
    await asyncio.sleep(0)


class CreatesLater(Asynchronous):
    """Has a coroutine where none may be."""

    async def create(self):
        return super().create()


class KeepsTheDraft(MemoryStore):
    """Lists sessions before their first answer."""

    def list(self):
        return [kept.tail.info(id, kept.created) for id, kept in self._sessions.items()]


class GoesByCreation(MemoryStore):
    """Takes the newest id for the latest session."""

    def list(self):
        return sorted(super().list(), key=lambda info: info.id, reverse=True)


class MisreadsTheEmptyId(MemoryStore):
    """Finds a session for an unset variable."""

    def resolve(self, id):
        return self.latest() if not id.strip() else super().resolve(id)


class RemembersOnly(MemoryStore):
    """Keeps nothing that another opening would see."""

    def reopened(self):
        return MemoryStore()


class SaysLittle(MemoryStore):
    """Tells no more than the id."""

    def list(self):
        return [SessionInfo(id=info.id, created=info.created, modified=info.modified) for info in super().list()]


class OneThreadOnly(MemoryStore):
    """Loses messages when two append at once."""

    def append_messages(self, session_id, messages):
        kept = self._sessions.get(session_id)
        lines = list(kept.lines) if kept else []
        super().append_messages(session_id, messages)
        if len(lines) >= 2 and kept is not None:
            new = kept.lines[len(lines) :]
            time.sleep(0.001)
            kept.lines = lines + new


class ForgetsCompactions(MemoryStore):
    """Loads the log as it is written."""

    def load(self, id):
        kept = self._sessions.get(id)
        if kept is None:
            return None
        from panto.stores._jsonl_entry import read_entry, read_message

        return Conversation(kept.metadata, [read_message(read_entry(line)) for line in kept.lines])


MORE_BROKEN = {
    CreatesLater: "create_touches_nothing_and_cannot_fail",
    KeepsTheDraft: "a_session_without_an_answer_is_not_listed",
    GoesByCreation: "the_latest_is_the_one_with_the_newest_message",
    MisreadsTheEmptyId: "a_session_resolves_by_a_beginning_that_fits_no_other",
    SaysLittle: "the_list_tells_what_choosing_needs",
    OneThreadOnly: "appends_at_once_lose_nothing",
    ForgetsCompactions: "a_compaction_replays",
}
