"""One test body for every transport: each colour is opened, read and closed by plain calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import httpx2

from panto._drive import http
from panto.config import Timeouts

SHORT = Timeouts(connect=5, idle=5)
OWN = ("urllib3", "aiohttp")
"""Those that panto opens by itself."""
ALL = (*OWN, "httpx2", "httpx2-async")


class Answer(Protocol):
    status: int
    headers: Mapping[str, str]

    def read(self) -> bytes: ...
    def close(self) -> None: ...


class Colour(Protocol):
    name: str
    transport: Any
    runner: asyncio.Runner | None

    def open(
        self, url: str, headers: Mapping[str, str] = {}, body: bytes = b"{}", timeouts: Timeouts = SHORT
    ) -> Answer: ...


def whole(answer: Answer) -> bytes:
    parts = []
    while part := answer.read():
        parts.append(part)
    return b"".join(parts)


class _Sync:
    def __init__(self, name: str, transport: http.Transport) -> None:
        self.name = name
        self.transport = transport
        self.runner = None

    def open(
        self, url: str, headers: Mapping[str, str] = {}, body: bytes = b"{}", timeouts: Timeouts = SHORT
    ) -> Answer:
        return self.transport.open(url, headers, body, timeouts)


class Awaited:
    def __init__(self, inner: http.AsyncResponse, runner: asyncio.Runner) -> None:
        self.inner = inner
        self.status = inner.status
        self.headers = inner.headers
        self.runner = runner

    def read(self) -> bytes:
        return self.runner.run(self.inner.read())

    def close(self) -> None:
        self.inner.close()
        self.runner.run(asyncio.sleep(0.01))  # a loop at rest closes nothing


class _Async:
    def __init__(self, name: str, transport: http.AsyncTransport, runner: asyncio.Runner) -> None:
        self.name = name
        self.transport = transport
        self.runner = runner

    def open(
        self, url: str, headers: Mapping[str, str] = {}, body: bytes = b"{}", timeouts: Timeouts = SHORT
    ) -> Answer:
        return Awaited(self.runner.run(self.transport.open(url, headers, body, timeouts)), self.runner)


async def _acquire() -> http.AsyncTransport:
    return http.acquire_async()


@contextlib.contextmanager
def colour(name: str) -> Iterator[Colour]:
    """A transport by name, and its end."""
    match name:
        case "urllib3":
            yield _Sync(name, http.sync_transport())
            http.deinit()
        case "aiohttp":
            with asyncio.Runner() as runner:
                transport = runner.run(_acquire())
                yield _Async(name, transport, runner)
                runner.run(http.release_async(transport))
            http.deinit()
        case "httpx2":
            with httpx2.Client(trust_env=False) as client:
                yield _Sync(name, http.as_transport(client))
        case "httpx2-async":
            with asyncio.Runner() as runner:
                own = httpx2.AsyncClient(trust_env=False)
                yield _Async(name, http.as_async_transport(own), runner)
                runner.run(own.aclose())
        case _:
            raise ValueError(name)
