"""Hypothesis strategies that damage valid streams: in their events, in their JSON, in their bytes, and by cutting."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from .seeds import Event, written

DEEP = "\0deep\0"
"""Stands for JSON that is nested too deep to be written by `json.dumps`."""

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 1.5, -0.0, 1e300, float("nan"), float("inf"), 10**30, "", "x", "0", "null",
    "[DONE]",
    "{}", "{", "9" * 5_000, "\ud83d", "\udd8a", "a\u2028b", "\x00", "error", "tool_use", "text", "t1", "call_s_0",
    [], {}, [None], [[]], [{}], ["x"], {"": None}, {"text": "x"}, {"type": "text", "text": "x"}, {"type": "error"},
    {"error": {"message": "m"}}, {"message": "m", "code": 500}, [{"type": "text", "text": "x"}], [{"index": 0}], DEEP,
)  # fmt: skip

SCRAPS: tuple[bytes, ...] = (
    b"data: [DONE]\n\n", b"\n", b"\n\n", b"\r", b"\r\n", b": c\n", b"data:\n\n", b"data\n", b"event: error\n",
    b"event:ping\n", b"id: 7\nretry: 1\n", b"data: null\n\n", b"data: [[\n\n", b"data: {}\n\n", b"\xef\xbb\xbf",
    b"\xff", b"\xf0\x9f", b"\\ud83d", b'"', b"{", b"}", b"[", b"]", b"<html>", b"\x00", b"\xe2\x80\xa8",
    b'data: {"error":"x"}\n\n',
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n', b'data: {"choices":[]}\n\n', b"   ", b"1e999", b"NaN",
)  # fmt: skip


WAYS = ("retype", "retype", "retype", "drop field", "swap", "repeat", "leave out", "graft")


def _paths(value: object, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where each value within a JSON value is."""
    found = [at]
    if isinstance(value, dict):
        for key, item in value.items():
            found += _paths(item, (*at, key))
    elif isinstance(value, list):
        for key, item in enumerate(value):
            found += _paths(item, (*at, key))
    return found


def _retyped(value: Any, path: Sequence[Any], new: object, drop: bool) -> Any:
    if not path:
        return new
    value = copy.deepcopy(value)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    if drop:
        del holder[path[-1]]
    else:
        holder[path[-1]] = copy.deepcopy(new)
    return value


@st.composite
def _events(draw: st.DrawFn, seeds: Mapping[str, list[Event]]) -> list[Event]:
    """The events of a seed, or of two, with some moved, repeated, left out or retyped."""
    names = sorted(seeds)
    events = list(seeds[draw(st.sampled_from(names))])
    for _ in range(draw(st.integers(0, 4))):
        if not events:
            break
        at = draw(st.integers(0, len(events) - 1))
        match draw(st.sampled_from(WAYS)):
            case ("retype" | "drop field") as how:
                name, value = events[at]
                if isinstance(value, str):
                    continue
                path = draw(st.sampled_from(_paths(value)))
                events[at] = (name, _retyped(value, path, draw(st.sampled_from(ODD)), how == "drop field"))
            case "swap":
                other = draw(st.integers(0, len(events) - 1))
                events[at], events[other] = events[other], events[at]
            case "repeat":
                events[at:at] = [events[at]] * draw(st.sampled_from([1, 2, 5]))
            case "leave out":
                del events[at]
            case _:
                other_events = seeds[draw(st.sampled_from(names))]
                events.insert(at, other_events[draw(st.integers(0, len(other_events) - 1))])
    return events


def _renamed(events: Sequence[Event], how: str) -> list[Event]:
    """With all event names, without any, or with a wrong one."""
    return list(events) if how == "as is" else [("" if how == "none" else "error", value) for _, value in events]


def _deepened(body: bytes, depth: int) -> bytes:
    mark = json.dumps(DEEP).encode()
    return body.replace(mark, b"[" * depth + b"]" * depth) if mark in body else body


@st.composite
def _damaged(draw: st.DrawFn, body: bytes) -> bytes:
    """Bytes cut out, repeated, moved, changed or put in."""
    for _ in range(draw(st.integers(0, 3))):
        if not body:
            break
        start = draw(st.integers(0, len(body) - 1))
        end = min(len(body), start + draw(st.sampled_from([1, 1, 2, 5, 20, 100])))
        match draw(st.sampled_from(["cut out", "repeat", "change", "put in", "end", "move"])):
            case "cut out":
                body = body[:start] + body[end:]
            case "repeat":
                body = body[:end] + body[start:end] + body[end:]
            case "change":
                body = body[:start] + bytes([draw(st.integers(0, 255))]) + body[start + 1 :]
            case "put in":
                scrap = draw(st.sampled_from(SCRAPS) | st.binary(max_size=8))
                body = body[:start] + scrap + body[start:]
            case "end":
                body = body[:start]
            case _:
                body = body[:start] + body[end:] + body[start:end]
    return body


@st.composite
def bodies(draw: st.DrawFn, seeds: Mapping[str, list[Event]], plain: Sequence[Any]) -> bytes:
    """The body of an answer: a damaged stream; now and then damaged JSON that is none, or noise."""
    kind = draw(st.sampled_from(["stream"] * 8 + ["plain", "noise"]))
    if kind == "noise":
        return b"".join(draw(st.lists(st.sampled_from(SCRAPS) | st.binary(max_size=20), max_size=12)))
    if kind == "plain":
        value = draw(st.sampled_from(plain))
        if draw(st.booleans()):
            value = _retyped(value, draw(st.sampled_from(_paths(value))), draw(st.sampled_from(ODD)), False)
        body = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    else:
        events = _renamed(draw(_events(seeds)), draw(st.sampled_from(["as is"] * 8 + ["none", "error"])))
        body = written(events, draw(st.sampled_from([b"\n"] * 4 + [b"\r\n", b"\r"])))
    body = _deepened(body, draw(st.sampled_from([50, 300, 900, 960, 975, 985, 990, 995, 2_000, 20_000])))
    return draw(_damaged(body))


@st.composite
def cuts(draw: st.DrawFn, body: bytes) -> list[bytes]:
    """The body as a network might bring it."""
    if draw(st.sampled_from([False] * 9 + [True])) and len(body) < 2_000:
        return [body[at : at + 1] for at in range(len(body))]
    places = sorted(draw(st.sets(st.integers(0, len(body)), max_size=6)))
    return [body[a:b] for a, b in pairwise([0, *places, len(body)])]
