"""What a store is offered, and what it must give back.

Law: rich on write, minimal on read, wire facts only. No record type has a place for a key.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from .config import APIStyle, ProviderConfig, ReasoningEffort, WireIdentity
from .conversation import Conversation, Message
from .errors import SessionNotFound
from .tools import ToolDecl
from .usage import Usage

__all__ = ["PersistentMessage", "Session", "SessionInfo", "SessionStore", "match", "replay_compaction"]

_T = TypeVar("_T")


class PersistentMessage(msgspec.Struct, frozen=True):
    """One message offered to a store, with all there is to know of it.

    `conversation` is the live conversation, its bag included, and `tools_available` the very declarations offered in
    the call; both are valid during `append_messages` only: a store that keeps them encodes them there and then.
    `identity` is `None` on system messages.
    """

    message: Message
    usage: Usage | None
    identity: WireIdentity | None
    conversation: Conversation
    tools_available: Sequence[ToolDecl] = ()


class SessionInfo(msgspec.Struct):
    """What choosing a session needs, and no more.

    `created` and `modified` are ISO 8601 in UTC; `last_user_message` may be cut. The last four are the identity used
    last, `None` before the first answer.
    """

    id: str
    created: str
    modified: str
    message_count: int = 0
    last_user_message: str = ""
    api_style: APIStyle | None = None
    base_url: str | None = None
    model: str | None = None
    reasoning: ReasoningEffort | None = None

    @property
    def identity(self) -> WireIdentity | None:
        """The identity used last, as one value."""
        if self.api_style is None or self.base_url is None or self.model is None:
            return None
        return WireIdentity(self.api_style, self.base_url, self.model, self.reasoning or ReasoningEffort.DEFAULT)


@runtime_checkable
class SessionStore(Protocol):
    """Where sessions live. Every method but `create` may be a coroutine function; either kind works under any agent.

    The write side is offered everything and keeps what it wants; the read side is asked for no more than resuming
    and choosing need. An audit store should not write `tools_available` and `conversation` out with each record:
    hash each declaration and message, keep a table by hash, and let a record be a list of hashes.

    A store that never waits says so by a true attribute `in_memory`, and is then called directly in an event loop; the
    sync methods of others are called in a thread. `panto.testing.store_conformance` tries all that is promised here.
    """

    def create(self) -> Session:
        """A new session. Cannot fail and touches nothing: nothing is kept before the first `append_messages`."""
        ...

    def list(self) -> Sequence[SessionInfo] | Awaitable[Sequence[SessionInfo]]:
        """All sessions, the one used last first."""
        ...

    def resolve(self, id: str, /) -> Session | Awaitable[Session | None] | None:
        """The session with this id, or whose id begins so; `None` if there is none.

        Raises `AmbiguousSession` when several do, `SessionError` for an empty or impossible id.
        """
        ...

    def latest(self) -> Session | Awaitable[Session | None] | None:
        """The session whose last message is the newest, or `None`."""
        ...

    def load(self, id: str, /) -> Conversation | Awaitable[Conversation | None] | None:
        """The conversation as it stood, or `None` if there is no such session."""
        ...

    def append_messages(self, session_id: str, messages: Sequence[PersistentMessage], /) -> Awaitable[None] | None:
        """Keep these messages, after those kept before, durably; all or an error.

        Raises `StoreError` when it cannot; the same messages are then offered again with the next. A message is known
        by its `id`: one that is kept already is not kept twice, so that offering again does no harm.
        """
        ...


class Session(msgspec.Struct, eq=False):
    """One session of a store: what is known of it, and the store to ask."""

    info: SessionInfo
    store: SessionStore

    def load(self) -> Conversation | Awaitable[Conversation]:
        """The conversation as it stood; awaitable if the store is async.

        Raises `SessionNotFound` when its record is gone.
        """
        found = self.store.load(self.info.id)
        return self._loaded_later(found) if inspect.isawaitable(found) else self._loaded(found)

    def append(self, messages: Sequence[PersistentMessage]) -> Awaitable[None] | None:
        """Give messages to the store, then note the identity used last in `info`; awaitable if the store is async."""
        done = self.store.append_messages(self.info.id, messages)
        if inspect.isawaitable(done):
            return self._appended_later(done, messages)
        self._note(messages)
        return None

    def _loaded(self, found: Conversation | None) -> Conversation:
        if found is None:
            raise SessionNotFound(f"session {self.info.id} is gone from its store; start a new one")
        return found

    async def _loaded_later(self, found: Awaitable[Conversation | None]) -> Conversation:
        return self._loaded(await found)

    async def _appended_later(self, done: Awaitable[None], messages: Sequence[PersistentMessage]) -> None:
        await done
        self._note(messages)

    def _note(self, messages: Sequence[PersistentMessage]) -> None:
        for record in messages:
            if (identity := record.identity) is not None:
                info = self.info
                info.api_style, info.base_url = identity.api_style, identity.base_url
                info.model, info.reasoning = identity.model, identity.reasoning


def match(candidates: Mapping[str, ProviderConfig], info: SessionInfo) -> list[str]:
    """The names of all candidates that speak with the very identity the session used last.

    None, one or many; the caller picks. Aliases are never stored, so this is a look-up in what is configured now.
    """
    wanted = info.identity
    return [] if wanted is None else [name for name, config in candidates.items() if config.wire_identity() == wanted]


def replay_compaction(messages: Sequence[_T], summary: _T, replaced: int, is_system: Callable[[_T], bool]) -> list[_T]:
    """The history after a compaction, as memory holds it and as every store replays it.

    `replaced` messages that are not system messages give way to `summary`, counted from the front of `messages` as
    they stand (an earlier summary counts as one). The system messages before the first one kept go before the
    summary, in their order; all that follows stays as it is. A count of 0 replaces nothing: the summary is then the
    last message; one that is too large replaces all there are.

    >>> replay_compaction(["S1", "u1", "a1", "S2", "u2", "a2"], "sum", 2, lambda m: m[0] == "S")
    ['S1', 'sum', 'S2', 'u2', 'a2']
    """
    if replaced <= 0:
        return [*messages, summary]
    system: list[_T] = []
    at = 0
    while at < len(messages) and replaced > 0:
        if is_system(messages[at]):
            system.append(messages[at])
        else:
            replaced -= 1
        at += 1
    return [*system, summary, *messages[at:]]
