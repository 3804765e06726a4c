"""What every transport does, in both colours from one body: requests, answers, connections."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterator

import pytest
from tests.drive.http_colours import ALL, OWN, Colour, colour, whole
from tests.drive.http_servers import Peer, Server, streaming

from panto._drive.http import TransportError
from panto.config import Timeouts
from panto.errors import ErrorKind


@pytest.fixture(params=ALL)
def way(request: pytest.FixtureRequest) -> Iterator[Colour]:
    with colour(request.param) as made:
        yield made


@pytest.fixture(params=OWN)
def own(request: pytest.FixtureRequest) -> Iterator[Colour]:
    with colour(request.param) as made:
        yield made


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
