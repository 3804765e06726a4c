"""The events depend on the bytes alone: against a slow reader of the standard, in any cut, with any line end."""

from __future__ import annotations

import itertools
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from panto._wire.sse import MAX_EVENT_BYTES, SSEOverflow, SSEParser

Events = list[tuple[bytes, bytes]]


def parse(*chunks: bytes) -> Events:
    parser = SSEParser()
    events: Events = []
    for chunk in chunks:
        events += parser.feed(chunk)
    return events + parser.finish()


def reference(body: bytes) -> Events:
    """The standard's algorithm, a line at a time, over the whole body; the end of the body counts as a blank line."""
    if body[:3] == b"\xef\xbb\xbf":
        body = body[3:]
    events: Events = []
    name, data = b"", b""
    for line in [*re.split(rb"\r\n|\n|\r", body), b""]:
        if line == b"":
            if data and data[:-1]:
                events.append((name, data[:-1]))
            name, data = b"", b""
            continue
        if line[:1] == b":":
            continue
        field, value = line, b""
        if b":" in line:
            at = line.index(b":")
            field, value = line[:at], line[at + 1 :]
            if value[:1] == b" ":
                value = value[1:]
        if field == b"data":
            data += value + b"\n"
        elif field == b"event":
            name = value
    return events


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[a:b] for a, b in itertools.pairwise(edges)]


PIECES = [
    b"data: ", b"data:", b"data", b"event: ", b"event:", b"event", b"id: 7", b"retry: 10", b": note", b":", b"x: y",
    b"Data: n", b"data : n", b"\n", b"\n", b"\n\n", b"\r\n", b"\r\n\r\n", b"\r", b"\r\r", b"\n\r", b" ", b"  ",
    b'{"a":1}', b"[DONE]", b"\xef\xbb\xbf", b"\xef", b"\xbb", b"\xe2\x80\xa8", b"\xc2\x85", b"\x0b", b"\x0c", b"\x00",
    b"\xf0\x9f\xa6\x8a", b"data: a\n\n", b"event: e\ndata: b\n\n", b"data: c\r\n\r\n",
]  # fmt: skip
bodies = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join) | st.binary(max_size=40)
places = st.lists(st.integers(0, 400), max_size=8)


@given(bodies, places)
@example(b"data: a\n\n\n\r\ndata: b\n\n\r", [8, 9])
@example(b"data: a\n\n\r", [8])
@example(b"\xef\xbb\xbfdata: a\n\n", [1, 2, 3])
def test_any_cut_gives_the_events_of_the_standard(body: bytes, places: list[int]) -> None:
    want = reference(body)
    assert parse(body) == want
    assert parse(*cut(body, places)) == want
    assert parse(*(body[i : i + 1] for i in range(len(body)))) == want


line = st.sampled_from([b"data: x", b"data:{}", b"data", b"event: e", b"event:f", b": c", b"id: 1", b""])


@given(st.lists(line, max_size=12), st.sampled_from([b"\r\n", b"\r"]), places)
def test_crlf_and_cr_streams_give_the_events_of_the_lf_stream(
    lines: list[bytes], end: bytes, places: list[int]
) -> None:
    want = parse(b"".join(text + b"\n" for text in lines))
    assert parse(*cut(b"".join(text + end for text in lines), places)) == want


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=20), st.booleans()), max_size=6))
def test_data_comes_through_byte_for_byte(payloads: list[tuple[bytes, bool]]) -> None:
    wanted = [(b"e" if named else b"", re.sub(rb"[\r\n]", b"_", data)) for data, named in payloads]
    body = b"".join((b"event: e\n" if name else b"") + b"data: " + data + b"\n\n" for name, data in wanted)
    assert parse(body) == wanted


def test_sse_01_a_character_cut_in_half_arrives_whole() -> None:
    data = '"Ærø 🦊 日本"'.encode()
    body = b"data: " + data + b"\n\n"
    fox, kanji = body.index("🦊".encode()), body.index("日".encode())
    for chunks in ([body[i : i + 1] for i in range(len(body))], cut(body, [fox + 2]), cut(body, [kanji + 1])):
        assert parse(*chunks) == [(b"", data)]


def test_sse_02_unicode_line_separators_are_no_line_ends() -> None:
    data = '{"t":"a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"}'.encode()
    assert parse(b"data: " + data + b"\n\n") == [(b"", data)]


def test_sse_03_the_space_after_the_colon_is_optional() -> None:
    with_space = b'event: message_stop\ndata: {"a": 1}\nid: 1\n\n'
    assert parse(re.sub(rb"(?m)^(\w+): ", rb"\1:", with_space)) == [(b"message_stop", b'{"a": 1}')]
    assert parse(with_space) == [(b"message_stop", b'{"a": 1}')]


def test_sse_03_at_most_one_space_is_stripped() -> None:
    assert parse(b"event:  e\ndata:  x \n\n") == [(b" e", b" x ")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_sse_04_events_are_delivered_as_they_arrive_whatever_the_line_end(end: bytes) -> None:
    parser = SSEParser()
    assert parser.feed(b"data: 1" + end + end) == [(b"", b"1")]
    assert parser.feed(b"event: e" + end + b"data: 2" + end + end) == [(b"e", b"2")]
    assert parser.finish() == []


def test_sse_04_a_crlf_cut_between_its_bytes_is_one_line_end() -> None:
    parser = SSEParser()
    assert parser.feed(b"data: a\r") == []
    assert parser.feed(b"\ndata: b\r\n\r") == [(b"", b"a\nb")]
    assert parser.feed(b"\ndata: c\r\n\r\n") == [(b"", b"c")]


def test_sse_05_comments_produce_nothing() -> None:
    assert parse(b": waiting\n\n: waiting\n\n", b":\n\n", b"data: a\n: between\ndata: b\n\n") == [(b"", b"a\nb")]


def test_sse_11_a_line_of_3_mib_in_16_kib_chunks_takes_linear_time() -> None:
    data = b'"' + b"x" * (3 << 20) + b'"'
    body = b"data: " + data + b"\n\n"

    def seconds(step: int) -> float:
        start = time.perf_counter()
        assert parse(*(body[i : i + step] for i in range(0, len(body), step))) == [(b"", data)]
        return time.perf_counter() - start

    assert seconds(16 << 10) < 2.0
    assert seconds(64) < 10.0  # 49,000 chunks: a rescan of the buffer at each would move 80 GB


def test_sse_11_an_event_over_the_limit_is_a_clear_error() -> None:
    parser = SSEParser(max_event_bytes=1000)
    parser.feed(b"data: " + b"x" * 900)
    with pytest.raises(SSEOverflow, match="1,000 bytes") as caught:
        parser.feed(b"x" * 100)
    assert caught.value.limit == 1000
    assert MAX_EVENT_BYTES == 64 << 20


def test_sse_11_the_limit_holds_for_an_event_that_comes_in_one_chunk_and_counts_single_events() -> None:
    fits, too_long = b"data: " + b"x" * 994 + b"\n\n", b"data: " + b"x" * 995 + b"\n\n"
    assert len(SSEParser(max_event_bytes=1000).feed(fits * 20)) == 20
    with pytest.raises(SSEOverflow):
        SSEParser(max_event_bytes=1000).feed(fits * 20 + too_long)


def test_sse_12_several_data_lines_are_joined_by_a_line_feed() -> None:
    assert parse(b'data: {"a":\ndata:  "x"}\n\n') == [(b"", b'{"a":\n "x"}')]


def test_sse_12_empty_data_is_no_event_and_a_field_needs_no_colon() -> None:
    assert parse(b"data\n\n", b"data:\n\n", b"data: \n\n", b"event: e\n\n", b"event: e\ndata: \n\n") == []


def test_sse_12_id_and_retry_do_not_disturb_the_payload() -> None:
    assert parse(b'id: 7\nretry: 10\ndata: {"b":2}\n\n') == [(b"", b'{"b":2}')]


def test_the_name_of_one_event_does_not_stick_to_the_next() -> None:
    assert parse(b"event: e\ndata: 1\n\ndata: 2\n\n") == [(b"e", b"1"), (b"", b"2")]


@pytest.mark.parametrize("tail", [b"", b"\n", b"\r", b"\r\n"])
def test_an_event_without_its_blank_line_counts_at_the_end_of_the_body(tail: bytes) -> None:
    parser = SSEParser()
    assert parser.feed(b"data: 1\n\nevent: e\ndata: 2" + tail) == [(b"", b"1")]
    assert parser.finish() == [(b"e", b"2")]
    assert parser.finish() == []


def test_a_byte_order_mark_is_skipped_at_the_start_only() -> None:
    bom = b"\xef\xbb\xbf"
    assert parse(bom + b"data: 1\n\n" + bom + b"data: 2\n\n") == [(b"", b"1")]
    assert parse(b"\xef", b"\xbb", b"\xbf", b"data: 1\n\n") == [(b"", b"1")]
