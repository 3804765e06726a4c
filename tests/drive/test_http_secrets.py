"""A canary in the headers and in the URL of a request is on the wire and nowhere else."""

from __future__ import annotations

import asyncio
import http.client
import io
import logging
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout

import pytest
from tests.drive.http_colours import ALL, OWN, Answer, Awaited, Colour, colour, whole
from tests.drive.http_servers import Peer, Server

from panto._drive.http import TransportError
from panto._secret import Secret
from panto.config import Timeouts
from panto.errors import ErrorKind

KEY = "sk-CANARY-1"
TOKEN = "CANARY-2"
QUERY = "CANARY-3"
PASSWORD = "CANARY-4"
HEADERS = {"Authorization": Secret(f"Bearer {KEY}"), "X-Token": Secret(TOKEN)}
IDLE = Timeouts(connect=1, idle=0.2)


def opened(way: Colour, url: Secret, timeouts: Timeouts = IDLE) -> Answer:
    """Opens secrets as the drivers do: in the call itself, so that no local of this frame holds one."""
    if way.runner is None:
        answer: Answer = way.transport.open(
            url(), {name: secret() for name, secret in HEADERS.items()}, b"{}", timeouts
        )
        return answer
    return Awaited(
        way.runner.run(
            way.transport.open(url(), {name: secret() for name, secret in HEADERS.items()}, b"{}", timeouts)
        ),
        way.runner,
    )


def address(port: int) -> Secret:
    return Secret(f"http://user:{PASSWORD}@127.0.0.1:{port}/v1?key={QUERY}")


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """All that any logger says at DEBUG, also those that appear during the test."""
    kept: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(record)

    handler, root = Keep(0), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(0)
    yield kept
    root.removeHandler(handler)
    root.setLevel(level)


def everything(records: list[logging.LogRecord]) -> str:
    return "\n".join(f"{record.getMessage()} {record.__dict__}" for record in records)


def clean(text: str) -> bool:
    # Asked here, so that the word is no local of a frame that a traceback shows.
    return "CANARY" not in text


def shown(error: BaseException) -> str:
    """What any reporter of errors may show: text, causes, contexts, frames with their locals."""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    parts = ["".join(told.format())]
    seen: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None or one in seen:
            continue
        seen.append(one)
        parts.append(f"{one!r} {one} {one.args!r} {vars(one)!r}")
        parts.append("".join(traceback.TracebackException.from_exception(one, capture_locals=True).format()))
        todo += [one.__cause__, one.__context__]
    return "\n".join(parts)


def died(peer: Peer) -> None:
    peer.request()


def silent(peer: Peer) -> None:
    peer.request()
    peer.gone()


def garbled(peer: Peer) -> None:
    request = peer.request()
    assert request is not None
    peer.send(f"echo {request.headers} {request.target}\r\n\r\n".encode())
    peer.gone(0.5)


def cut(peer: Peer) -> None:
    peer.request()
    peer.head("transfer-encoding: chunked")
    peer.chunks(b"a", end=False)


def packed(peer: Peer) -> None:
    peer.request()
    peer.answer(b"no gzip at all, and long enough", "content-encoding: gzip")
    peer.gone(0.5)


@pytest.mark.parametrize("name", ALL)
def test_the_canary_arrives_and_no_log_says_it(name: str, records: list[logging.LogRecord]) -> None:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out), Server() as server, colour(name) as way:
        whole(opened(way, address(server.port)))
        whole(opened(way, address(server.port)))
        (request, _) = server.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-token"] == TOKEN
    assert request.target == f"/v1?key={QUERY}"
    said = everything(records)
    assert clean(said + out.getvalue())
    talkative = {"urllib3": "urllib3", "aiohttp": "asyncio", "httpx2": "httpx2", "httpx2-async": "httpx2"}
    assert any(record.name.startswith(talkative[name]) for record in records), "nothing was logged: no proof"


FAILURES = [(name, script) for name in ALL for script in (died, silent, cut, packed)]
# httpcore2 logs what a server sends that is not HTTP; panto's own libraries do not, even when that is the request.
FAILURES += [(name, garbled) for name in OWN]


@pytest.mark.parametrize(("name", "script"), FAILURES)
def test_a_failure_shows_no_canary_anywhere(
    name: str, script: Callable[[Peer], None], records: list[logging.LogRecord]
) -> None:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out), Server(script) as server, colour(name) as way:
        with pytest.raises(TransportError) as caught:
            whole(opened(way, address(server.port)))
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert clean(shown(caught.value))
    assert clean(everything(records) + out.getvalue())


@pytest.mark.parametrize("name", ALL)
def test_a_connection_that_cannot_be_made_shows_no_canary(name: str, records: list[logging.LogRecord]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with colour(name) as way, pytest.raises(TransportError) as caught:
        opened(way, address(port))
    assert clean(shown(caught.value) + everything(records))


@pytest.mark.parametrize("name", OWN)
def test_a_host_whose_name_is_part_of_the_error_is_still_told_without_secrets(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def telling(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, f"no {KEY}")

    monkeypatch.setattr(socket, "getaddrinfo", telling)
    with colour(name) as way, pytest.raises(TransportError, match="cannot be resolved") as caught:
        opened(way, Secret("http://api.example.invalid/"))
    assert caught.value.kind is ErrorKind.CONNECTION
    assert clean(shown(caught.value))
    assert caught.value.__cause__ is None


def test_the_switch_of_http_client_that_prints_headers_does_not_print_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.client.HTTPConnection, "debuglevel", 1)
    out = io.StringIO()
    with redirect_stdout(out), Server() as server, colour("urllib3") as way:
        whole(opened(way, address(server.port)))
        assert server.requests
    assert clean(out.getvalue())


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill of oneself with SIGINT is no Ctrl-C there")
@pytest.mark.parametrize("name", ["urllib3", "httpx2"])
@pytest.mark.parametrize("phase", ["headers", "body"])
def test_ctrl_c_shows_no_canary(name: str, phase: str) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        if phase == "body":
            peer.head("transfer-encoding: chunked")
            peer.chunks(b"a", end=False)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
        peer.gone()

    with Server(script) as server, colour(name) as way:
        with pytest.raises(KeyboardInterrupt) as caught:
            answer = opened(way, address(server.port), Timeouts(idle=10))
            while answer.read():
                pass
    assert clean(shown(caught.value))


def test_a_cancelled_open_shows_no_canary() -> None:
    from panto._drive import http as drive

    async def opening(transport: drive.AsyncTransport, url: Secret) -> None:
        await transport.open(url(), {name: secret() for name, secret in HEADERS.items()}, b"{}", Timeouts(idle=10))

    async def scenario(url: Secret) -> None:
        transport = drive.acquire_async()
        task = asyncio.create_task(opening(transport, url))
        await asyncio.sleep(0.1)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            assert clean(shown(error))
        else:
            raise AssertionError("not cancelled")
        await drive.release_async(transport)

    with Server(silent) as server:
        asyncio.run(scenario(address(server.port)))
