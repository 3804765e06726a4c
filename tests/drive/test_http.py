"""What every transport does, in both colours from one body: bytes, phases, failures, closing."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator

import pytest
from tests.drive.http_colours import ALL, OWN, SHORT, Colour, colour, whole
from tests.drive.http_servers import Peer, Server, answering, deaf

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


def streaming(*parts: bytes, end: bool = True) -> Callable[[Peer], None]:
    def script(peer: Peer) -> None:
        while peer.request() is not None:
            peer.head("transfer-encoding: chunked", "content-type: text/event-stream")
            peer.chunks(*parts, end=end)
            if not end:
                return

    return script


# ---------------------------------------------------------------- the request


def test_the_request_carries_url_headers_and_body_and_nothing_that_was_not_asked_for(way: Colour) -> None:
    with Server() as server:
        answer = way.open(
            f"{server.url}/v1/x%20y?key=a%2Fb&z", {"X-Token": "t", "Content-Type": "application/json"}, b"[1]"
        )
        assert (answer.status, whole(answer)) == (200, b"ok")
        (request,) = server.requests
    assert (request.method, request.target, request.body) == ("POST", "/v1/x%20y?key=a%2Fb&z", b"[1]")
    given = {"x-token": "t", "content-type": "application/json", "content-length": "3", "accept-encoding": "identity"}
    assert given.items() <= request.headers.items()
    extra = set(request.headers) - set(given)
    assert extra <= {"host", "user-agent", "accept", "connection"}


def test_user_and_password_of_a_url_become_basic_authorization(way: Colour) -> None:
    with Server() as server:
        url = server.url.replace("://", "://us%40er:p%3Aw@")
        whole(way.open(url + "/v1"))
        whole(way.open(url + "/v1", {"Authorization": "Bearer given"}))
        first, second = server.requests
    assert first.headers["authorization"] == "Basic dXNAZXI6cDp3"
    assert second.headers["authorization"] == "Bearer given"


def test_a_large_body_goes_out_whole(way: Colour) -> None:
    body = bytes(range(256)) * 8192
    with Server() as server:
        whole(way.open(server.url + "/", {}, body))
        assert server.requests[0].body == body


def test_a_slow_upload_is_not_held_to_the_time_for_connecting(own: Colour) -> None:
    def script(peer: Peer) -> None:
        time.sleep(0.5)
        while peer.request() is not None:
            peer.answer()

    with Server(script) as server:
        timeouts = Timeouts(connect=0.2, idle=5)
        assert whole(own.open(server.url, {}, b"x" * 8_000_000, timeouts)) == b"ok"


# ---------------------------------------------------------------- the answer


def test_what_the_server_sends_is_read_before_it_sends_more(way: Colour) -> None:
    seen = threading.Semaphore(0)

    def script(peer: Peer) -> None:
        peer.request()
        peer.head("transfer-encoding: chunked")
        for part in (b"a", b"bc", b"d"):
            peer.chunks(part, end=False)
            assert seen.acquire(timeout=5)
        peer.send(b"0\r\n\r\n")
        peer.gone()

    with Server(script) as server:
        answer = way.open(server.url)
        for part in (b"a", b"bc", b"d"):
            assert answer.read() == part
            seen.release()
        assert answer.read() == b""
        assert answer.read() == b""
        answer.close()


@pytest.mark.parametrize("end", ["chunked", "length", "close"])
def test_each_way_to_end_a_body(way: Colour, end: str) -> None:
    body = b"data: x\n\n" * 5000

    def script(peer: Peer) -> None:
        peer.request()
        match end:
            case "chunked":
                peer.head("transfer-encoding: chunked")
                peer.chunks(body[:7], body[7:40_000], body[40_000:])
            case "length":
                peer.answer(body)
            case _:
                peer.head("connection: close")
                peer.send(body)

    with Server(script) as server:
        assert whole(way.open(server.url)) == body


def test_many_small_chunks_at_once_are_few_reads(own: Colour) -> None:
    with Server(streaming(*[b"data: %d\n\n" % n for n in range(5000)])) as server:
        answer, reads, got = own.open(server.url), 0, b""
        while part := answer.read():
            reads, got = reads + 1, got + part
    assert got == b"".join(b"data: %d\n\n" % n for n in range(5000))
    assert reads < 500


def test_more_than_any_buffer_holds_arrives_whole_though_it_is_read_late(own: Colour) -> None:
    body = b"data: 0123456789\n\n"
    with Server(streaming(*[body] * 60_000, b"x" * 3_000_000, *[body] * 60_000)) as server:
        for _ in range(2):
            answer = own.open(server.url)
            time.sleep(0.2)
            assert whole(answer) == body * 60_000 + b"x" * 3_000_000 + body * 60_000
        assert server.connections == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_answer_is_read_as_it_comes(way: Colour, encoding: str) -> None:
    seen = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        packer = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
        peer.head("transfer-encoding: chunked", f"content-encoding: {encoding}")
        peer.chunks(packer.compress(b"first") + packer.flush(zlib.Z_SYNC_FLUSH), end=False)
        assert seen.wait(5)
        peer.chunks(packer.compress(b"second") + packer.flush())
        peer.gone()

    with Server(script) as server:
        answer = way.open(server.url)
        assert answer.read() == b"first"
        seen.set()
        assert whole(answer) == b"second"
        answer.close()


def test_an_encoding_that_nobody_asked_for_is_named(own: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.answer(b"???", "content-encoding: snappy")
        peer.gone()

    with Server(script) as server, pytest.raises(TransportError, match="'snappy'") as caught:
        own.open(server.url)
    assert caught.value.kind is ErrorKind.PROTOCOL


def test_header_names_are_lower_case_and_repeated_ones_are_joined(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.answer(b"", "X-Request-Id: r1", "Retry-After: 1", "retry-after: 2")

    with Server(script) as server:
        answer = way.open(server.url)
        whole(answer)
    assert answer.headers["x-request-id"] == "r1"
    assert answer.headers["retry-after"] == "1, 2"


def test_an_error_status_is_an_answer_like_any_other(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.answer(b'{"error":"no"}', status="429 Too Many Requests")

    with Server(script) as server:
        answer = way.open(server.url)
        assert (answer.status, whole(answer)) == (429, b'{"error":"no"}')


def test_a_redirect_is_not_followed(way: Colour) -> None:
    with Server() as elsewhere:

        def script(peer: Peer) -> None:
            peer.request()
            peer.answer(b"", f"location: {elsewhere.url}/", status="307 Temporary Redirect")

        with Server(script) as server:
            answer = way.open(server.url, {"Authorization": "Bearer k"})
            assert (answer.status, whole(answer)) == (307, b"")
        assert not elsewhere.requests


# ---------------------------------------------------------------- connections


def test_a_connection_is_used_again(way: Colour) -> None:
    with Server(streaming(b"a", b"b")) as server:
        for _ in range(3):
            answer = way.open(server.url)
            assert whole(answer) == b"ab"
            answer.close()
        assert (len(server.requests), server.connections) == (3, 1)


def test_a_close_after_the_last_byte_of_the_answer_keeps_the_connection() -> None:
    with colour("urllib3") as way, Server(streaming(b"data: [DONE]\n\n", end=True)) as server:
        for _ in range(2):
            answer = way.open(server.url)
            answer.read()
            time.sleep(0.05)  # the end of the body is on its way
            answer.close()
        assert server.connections == 1


def test_a_pooled_connection_that_the_server_closed_costs_nothing_but_a_new_one(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.answer()

    with Server(script) as server:
        for _ in range(3):
            assert whole(way.open(server.url)) == b"ok"
            time.sleep(0.02)
        assert (len(server.requests), server.connections) == (3, 3)


def test_a_request_that_met_a_dying_pooled_connection_is_sent_again_once(own: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.answer()
        if peer.request() is not None:
            peer.reset() if server.connections == 1 else peer.answer()

    with Server(script) as server:
        whole(own.open(server.url))
        assert whole(own.open(server.url)) == b"ok"
        assert (len(server.requests), server.connections) == (3, 2)


def test_a_fresh_connection_that_dies_is_an_error_and_the_request_is_not_sent_again(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()

    with Server(script) as server:
        with pytest.raises(TransportError, match="closed the connection before it answered") as caught:
            way.open(server.url)
        assert len(server.requests) == 1
    assert (caught.value.kind, caught.value.sent) == (ErrorKind.CONNECTION, True)


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


def test_a_chunked_body_without_its_end_is_a_connection_error_after_all_that_came(way: Colour) -> None:
    got, error = failing(way, streaming(b"a", b"b", end=False))
    assert (got, error.kind, error.sent) == (b"ab", ErrorKind.CONNECTION, True)
    assert "in the middle of its answer" in error.message


def test_a_body_shorter_than_its_content_length_is_a_connection_error(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.head("content-length: 10")
        peer.send(b"four")

    got, error = failing(way, script)
    assert (got, error.kind) == (b"four", ErrorKind.CONNECTION)


def test_a_reset_is_a_connection_error_with_its_cause(own: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.head("transfer-encoding: chunked")
        peer.reset()

    _, error = failing(own, script)
    assert error.kind is ErrorKind.CONNECTION
    assert isinstance(error.__cause__, ConnectionError) or own.name == "aiohttp"


def test_a_silent_stream_is_a_timeout_of_its_idle_time(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.head("transfer-encoding: chunked")
        peer.chunks(b"a", end=False)
        peer.gone()

    got, error = failing(way, script, Timeouts(idle=0.2))
    assert (got, error.kind, error.sent) == (b"a", ErrorKind.TIMEOUT, True)
    assert "silent" in error.message
    assert "0.2 s" in error.message


def test_headers_that_never_come_are_a_timeout(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.gone()

    _, error = failing(way, script, Timeouts(idle=0.2))
    assert (error.kind, error.sent) == (ErrorKind.TIMEOUT, True)
    assert "has not answered for 0.2 s" in error.message


def test_a_stream_that_keeps_flowing_has_no_time_limit(way: Colour) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.head("transfer-encoding: chunked")
        for _ in range(6):
            peer.chunks(b".", end=False)
            time.sleep(0.1)
        peer.chunks()

    with Server(script) as server:
        assert whole(way.open(server.url, timeouts=Timeouts(connect=0.3, idle=0.3))) == b"......"


def test_an_idle_time_of_zero_is_none(way: Colour) -> None:
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
    def script(peer: Peer) -> None:
        peer.request()
        peer.head("transfer-encoding: chunked")
        peer.send(b"2\r\nok\r\nbanana\r\n")
        peer.gone(0.5)

    _, error = failing(way, script)
    assert error.kind is ErrorKind.PROTOCOL


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
