"""How every transport fails and how it is closed, in both colours from one body."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from tests.drive.http_colours import ALL, OWN, SHORT, Colour, colour, whole
from tests.drive.http_servers import Peer, Server, answering, deaf, streaming

from panto._drive import http
from panto._drive.http import TransportError
from panto.config import Timeouts
from panto.errors import ConfigError, ErrorKind


@pytest.fixture(params=ALL)
def way(request: pytest.FixtureRequest) -> Iterator[Colour]:
    with colour(request.param) as made:
        yield made


@pytest.fixture(params=OWN)
def own(request: pytest.FixtureRequest) -> Iterator[Colour]:
    with colour(request.param) as made:
        yield made


# ---------------------------------------------------------------- failures


def failing(way: Colour, script: Callable[[Peer], None], timeouts: Timeouts = SHORT) -> tuple[bytes, TransportError]:
    got = b""
    with Server(script) as server:
        with pytest.raises(TransportError) as caught:
            answer = way.open(server.url, timeouts=timeouts)
            while part := answer.read():
                got += part
        assert f"127.0.0.1:{server.port}" in str(caught.value)
    standard = ("builtins", "ssl", "socket", "http.client", "asyncio.exceptions")
    cause = caught.value.__cause__
    assert cause is None or type(cause).__module__ in standard
    assert cause is None or cause.__traceback__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return got, caught.value


def test_ry_05_a_chunked_body_without_its_end_is_a_connection_error_after_all_that_came(way: Colour) -> None:
    got, error = failing(way, streaming(b"a", b"b", end=False))
    assert (got, error.kind, error.sent) == (b"ab", ErrorKind.CONNECTION, True)
    assert "in the middle of its answer" in error.message


def test_ry_05_a_body_shorter_than_its_content_length_is_a_connection_error(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.head("content-length: 10")
        peer.send(b"four")

    got, error = failing(way, script)
    assert (got, error.kind) == (b"four", ErrorKind.CONNECTION)


def test_ry_05_a_reset_is_a_connection_error_with_its_cause(own: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.head("transfer-encoding: chunked")
        peer.reset()

    _, error = failing(own, script)
    assert error.kind is ErrorKind.CONNECTION
    assert isinstance(error.__cause__, ConnectionError) or own.name == "aiohttp"


def test_ry_06_a_silent_stream_is_a_timeout_of_its_idle_time(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.head("transfer-encoding: chunked")
        peer.chunks(b"a", end=False)
        peer.gone()

    got, error = failing(way, script, Timeouts(idle=0.2))
    assert (got, error.kind, error.sent) == (b"a", ErrorKind.TIMEOUT, True)
    assert "silent" in error.message
    assert "0.2 s" in error.message


def test_ry_06_headers_that_never_come_are_a_timeout(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.gone()

    _, error = failing(way, script, Timeouts(idle=0.2))
    assert (error.kind, error.sent) == (ErrorKind.TIMEOUT, True)
    assert "has not answered for 0.2 s" in error.message


def test_ry_06_a_stream_that_keeps_flowing_has_no_time_limit(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.head("transfer-encoding: chunked")
        for _ in range(6):
            peer.chunks(b".", end=False)
            time.sleep(0.1)
        peer.chunks()

    with Server(script) as server:
        assert whole(way.open(server.url, timeouts=Timeouts(connect=0.3, idle=0.3))) == b"......"


def test_ry_06_an_idle_time_of_zero_is_none(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        time.sleep(0.2)
        peer.answer()

    with Server(script) as server:
        assert whole(way.open(server.url, timeouts=Timeouts(connect=0, idle=0))) == b"ok"


def test_a_host_that_takes_no_connection_is_a_timeout_before_anything_was_sent(way: Colour) -> None:
    with deaf() as port, pytest.raises(TransportError, match=r"no connection to .* within 0\.2 s") as caught:
        way.open(f"http://127.0.0.1:{port}", timeouts=Timeouts(connect=0.2, idle=5))
    assert (caught.value.kind, caught.value.sent) == (ErrorKind.TIMEOUT, False)


def test_a_refused_connection_names_host_and_reason(way: Colour) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(TransportError, match=f"cannot connect to 127.0.0.1:{port}: Connection refused") as caught:
        way.open(f"http://127.0.0.1:{port}/v1")
    assert (caught.value.kind, caught.value.sent) == (ErrorKind.CONNECTION, False)


def test_a_name_that_does_not_resolve_is_named(way: Colour, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(TransportError, match=r"'api\.example\.invalid' cannot be resolved") as caught:
        way.open("http://api.example.invalid/v1")
    assert (caught.value.kind, caught.value.sent) == (ErrorKind.CONNECTION, False)


@pytest.mark.parametrize("garbage", [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 banana\r\n\r\n"])
def test_an_answer_that_is_not_http_is_a_protocol_error(way: Colour, garbage: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(garbage)
        peer.gone(0.5)

    _, error = failing(way, script)
    assert (error.kind, error.sent) == (ErrorKind.PROTOCOL, True)


def test_chunked_framing_gone_wrong_is_a_protocol_error(way: Colour) -> None:
    # aiohttp closes the connection and tells why only if the fault came in one piece with what was read before.
    kinds = {ErrorKind.PROTOCOL, ErrorKind.CONNECTION} if way.name == "aiohttp" else {ErrorKind.PROTOCOL}

    def script(peer: Peer) -> None:
        peer.request()
        peer.head("transfer-encoding: chunked")
        peer.send(b"2\r\nok\r\nbanana\r\n")
        peer.gone(0.5)

    _, error = failing(way, script)
    assert error.kind in kinds


def test_a_compressed_answer_gone_wrong_is_a_protocol_error(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.answer(gzip.compress(b"x")[:10] + b"banana banana", "content-encoding: gzip")
        peer.gone(0.5)

    _, error = failing(way, script)
    assert error.kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize("url", ["http://", "ftp://127.0.0.1/", "http://[::1/", "127.0.0.1"])
def test_what_is_no_url_is_a_config_error(way: Colour, url: str) -> None:
    with pytest.raises(ConfigError):
        way.open(url)


# ---------------------------------------------------------------- closing


def endless(peer: Peer) -> None:
    peer.request()
    peer.head("transfer-encoding: chunked")
    peer.chunks(b"a", end=False)
    assert peer.gone(), "the client did not close"


def test_a_close_in_mid_answer_is_seen_by_the_server_at_once(way: Colour) -> None:
    with Server(endless) as server:
        answer = way.open(server.url)
        assert answer.read() == b"a"
        began = time.monotonic()
        answer.close()
        answer.close()
        assert time.monotonic() - began < 1
        with pytest.raises(TransportError, match="closed"):
            answer.read()
    assert not server.live


def test_a_dropped_answer_closes_its_connection(own: Colour) -> None:
    with Server(endless) as server:
        answer = own.open(server.url)
        assert answer.read() == b"a"
        del answer
        gc.collect()
        if own.runner is not None:
            own.runner.run(asyncio.sleep(0.01))
        deadline = time.monotonic() + 3
        while server.live and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not server.live


@pytest.mark.parametrize("name", ["urllib3", "httpx2"])
def test_a_close_from_another_thread_ends_a_waiting_read(name: str) -> None:
    with colour(name) as way, Server(endless) as server:
        answer = way.open(server.url)
        assert answer.read() == b"a"
        threading.Timer(0.1, answer.close).start()
        began = time.monotonic()
        with pytest.raises(TransportError, match="closed while it was being read"):
            answer.read()
        assert time.monotonic() - began < 2


def test_a_close_ends_a_read_that_waits_in_the_loop() -> None:
    async def scenario(url: str) -> None:
        transport = http.acquire_async()
        answer = await transport.open(url, {}, b"", SHORT)
        assert await answer.read() == b"a"
        reading = asyncio.create_task(answer.read())
        await asyncio.sleep(0.05)
        answer.close()
        with pytest.raises(TransportError, match="closed"):
            await asyncio.wait_for(reading, 2)
        await http.release_async(transport)

    with Server(endless) as server:
        asyncio.run(scenario(server.url))


def test_a_close_from_another_thread_reaches_the_loop() -> None:
    async def scenario(url: str) -> None:
        transport = http.acquire_async()
        answer = await transport.open(url, {}, b"", SHORT)
        assert await answer.read() == b"a"
        reading = asyncio.create_task(answer.read())
        await asyncio.sleep(0.05)
        await asyncio.to_thread(answer.close)
        with pytest.raises(TransportError, match="closed"):
            await asyncio.wait_for(reading, 2)
        await http.release_async(transport)

    with Server(endless) as server:
        asyncio.run(scenario(server.url))


def test_a_cancelled_read_is_cancelled_and_its_connection_closed() -> None:
    async def scenario(url: str) -> None:
        transport = http.acquire_async()
        answer = await transport.open(url, {}, b"", SHORT)
        assert await answer.read() == b"a"
        reading = asyncio.create_task(answer.read())
        await asyncio.sleep(0.05)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        answer.close()
        await http.release_async(transport)

    with Server(endless) as server:
        asyncio.run(scenario(server.url))


def test_an_answer_closed_late_does_not_touch_the_next_one_on_its_connection(own: Colour) -> None:
    with Server(answering) as server:
        first = own.open(server.url)
        assert whole(first) == b"ok"
        second = own.open(server.url)
        first.close()
        assert whole(second) == b"ok"
        assert server.connections == 1
