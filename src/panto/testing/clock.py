"""A clock that stands still until somebody waits.

Law: no wait takes real time. Whoever waits gets its time at once, and everybody sees the clock moved on.
"""

from __future__ import annotations

import threading


class FakeClock:
    """Time for tests. Waits return at once and move it on.

    start: seconds since the epoch at its beginning.
    sleeps: the waits of panto and of tools, in order, in seconds.

    >>> clock = FakeClock()
    >>> clock.sleep(30)
    >>> clock.sleeps
    [30]
    """

    def __init__(self, start: float = 1_750_000_000.0) -> None:
        self.sleeps: list[float] = []
        self._now = start
        self._lock = threading.Lock()

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Wait, in no time."""
        self.sleeps.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move the clock on; no wait of anybody."""
        with self._lock:
            self._now += max(0.0, seconds)
