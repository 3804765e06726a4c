"""What a scripted provider answers, in words that hold for every wire: the steps of a script.

Law: a step is a frozen value, one for each request. The parts of an answer are joined with `+`; whatever goes wrong in
the middle of one is a part like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from panto.config import JSON, StopReason
from panto.usage import Usage

if TYPE_CHECKING:
    from .requests import RecordedRequest

How: TypeAlias = Literal["reset", "end", "silence", "refused", "certificate"]
"""How a connection fails.

`reset`: it breaks. `end`: the answer ends cleanly, but without its end signal. `silence`: nothing more comes, until the
client gives up. `refused` and `certificate`: there is no connection to begin with; in process only.
"""

Cut: TypeAlias = Literal["events", "whole"] | int | Sequence[int]
"""How the bytes of an answer reach the client.

`events`: one event of the stream each. `whole`: all at once. A number: so many bytes each. Several numbers: so many
bytes each, in turn, over and over.
"""

SCRIPTED_USAGE = Usage(input_tokens=10, output_tokens=5)
"""What an answer is said to have cost where the script does not say."""


class Said(msgspec.Struct, frozen=True):
    """Text of an answer; each piece is one delta. Text next to text is one block."""

    pieces: tuple[str, ...]


class Thought(msgspec.Struct, frozen=True):
    """Thinking of an answer; each piece is one delta."""

    pieces: tuple[str, ...]
    signature: str | None
    redacted: str | None = None


class Called(msgspec.Struct, frozen=True):
    """A call of a tool; each piece of its arguments is one delta."""

    name: str
    pieces: tuple[str, ...]
    id: str | None = None


class Waited(msgspec.Struct, frozen=True):
    """A while in which nothing comes."""

    seconds: float


class Drop(msgspec.Struct, frozen=True):
    """The connection fails: alone, before any answer; as a part, in the middle of one."""

    how: How
    delay: float = 0.0


class Fail(msgspec.Struct, frozen=True):
    """The provider says that something is wrong: alone, with an HTTP status; as a part, in the middle of a stream."""

    status: int
    message: str
    type: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    delay: float = 0.0
    too_long: bool = False


class Raw(msgspec.Struct, frozen=True):
    """An answer byte for byte; each piece is one read."""

    pieces: tuple[bytes, ...]
    status: int = 200
    headers: Mapping[str, str] = {}
    delay: float = 0.0


Part: TypeAlias = Said | Thought | Called | Waited | Drop | Fail
"""What an answer is made of."""

Block: TypeAlias = "Thought | Called | Drop | Fail | Waited | tuple[Said | Waited, ...]"
"""A part, or the texts and waits that make one block of text."""


class Answer(msgspec.Struct, frozen=True):
    """A streamed answer. `+` adds parts, and takes over what the right side says of the whole.

    >>> answer = think("Hm.") + say("Let me look.") + call("read", path="a.txt")
    >>> [type(part).__name__ for part in answer.parts]
    ['Thought', 'Said', 'Called']
    """

    parts: tuple[Part, ...]
    stop: StopReason | str | None = None
    usage: Usage | msgspec.UnsetType | None = msgspec.UNSET
    delay: float = 0.0
    pace: float = 0.0
    cut: Cut = "events"
    headers: Mapping[str, str] = {}

    def __add__(self, other: Answer | Drop | Fail) -> Answer:
        if isinstance(other, (Drop, Fail)):
            return msgspec.structs.replace(self, parts=(*self.parts, other))
        if not isinstance(other, Answer):
            return NotImplemented
        return Answer(
            parts=(*self.parts, *other.parts),
            stop=self.stop if other.stop is None else other.stop,
            usage=self.usage if other.usage is msgspec.UNSET else other.usage,
            delay=self.delay + other.delay,
            pace=self.pace or other.pace,
            cut=self.cut if other.cut == "events" else other.cut,
            headers={**self.headers, **other.headers},
        )


Step: TypeAlias = "Answer | Fail | Drop | Raw | str | Callable[[RecordedRequest], Step]"
"""What one request is answered with. A string is `say(string)`; a function is asked, with the request."""


def say(
    *pieces: str,
    cut_after: int | None = None,
    breaks: How = "reset",
    stop: StopReason | str | None = None,
    usage: Usage | msgspec.UnsetType | None = msgspec.UNSET,
    delay: float = 0.0,
    pace: float = 0.0,
    cut: Cut = "events",
    headers: Mapping[str, str] = {},
) -> Answer:
    """An answer of text; each of `pieces` is one delta.

    cut_after: how many deltas are shown before the connection fails; with more than there are, it fails where the end
        signal should come.
    breaks: how it fails.
    stop: why the answer ends; a string is the wire's own word. By default what fits the parts.
    usage: what it is said to have cost; `None` says nothing. By default `SCRIPTED_USAGE`.
    delay: seconds until the answer begins. pace: seconds before each further event.
    cut: how its bytes are split.
    headers: further headers of the answer.

    >>> say("Hel", "lo").parts
    (Said(pieces=('Hel', 'lo')),)
    """
    said = Said(pieces)
    if cut_after is None:
        parts: tuple[Part, ...] = (said,)
    else:
        parts = (Said(pieces[:cut_after]), Drop(breaks))
    return Answer(parts, stop, usage, delay, pace, cut, headers)


def think(*pieces: str, signature: str | None = "scripted-signature", redacted: str | None = None) -> Answer:
    """Thinking; each of `pieces` is one delta.

    signature: what binds it to the provider, on the Messages wire; `None` for thinking that is not signed.
    redacted: the payload of thinking that the provider does not show, in place of any text.
    """
    return Answer((Thought(pieces, signature, redacted),))


def call(
    name: str,
    arguments: Mapping[str, JSON] | str | Sequence[str] | None = None,
    /,
    *,
    call_id: str | None = None,
    **named: JSON,
) -> Answer:
    """A call of a tool.

    arguments: an object; or JSON text just as it shall come, so that it may be wrong or torn; or that text in pieces.
    named: the arguments, or more of them.
    call_id: the call's id; without it every call of a provider gets one of its own.

    >>> call("read", path="a.txt").parts
    (Called(name='read', pieces=('{"path":"a.txt"}',), id=None),)
    """
    if arguments is None or isinstance(arguments, Mapping):
        pieces: tuple[str, ...] = (msgspec.json.encode({**(arguments or {}), **named}).decode(),)
    elif named:
        raise TypeError("give the arguments of a call as text or by name, not both")
    else:
        pieces = (arguments,) if isinstance(arguments, str) else tuple(arguments)
    return Answer((Called(name, pieces, call_id),))


def wait(seconds: float) -> Answer:
    """Nothing comes for so long; put it between the parts of an answer."""
    return Answer((Waited(seconds),))


def fail(
    status: int,
    message: str | None = None,
    *,
    type: str | None = None,
    code: str | None = None,
    retry_after: float | str | None = None,
    headers: Mapping[str, str] = {},
    body: bytes | str | Mapping[str, JSON] | None = None,
    delay: float = 0.0,
) -> Fail:
    """A failure that the provider tells, in the shape of the wire.

    Alone it is an answer with that HTTP status; added to an answer, an error event in the middle of its stream.

    type, code: of the wire's error object. By default what the vendor says under this status.
    retry_after: the header of that name: seconds, or a date.
    body: the whole body, in place of the wire's error object.

    >>> fail(429, retry_after=1).headers
    {'retry-after': '1'}
    """
    told = dict(headers)
    if retry_after is not None:
        told["retry-after"] = retry_after if isinstance(retry_after, str) else f"{retry_after:g}"
    if isinstance(body, Mapping):
        body = msgspec.json.encode(body)
    elif isinstance(body, str):
        body = body.encode()
    words = f"scripted failure {status}" if message is None else message
    return Fail(status, words, type, code, told, body, delay)


def overflow() -> Fail:
    """The request is too long for the context window, said as the wire's vendor says it."""
    return Fail(400, "", too_long=True)


def drop(how: How = "reset", *, delay: float = 0.0) -> Drop:
    """The connection fails: alone, before any answer; added to an answer, in the middle of it."""
    return Drop(how, delay)


def raw(*pieces: bytes | str, status: int = 200, headers: Mapping[str, str] = {}, delay: float = 0.0) -> Raw:
    """An answer byte for byte, for what the other steps cannot say; each of `pieces` is one read.

    Its content type is `text/event-stream` unless `headers` says otherwise.
    """
    whole = tuple(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
    return Raw(whole, status, headers, delay)
