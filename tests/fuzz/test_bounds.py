"""Bounded work and memory: what a decoder does for a stream grows with its length and no faster (TC-11, SSE-11)."""

from __future__ import annotations

import gc
import json
import time
import tracemalloc
from collections.abc import Callable

import pytest

from panto._wire.protocol import Decoder

from .reading import WIRES, WireName


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta(**fields: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


def call(**fields: object) -> bytes:
    return delta(tool_calls=[fields])


def opened(**block: object) -> bytes:
    return event({"type": "content_block_start", "index": 0, "content_block": block})


def grown(**fields: object) -> bytes:
    return event({"type": "content_block_delta", "index": 0, "delta": fields})


def repeated(head: bytes, piece: bytes) -> Callable[[int], list[bytes]]:
    return lambda count: [head, *[piece * 100] * (count // 100)]


def numbered(piece: Callable[[int], bytes]) -> Callable[[int], list[bytes]]:
    return lambda count: [b"".join(map(piece, range(at, at + 100))) for at in range(0, count, 100)]


TEN = "x" * 10

SHAPES: dict[str, tuple[WireName, Callable[[int], list[bytes]]]] = {
    "text": ("chat", repeated(b"", delta(content=TEN))),
    "one character of arguments": (
        "chat",
        repeated(call(index=0, id="a", function={"name": "f", "arguments": '{"'}),
                 call(index=0, function={"arguments": "x"})),
    ),
    "the name with each piece of arguments": ("chat", repeated(b"", call(function={"name": "f", "arguments": TEN}))),
    "a new id with each piece of arguments": (
        "chat",
        numbered(lambda n: call(index=0, id=f"c{n}", function={"arguments": TEN})),
    ),
    "many calls": ("chat", numbered(lambda n: call(id=f"c{n}", function={"name": "f", "arguments": "{}"}))),
    "reasoning_details of one index": (
        "chat",
        repeated(b"", delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "x" * 40}])),
    ),
    "reasoning_details of many": (
        "chat",
        numbered(lambda n: delta(reasoning_details=[{"type": "reasoning.text", "index": n, "text": TEN}])),
    ),
    "reasoning_opaque": ("chat", numbered(lambda n: delta(reasoning_opaque=f"o{n}"))),
    "halves of characters": ("chat", repeated(b"", delta(content="\ud83d"))),
    "blank arguments of a Messages call": (
        "messages",
        repeated(opened(type="tool_use", id="a", name="f"), grown(type="input_json_delta", partial_json=" " * 40)),
    ),
    "one character of Messages arguments": (
        "messages",
        repeated(opened(type="tool_use", id="a", name="f"), grown(type="input_json_delta", partial_json="x")),
    ),
    "text of an unknown block": (
        "messages",
        repeated(opened(type="z", content=""), grown(type="z_delta", content="x" * 40)),
    ),
    "citations": ("messages", repeated(opened(type="z"), grown(type="citations_delta", citation={"a": 1}))),
    "white space before a chat stream": ("chat", repeated(b"", b"\n" * 100)),
    "white space before a Messages stream": ("messages", repeated(b"", b"\n" * 100)),
    "one long line": ("chat", repeated(b"data: ", b"x" * 10)),
}  # fmt: skip


def seconds(wire: WireName, chunks: list[bytes]) -> float:
    decoder: Decoder = WIRES[wire].decoder("s")
    began = time.thread_time()
    for chunk in chunks:
        decoder.feed(chunk)
    if decoder.failure is None:
        decoder.finish()
    return time.thread_time() - began


@pytest.mark.parametrize("shape", SHAPES)
def test_tc_11_the_work_for_a_stream_grows_with_its_length(shape: str) -> None:
    wire, make = SHAPES[shape]
    count = 6_000
    few, many = make(count), make(8 * count)
    gc.disable()
    try:
        for _ in range(4):  # a ratio; the machine may be busy with other things
            small = min(seconds(wire, few) for _ in range(3))
            large = seconds(wire, many)
            if large < 8 * 2.5 * small + 0.02:
                return
    finally:
        gc.enable()
    raise AssertionError(f"8 times the length took {large / small:.1f} times as long ({small:.4f} s, {large:.4f} s)")


def test_tc_11_a_call_of_200_000_one_character_deltas_is_one_call() -> None:
    for wire, head, piece, tail in (
        ("chat", call(index=0, id="a", function={"name": "f", "arguments": '{"a":"'}),
         call(index=0, function={"arguments": "x"}), call(index=0, function={"arguments": '"}'}) + b"data: [DONE]\n\n"),
        ("messages", opened(type="tool_use", id="a", name="f") + grown(type="input_json_delta", partial_json='{"a":"'),
         grown(type="input_json_delta", partial_json="x"),
         grown(type="input_json_delta", partial_json='"}') + event({"type": "message_stop"})),
    ):  # fmt: skip
        decoder: Decoder = WIRES[wire].decoder("s")
        decoder.feed(head)
        for _ in range(200):
            decoder.feed(piece * 1_000)
        decoder.feed(tail)
        decoder.finish()
        assert decoder.failure is None
        [block] = decoder.answer().content
        assert block.arguments == '{"a":"' + "x" * 200_000 + '"}'  # type: ignore[union-attr]


IDLE: dict[str, bytes] = {
    "comments": b": waiting for a free machine\n\n",
    "blank lines": b"\n\n\n\n\n\n\n\n",
    "pings": b'event: ping\ndata: {"type":"ping"}\n\n',
    "events of an unknown type": b'data: {"type":"queue","position":3}\n\n',
    "empty deltas": delta(content="", tool_calls=None) + grown(type="text_delta", text=""),
    "retry fields": b"retry: 1\nid: 2\n\n",
    "other choices": event({"choices": [{"index": 1, "delta": {"content": "x" * 50}}]}),
    "usage": event({"choices": [], "usage": {"prompt_tokens": 1}, "type": "message_delta"}),
    "the last line of nothing": b"data:\n\n",
}


@pytest.mark.parametrize("wire", ["chat", "messages"])
@pytest.mark.parametrize("what", IDLE)
def test_what_says_nothing_is_not_kept(wire: WireName, what: str) -> None:
    decoder: Decoder = WIRES[wire].decoder("s")
    chunk = IDLE[what] * (16_384 // len(IDLE[what]))
    for _ in range(8):
        decoder.feed(chunk)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            decoder.feed(chunk)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < len(chunk) * 6  # of 100
