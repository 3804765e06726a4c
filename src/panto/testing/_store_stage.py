"""The stage on which a store is tried: fresh stores, the same data opened anew, and words for what differed.

Law: whatever a store does, sync or async, is called through `value`, so that one body of a check serves both.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TypeAlias, TypeVar, cast

from panto.conversation import Conversation, Message
from panto.session import SessionStore

from ._store_records import record

__all__ = ["Check", "Stage", "loaded", "offer", "same", "same_messages", "tick", "value"]

_T = TypeVar("_T")


class Stage:
    """The stores of one check: fresh ones, and the same data opened anew."""

    def __init__(
        self,
        make: Callable[[], SessionStore | Awaitable[SessionStore]],
        reopen: Callable[[SessionStore], SessionStore | Awaitable[SessionStore]] | None,
    ) -> None:
        self._make, self._reopen = make, reopen
        self._open: list[SessionStore] = []

    async def fresh(self) -> SessionStore:
        """A new, empty store."""
        return self._kept(await value(self._make()))

    async def again(self, store: SessionStore) -> SessionStore:
        """Another opening of the same data, or the same store where the author gave none."""
        return store if self._reopen is None else self._kept(await value(self._reopen(store)))

    def _kept(self, store: SessionStore) -> SessionStore:
        self._open.append(store)
        return store

    async def close(self) -> None:
        """Close what has a `close` or `aclose`."""
        for store in reversed(self._open):
            close = getattr(store, "aclose", None) or getattr(store, "close", None)
            if callable(close):
                await value(close())


Check: TypeAlias = Callable[[Stage], Coroutine[None, None, None]]
"""One promise. Its coroutine suspends only where the store does."""


async def value(found: _T | Awaitable[_T]) -> _T:
    """What a call gave, sync or async."""
    return await cast("Awaitable[_T]", found) if inspect.isawaitable(found) else found


def same(what: str, found: object, wanted: object) -> None:
    """Fail with both values, unless they are the same."""
    assert found == wanted, f"{what}:\n  the store gave  {_short(found)}\n  it was given    {_short(wanted)}"


def _short(thing: object) -> str:
    text = ascii(thing)
    return text if len(text) < 1500 else f"{text[:1000]} ... {text[-400:]}"


async def offer(store: SessionStore, id: str, *messages: Message, talk: Conversation | None = None) -> None:
    """Offer messages as an agent does, with the conversation they are in."""
    talk = Conversation() if talk is None else talk
    talk.messages.extend(messages)
    await value(store.append_messages(id, [record(message, talk) for message in messages]))


async def loaded(store: SessionStore, id: str) -> Conversation:
    """The conversation, which must be there."""
    found = await value(store.load(id))
    assert isinstance(found, Conversation), f"load gave {type(found).__name__} for a session with messages"
    return found


def same_messages(found: Conversation, wanted: Sequence[Message]) -> None:
    """Fail at the first message that differs."""
    for at, (one, other) in enumerate(zip(found.messages, wanted)):
        assert isinstance(one, Message), f"message {at} came back as a {type(one).__name__}"
        for name in Message.__struct_fields__:
            same(f"{name} of message {at} ({other.id})", getattr(one, name), getattr(other, name))
    same("the number of messages", len(found.messages), len(wanted))


def tick() -> None:
    """Let the clock go on, so that what comes after has a later time in every store."""
    time.sleep(0.003)
