"""How the drivers tell time, wait and draw lots: the one seam where a test can put a clock of its own.

Law: a driver reaches no other clock. Importing this file loads no asyncio.
"""

from __future__ import annotations

import queue
import random
import time
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import threading
    from types import TracebackType
    from typing import Self

T = TypeVar("T")

LONGEST = 3600.0
"""Seconds of one wait for a queue: one without end could not be interrupted on every platform."""


class Timer(Protocol):
    """A time to come. `at` is by `Clock.monotonic`; infinite where there is none."""

    @property
    def at(self) -> float:
        """When it is."""
        ...

    def cancel(self) -> None:
        """Nobody waits for it any more. May be called twice."""
        ...


class Limit(Protocol):
    """A time limit on the body of an `async with`: a `TimeoutError` there when it is over, as of `asyncio.timeout`."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None, /
    ) -> bool | None: ...

    def expired(self) -> bool:
        """Whether it was this limit that ended the body."""
        ...


@runtime_checkable
class Clock(Protocol):
    """What a driver needs of time. A limit of 0 seconds is none."""

    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    def chance(self) -> float:
        """A random number, 0 included, 1 not."""
        ...

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Wait, blocking, but no longer once `wake` is set."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Wait, on an event loop."""
        ...

    def timer(self, seconds: float, wakes: queue.SimpleQueue[T]) -> Timer:
        """A timer for those who wait at a queue by `get`."""
        ...

    def get(self, source: queue.SimpleQueue[T], until: float) -> T:
        """Wait for an item, until that time by `monotonic`. Raises `queue.Empty` then."""
        ...

    def limit(self, seconds: float) -> Limit:
        """A time limit, on an event loop."""
        ...


class _At:
    __slots__ = ("at",)

    def __init__(self, at: float) -> None:
        self.at = at

    def cancel(self) -> None:
        """Nothing runs."""


class RealClock:
    """The clock of the machine."""

    def time(self) -> float:
        """As `Clock.time`."""
        return time.time()

    def monotonic(self) -> float:
        """As `Clock.monotonic`."""
        return time.monotonic()

    def chance(self) -> float:
        """As `Clock.chance`."""
        return random.random()

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """As `Clock.sleep`."""
        if wake is None:
            time.sleep(seconds)
        else:
            wake.wait(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """As `Clock.sleep_async`."""
        import asyncio

        await asyncio.sleep(seconds)

    def timer(self, seconds: float, wakes: queue.SimpleQueue[T]) -> Timer:
        """As `Clock.timer`; `get` does the waiting."""
        return _At(time.monotonic() + seconds if seconds else float("inf"))

    def get(self, source: queue.SimpleQueue[T], until: float) -> T:
        """As `Clock.get`."""
        while True:
            left = until - time.monotonic()
            try:
                return source.get(timeout=max(0.0, min(left, LONGEST)))
            except queue.Empty:
                if left <= 0:
                    raise

    def limit(self, seconds: float) -> Limit:
        """As `Clock.limit`."""
        import asyncio

        return asyncio.timeout(seconds or None)


_current: Clock = RealClock()


def current() -> Clock:
    """The clock of this process."""
    return _current


def install(clock: Clock) -> Clock:
    """Let `clock` be the clock of this process, for drivers made from now on; the one it was before."""
    global _current
    before, _current = _current, clock
    return before


def clock_of(transport: object) -> Clock | None:
    """The clock that a transport brings along: one whose answers take no time has its own."""
    found = getattr(transport, "clock", None)
    return found if isinstance(found, Clock) else None
