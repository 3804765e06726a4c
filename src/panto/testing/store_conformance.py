"""A kit for authors of session stores: does yours keep what the protocol promises?

Law: one body for sync and async stores; the first broken promise is told in words, with what was given and what came
back.

In a test suite, one test a promise:

    @pytest.mark.parametrize("check", store_checks(), ids=str)
    def test_my_store(check, tmp_path):
        check(lambda: MyStore(new_file(tmp_path)), reopen=lambda store: MyStore(store.file))

or all at once:

>>> from panto.stores import MemoryStore
>>> check_store(MemoryStore)
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

import msgspec

from panto.session import SessionStore

from ._store_chooses import CHOOSING
from ._store_keeps import KEEPING, KEPT_NOTHING
from ._store_stage import Check, Stage

__all__ = ["Make", "Reopen", "StoreCheck", "check_store", "check_store_async", "store_checks"]

Make: TypeAlias = Callable[[], SessionStore | Awaitable[SessionStore]]
"""Makes a new, empty store each time it is called; may be a coroutine function."""

Reopen: TypeAlias = Callable[[SessionStore], SessionStore | Awaitable[SessionStore]]
"""Opens the data of a store once more, as another process would."""


_METHODS = ("list", "resolve", "latest", "load", "append_messages")


class StoreCheck(msgspec.Struct, frozen=True):
    """One promise of the protocol. Call it with a `make`, or await `run_async` inside an event loop.

    name: a sentence with underscores, stable; `str()` gives it.
    promise: what a store must do.

    Raises `AssertionError` that names the promise and what differed. Whatever the store itself raises goes through.
    """

    name: str
    promise: str
    check: Check

    def __call__(self, make: Make, *, reopen: Reopen | None = None) -> None:
        """Try the store that `make` makes, sync or async (in an event loop of its own)."""
        first = None if inspect.iscoroutinefunction(make) else make()
        if first is None or inspect.isawaitable(first):
            if inspect.iscoroutine(first):
                first.close()
            asyncio.run(self.run_async(make, reopen=reopen))
            return
        made = [first]
        trial = self.run_async(lambda: made.pop() if made else make(), reopen=reopen)
        if any(inspect.iscoroutinefunction(getattr(first, name, None)) for name in _METHODS):
            asyncio.run(trial)
            return
        try:
            trial.send(None)
        except StopIteration:
            return
        trial.close()
        raise TypeError("this store waits in an event loop; write its methods as coroutine functions (`async def`)")

    async def run_async(self, make: Make, *, reopen: Reopen | None = None) -> None:
        """The same, inside a running event loop."""
        stage = Stage(make, reopen)
        try:
            await self.check(stage)
        except AssertionError as error:
            raise AssertionError(f"{self.name}: {self.promise}\n{error}") from None
        finally:
            await stage.close()

    def __str__(self) -> str:
        return self.name


def store_checks(*, keeps: bool = True, exempt: Collection[str] = ()) -> list[StoreCheck]:
    """The promises, in the order in which a new store should meet them.

    keeps: false for a store that keeps nothing on purpose, such as `NullStore`: it is asked only to create sessions
        without fail, to take every append, and to give nothing.
    exempt: names of promises left out. Say in your documentation which and why.

    Raises `ValueError` for a name that is none.
    """
    all_ = [
        StoreCheck(check.__name__, (inspect.getdoc(check) or "").partition("\n")[0], check)
        for check in ((*KEEPING, *CHOOSING) if keeps else KEPT_NOTHING)
    ]
    if unknown := set(exempt) - {check.name for check in all_}:
        raise ValueError(f"no such promise: {', '.join(sorted(unknown))}")
    return [check for check in all_ if check.name not in exempt]


def check_store(make: Make, *, reopen: Reopen | None = None, keeps: bool = True, exempt: Collection[str] = ()) -> None:
    """Try every promise; raises `AssertionError` at the first that is broken.

    make: makes a new, empty store each time.
    reopen: opens the data of a given store once more. With it everything is read back through another opening, so
        that a store which only remembers is found out. Without it the same store is asked.
    keeps, exempt: as in `store_checks`.
    """
    for check in store_checks(keeps=keeps, exempt=exempt):
        check(make, reopen=reopen)


async def check_store_async(
    make: Make, *, reopen: Reopen | None = None, keeps: bool = True, exempt: Collection[str] = ()
) -> None:
    """`check_store`, inside a running event loop."""
    for check in store_checks(keeps=keeps, exempt=exempt):
        await check.run_async(make, reopen=reopen)
