"""Chunked framing comes off whatever the cuts, and what is no framing is an error."""

from __future__ import annotations

import io
from http.client import HTTPResponse, LineTooLong
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panto._drive.http_chunked import Dechunker

CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=12)


def framed(chunks: list[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    return b"".join(b"%x%s\r\n%s\r\n" % (len(c), extension, c) for c in chunks) + b"0\r\n" + trailer + b"\r\n"


def in_pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(edges)]


class _Socket:
    """What http.client needs of a socket."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self.data)


@given(
    CHUNKS,
    st.lists(st.integers(0, 10_000), max_size=20),
    st.sampled_from([b"", b";a=b", b" ; x"]),
    st.sampled_from([b"", b"X-T: 1\r\n"]),
)
def test_every_cut_gives_the_body_that_http_client_reads(
    chunks: list[bytes], cuts: list[int], extension: bytes, trailer: bytes
) -> None:
    data = framed(chunks, extension, trailer)
    dechunker = Dechunker()
    body = b"".join(dechunker.feed(piece) for piece in in_pieces(data, cuts))
    reference = HTTPResponse(_Socket(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data))  # type: ignore[arg-type]
    reference.begin()
    assert body == reference.read() == b"".join(chunks)
    assert dechunker.done


@given(CHUNKS, st.integers(1, 10_000))
def test_a_body_cut_short_is_not_done(chunks: list[bytes], cut: int) -> None:
    data = framed(chunks)
    dechunker = Dechunker()
    dechunker.feed(data[: -(cut % len(data)) or -1])
    assert not dechunker.done


@given(CHUNKS)
def test_nothing_that_has_come_is_held_back(chunks: list[bytes]) -> None:
    dechunker, got = Dechunker(), b""
    for chunk in chunks:
        got += dechunker.feed(b"%x\r\n" % len(chunk))
        for at in range(len(chunk)):
            assert dechunker.feed(chunk[at : at + 1]) == chunk[at : at + 1]
        got += dechunker.feed(b"\r\n")
    assert got == b""


@pytest.mark.parametrize(
    "bad",
    [
        b"x\r\n",
        b"\r\n",
        b"-1\r\nab",
        b"0x2\r\nab\r\n",
        b"1_0\r\n",
        b"2\r\nabc\r\n",
        b"2\r\nabX",
        b"11111111111111111\r\n",
    ],
)
def test_what_is_no_framing_is_refused(bad: bytes) -> None:
    with pytest.raises(ValueError):
        Dechunker().feed(bad)


def test_a_size_line_without_an_end_is_bounded() -> None:
    dechunker = Dechunker()
    with pytest.raises(LineTooLong):
        for _ in range(20):
            dechunker.feed(b"1" * 8192)
