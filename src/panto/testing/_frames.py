"""A step of a script as what goes over the wire: head, bytes, waits, and a break.

Law: frames are the same for a transport in process and for a real server; the two differ in nothing but how they carry
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from panto.config import APIStyle

from . import _chat, _messages
from .script import Answer, Block, Cut, Drop, Fail, Part, Raw, Said, Waited

Frame: TypeAlias = bytes | Waited | Drop
"""Bytes are one read."""

STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
PATHS: dict[str, APIStyle] = {
    "/chat/completions": APIStyle.OPENAI_CHAT,
    "/messages": APIStyle.ANTHROPIC_MESSAGES,
}
"""How the path of a URL ends, and which wire that is."""

WIRES = {APIStyle.OPENAI_CHAT: _chat, APIStyle.ANTHROPIC_MESSAGES: _messages}


class Reply(msgspec.Struct, frozen=True):
    """What comes back on one request. Without `status` there is no answer but a failing connection."""

    status: int | None
    headers: Mapping[str, str]
    frames: Sequence[Frame]
    delay: float = 0.0


def wire_of(path: str) -> APIStyle | None:
    """Which wire a request to this path speaks."""
    return next((wire for end, wire in PATHS.items() if path.endswith(end)), None)


def reply(step: Answer | Fail | Drop | Raw, wire: APIStyle, model: str, number: int) -> Reply:
    """What comes back for `step`. `number` counts the requests, and makes ids."""
    speak = WIRES[wire]
    match step:
        case Drop():
            return Reply(None, {}, (step,), step.delay)
        case Fail():
            status, body = speak.refusal(step)
            headers = {"content-type": "application/json", speak.ID_HEADER: f"req_{number}", **step.headers}
            return Reply(status, headers, (body,), step.delay)
        case Raw():
            return Reply(step.status, {**STREAM, **step.headers}, step.pieces, step.delay)
        case Answer():
            frames = speak.stream(joined(step.parts), step, model, number)
            paced = _paced(frames, step.pace) if step.pace else frames
            headers = {**STREAM, speak.ID_HEADER: f"req_{number}", **step.headers}
            return Reply(200, headers, list(_cut(paced, step.cut)), step.delay)


def joined(parts: Sequence[Part]) -> list[Block]:
    """The parts, with text next to text as one: it is one block on every wire."""
    done: list[Block] = []
    texts: list[Said | Waited] = []
    for part in parts:
        if isinstance(part, Said) or (texts and isinstance(part, Waited)):
            texts.append(part)
            continue
        if texts:
            done.append(tuple(texts))
            texts = []
        assert not isinstance(part, Said)
        done.append(part)
    return [*done, tuple(texts)] if texts else done


def _paced(frames: Iterable[Frame], pace: float) -> Iterator[Frame]:
    first = True
    for frame in frames:
        if isinstance(frame, bytes) and not first:
            yield Waited(pace)
        first = False
        yield frame


def _cut(frames: Iterable[Frame], cut: Cut) -> Iterator[Frame]:
    """Split bytes anew; never over a wait or a break."""
    if cut == "events":
        yield from frames
        return
    sizes: Sequence[int] = () if isinstance(cut, str) else (cut,) if isinstance(cut, int) else cut
    if any(size < 1 for size in sizes):
        raise ValueError("an answer is cut into pieces of at least one byte")
    turn = 0
    held: list[bytes] = []
    for frame in [*frames, None]:
        if isinstance(frame, bytes):
            held.append(frame)
            continue
        whole, at = b"".join(held), 0
        held.clear()
        while at < len(whole):
            size = sizes[turn % len(sizes)] if sizes else len(whole)
            turn += 1
            yield whole[at : at + size]
            at += size
        if frame is not None:
            yield frame
