"""A store that lives as long as the process.

Law: it behaves as the store on disk does, without the disk: what goes in is copied, what comes out is a copy, and a
session without an answer is in no list.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from panto.conversation import Conversation
from panto.session import PersistentMessage, Session, SessionInfo

from . import _ids
from ._jsonl_entry import prepare
from ._replay import replay
from ._tail import Tail

__all__ = ["MemoryStore"]


class _Kept(msgspec.Struct):
    created: str
    metadata: str | None
    lines: list[bytes] = msgspec.field(default_factory=list)
    ids: set[str] = msgspec.field(default_factory=set)
    tail: Tail = Tail()
    answered: bool = False


class MemoryStore:
    """Sessions in memory: for tests, and for programs that resume within one process. Safe over threads.

    >>> store = MemoryStore()
    >>> session = store.create()
    >>> store.list()
    []
    """

    in_memory = True
    """Never waits: an async agent calls it directly."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def create(self) -> Session:
        """A session with a new id; nothing is kept of it before its first message."""
        time = _ids.now()
        return Session(SessionInfo(id=_ids.new_id(), created=time, modified=time), self)

    def list(self) -> list[SessionInfo]:
        """All sessions that have an answer, the one used last first."""
        with self._lock:
            found = [kept.tail.info(id, kept.created) for id, kept in self._sessions.items() if kept.answered]
        return sorted(found, key=lambda info: (info.modified, info.id), reverse=True)

    def resolve(self, id: str) -> Session | None:
        """The session with this id, or whose id begins so.

        Raises `AmbiguousSession` when several do, `SessionError` for what is no id.
        """
        known = {info.id: info for info in self.list()}
        names = _ids.fitting(id, known)
        if len(names) > 1:
            raise _ids.ambiguous(id, [known[name] for name in names])
        return Session(known[names[0]], self) if names else None

    def latest(self) -> Session | None:
        """The session with the newest message."""
        found = self.list()
        return Session(found[0], self) if found else None

    def load(self, id: str) -> Conversation | None:
        """A copy of the conversation as it stood."""
        with self._lock:
            kept = self._sessions.get(id)
            lines = list(kept.lines) if kept else []
        return None if kept is None else Conversation(kept.metadata, replay(lines).messages)

    def append_messages(self, session_id: str, messages: Sequence[PersistentMessage]) -> None:
        """Keep copies of the messages; those that are there already are left out."""
        if not messages:
            return
        _ids.check_id(session_id)
        time = _ids.now()
        records = [prepare(record, time) for record in messages]
        with self._lock:
            kept = self._sessions.get(session_id)
            if kept is None:
                kept = _Kept(_ids.created_of(session_id, time), messages[0].conversation.metadata)
                self._sessions[session_id] = kept
            for record in records:
                if record.id not in kept.ids:
                    line, kept.tail = record.line(kept.tail)
                    kept.lines.append(line)
                    kept.ids.add(record.id)
                    kept.answered = kept.answered or record.answers

    def delete(self, id: str) -> bool:
        """Forget the session with this full id; whether there was one."""
        with self._lock:
            return self._sessions.pop(_ids.check_id(id), None) is not None
