"""A store that keeps nothing.

Law: every method works and none does anything; sessions end with their agent.
"""

from __future__ import annotations

from collections.abc import Sequence

from panto.conversation import Conversation
from panto.session import PersistentMessage, Session, SessionInfo

from . import _ids

__all__ = ["NullStore"]


class NullStore:
    """Keeps nothing: for one-shot runs, tests, and programs that persist on their own.

    >>> store = NullStore()
    >>> session = store.create()
    >>> store.list(), store.latest(), store.resolve(session.info.id), store.load(session.info.id)
    ([], None, None, None)
    """

    in_memory = True
    """Never waits: an async agent calls it directly."""

    def create(self) -> Session:
        """A session with a new id."""
        time = _ids.now()
        return Session(SessionInfo(id=_ids.new_id(), created=time, modified=time), self)

    def list(self) -> list[SessionInfo]:
        """Nothing."""
        return []

    def resolve(self, id: str) -> Session | None:
        """Nothing, whatever the id; an impossible one is a `SessionError` here as in every store."""
        _ids.fitting(id, ())
        return None

    def latest(self) -> Session | None:
        """Nothing."""
        return None

    def load(self, id: str) -> Conversation | None:
        """Nothing."""
        return None

    def append_messages(self, session_id: str, messages: Sequence[PersistentMessage]) -> None:
        """Look away."""
