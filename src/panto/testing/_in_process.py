"""The way to a scripted provider without any network: a transport for each colour.

Law: a failure says what a real transport would say, and whatever would take time moves the provider's clock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from panto._drive.http import TransportError
from panto.config import Timeouts
from panto.errors import ErrorKind

from ._frames import Frame, Reply
from .clock import FakeClock
from .requests import RecordedRequest
from .script import Drop, Waited

if TYPE_CHECKING:
    from .scripted import ScriptedProvider


SILENCE = Drop("silence")


class _Reading:
    """An answer being read; what both colours share."""

    def __init__(self, request: RecordedRequest, reply: Reply, host: str, timeouts: Timeouts, clock: FakeClock) -> None:
        assert reply.status is not None
        self.status: int = reply.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in reply.headers.items()}
        self._request = request
        self._frames: deque[Frame] = deque(reply.frames)
        self._host = host
        self._timeouts = timeouts
        self._clock = clock

    def next(self) -> bytes:
        """What comes next; `b""` at the end."""
        if self._request.ended == "closed":
            raise TransportError(
                ErrorKind.CONNECTION, f"the answer of {self._host} was closed while it was being read", sent=True
            )
        while self._frames:
            frame = self._frames.popleft()
            if isinstance(frame, Waited):
                if 0 < self._timeouts.idle < frame.seconds:
                    self._request.ended = "broken"
                    raise failing(SILENCE, self._host, self._timeouts, self._clock, answered=True)
                self._clock.advance(frame.seconds)
            elif isinstance(frame, Drop):
                self._clock.advance(frame.delay)
                self._request.ended = "broken"
                if frame.how == "end":
                    return b""
                raise failing(frame, self._host, self._timeouts, self._clock, answered=True)
            elif frame:
                self._request.sent += len(frame)
                return frame
        if self._request.ended == "open":
            self._request.ended = "end"
        return b""

    def close(self) -> None:
        """As `Response.close`."""
        if self._request.ended == "open":
            self._request.ended = "closed" if self._frames else "end"


def failing(drop: Drop, host: str, timeouts: Timeouts, clock: FakeClock, *, answered: bool) -> TransportError:
    """What a real transport would say of this failure."""
    where = "in the middle of its answer" if answered else "before it answered"
    match drop.how:
        case "reset" | "end":
            words = f"{host} closed the connection {where}: Connection reset by peer"
            return TransportError(ErrorKind.CONNECTION, words, sent=True)
        case "silence":
            clock.advance(timeouts.idle)
            words = "fell silent in the middle of its answer" if answered else "has not answered"
            return TransportError(
                ErrorKind.TIMEOUT, f"{host} {words} for {timeouts.idle:g} s (Timeouts.idle)", sent=True
            )
        case "refused":
            return TransportError(ErrorKind.CONNECTION, f"cannot connect to {host}: Connection refused")
        case "certificate":
            words = f"certificate verification failed for {host}: self-signed certificate"
            return TransportError(ErrorKind.CERTIFICATE, words)


def _opened(
    provider: ScriptedProvider, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
) -> tuple[RecordedRequest, Reply, str, Timeouts, FakeClock]:
    request, came = provider.take(url, headers, body)
    host = urlsplit(request.url).netloc
    if 0 < timeouts.idle < came.delay:
        request.ended = "broken"
        raise failing(SILENCE, host, timeouts, provider.clock, answered=False)
    provider.clock.advance(came.delay)
    if came.status is None:
        request.ended = "broken"
        drop = came.frames[0]
        assert isinstance(drop, Drop)
        raise failing(drop, host, timeouts, provider.clock, answered=False)
    return request, came, host, timeouts, provider.clock


class InProcess:
    """A `Transport` to a scripted provider, without any network."""

    def __init__(self, provider: ScriptedProvider) -> None:
        self.clock: FakeClock = provider.clock
        self._provider = provider

    def open(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> InProcessResponse:
        """As `Transport.open`."""
        return InProcessResponse(*_opened(self._provider, url, headers, body, timeouts))

    def close(self) -> None:
        """As `Transport.close`."""


class InProcessResponse(_Reading):
    """A `Response` of a scripted provider."""

    def read(self) -> bytes:
        """As `Response.read`."""
        return self.next()


class AsyncInProcess:
    """An `AsyncTransport` to a scripted provider, without any network. Each read lets other tasks run once."""

    def __init__(self, provider: ScriptedProvider) -> None:
        self.clock: FakeClock = provider.clock
        self._provider = provider

    async def open(
        self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncInProcessResponse:
        """As `AsyncTransport.open`."""
        await asyncio.sleep(0)
        return AsyncInProcessResponse(*_opened(self._provider, url, headers, body, timeouts))

    async def aclose(self) -> None:
        """As `AsyncTransport.aclose`."""


class AsyncInProcessResponse(_Reading):
    """An `AsyncResponse` of a scripted provider."""

    async def read(self) -> bytes:
        """As `AsyncResponse.read`."""
        await asyncio.sleep(0)
        return self.next()
