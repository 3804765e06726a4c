"""A clock that stands still until somebody waits.

Law: no wait takes real time. Whoever waits gets its time at once and moves the clock on for everybody; on the way it
passes every time limit that somebody else has set, and lets that be noticed first.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import asyncio
    from typing import Self

T = TypeVar("T")

LONGEST = 3600.0
"""Real seconds of one wait for a queue."""

GRACE = 5.0
"""Real seconds that a wait gives whoever shall notice a time limit on its way."""


class FakeClock:
    """Time for tests: waits return at once, and move it on.

    An agent goes by the clock of the `ScriptedProvider` that is its transport. As a context manager it is the clock
    of every agent in the process that has none of its own, such as one that talks to a real server.

    A tool that takes long waits by `clock.sleep` or `await clock.sleep_async`: then its time limit ends it, in no
    time. What waits by other means (`time.sleep`, a network) waits for real, and its limit is as long for real.

    start: seconds since the epoch at its beginning.
    chance: what every draw of lots gives, at least 0 and less than 1. It makes the random half of a retry's delay:
        with 0 a delay is half of what doubling makes it.
    sleeps: the waits, in order, in seconds: of retries, and of tools.

    >>> clock = FakeClock()
    >>> clock.sleep(30)
    >>> clock.sleeps
    [30]
    """

    def __init__(self, start: float = 1_750_000_000.0, *, chance: float = 0.0) -> None:
        self.sleeps: list[float] = []
        self._now = start
        self._chance = chance
        self._lock = threading.Lock()
        self._alarms: list[_Alarm] = []
        self._before: object = None

    # ---- for tests

    def advance(self, seconds: float) -> None:
        """Move the clock on. Time limits that it passes are told, but not waited for."""
        for _ in self._move(self._now + seconds):
            pass

    def __enter__(self) -> Self:
        from panto._drive.clock import install

        self._before = install(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        from panto._drive.clock import Clock, install

        if isinstance(self._before, Clock):
            install(self._before)

    def __repr__(self) -> str:
        return f"<FakeClock at {self._now}, {len(self.sleeps)} sleeps>"

    # ---- what a driver needs, and tools may use

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._now

    def monotonic(self) -> float:
        """The same."""
        return self._now

    def chance(self) -> float:
        """Always the same."""
        return self._chance

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Wait, in no time."""
        self.sleeps.append(seconds)
        for alarm in self._move(self._now + seconds):
            alarm.noticed.wait(GRACE)

    async def sleep_async(self, seconds: float) -> None:
        """Wait, in no time; other tasks run once."""
        import asyncio

        self.sleeps.append(seconds)
        await asyncio.sleep(0)
        for alarm in self._move(self._now + seconds):
            for _ in range(1000):
                if alarm.noticed.is_set():
                    break
                await asyncio.sleep(0)

    def timer(self, seconds: float, wakes: queue.SimpleQueue[T]) -> _Alarm:
        """See `panto._drive.clock.Clock.timer`."""
        waker: queue.SimpleQueue[object] = wakes  # type: ignore[assignment]
        alarm = _Alarm(self, self._now + seconds if seconds else float("inf"), lambda: waker.put(alarm))
        return self._add(alarm)

    def get(self, source: queue.SimpleQueue[T], until: float) -> T:
        """See `panto._drive.clock.Clock.get`."""
        while True:
            left = until - self._now
            try:
                item = source.get(timeout=max(0.0, min(left, LONGEST)))
            except queue.Empty:
                if left > LONGEST:
                    continue
                self.advance(until - self._now)  # it has been that long for real
                raise
            if not isinstance(item, _Alarm):
                return item
            if not item.noticed.is_set():
                raise queue.Empty

    def limit(self, seconds: float) -> _Limit:
        """See `panto._drive.clock.Clock.limit`."""
        return _Limit(self, seconds)

    # ---- alarms

    def _add(self, alarm: _Alarm) -> _Alarm:
        with self._lock:
            self._alarms.append(alarm)
        return alarm

    def _remove(self, alarm: _Alarm) -> None:
        with self._lock:
            if alarm in self._alarms:
                self._alarms.remove(alarm)
        alarm.noticed.set()

    def _move(self, to: float) -> _Way:
        return _Way(self, to)

    def _step(self, to: float) -> _Alarm | None:
        """Move on to the next alarm before `to`, and let it go off; else to `to`."""
        with self._lock:
            due = [alarm for alarm in self._alarms if alarm.at <= to and not alarm.gone_off]
            alarm = min(due, key=lambda alarm: alarm.at, default=None)
            self._now = max(self._now, to if alarm is None else alarm.at)
            if alarm is not None:
                alarm.gone_off = True
        if alarm is not None:
            alarm.ring()
        return alarm


class _Way:
    """The alarms on the way to a time, one after the other; each moves the clock on when it is asked for."""

    def __init__(self, clock: FakeClock, to: float) -> None:
        self._clock = clock
        self._to = to

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _Alarm:
        alarm = self._clock._step(self._to)
        if alarm is None:
            raise StopIteration
        return alarm


class _Alarm:
    """A time limit of somebody. `noticed` is set when nobody waits for it any more."""

    def __init__(self, clock: FakeClock, at: float, ring: Callable[[], object]) -> None:
        self.at = at
        self.ring = ring
        self.gone_off = False
        self.noticed: threading.Event = threading.Event()
        self._clock = clock

    def cancel(self) -> None:
        self._clock._remove(self)


class _Limit:
    """`asyncio.timeout` by a fake clock."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._timeout: asyncio.Timeout | None = None
        self._alarm: _Alarm | None = None

    async def __aenter__(self) -> Self:
        import asyncio

        loop = asyncio.get_running_loop()
        timeout = self._timeout = asyncio.timeout(self._seconds or None)
        await timeout.__aenter__()

        def over() -> None:
            loop.call_soon_threadsafe(end)

        def end() -> None:
            if not alarm.noticed.is_set():
                timeout.reschedule(loop.time())

        if self._seconds:
            alarm = self._alarm = _Alarm(self._clock, self._clock.monotonic() + self._seconds, over)
            self._clock._add(alarm)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None, /
    ) -> bool | None:
        assert self._timeout is not None
        if self._alarm is not None:
            self._alarm.cancel()
        await self._timeout.__aexit__(kind, error, tb)
        return None

    def expired(self) -> bool:
        return self._timeout is not None and self._timeout.expired()
