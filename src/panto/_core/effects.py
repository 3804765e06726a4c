"""What the core may ask of the world.

Law: an effect is a value and its reply is a value, so a recorded list of replies replays a run exactly. This dozen is
the contract of every driver; the core reaches the world through nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar, cast

import msgspec

from panto._wire.protocol import HTTPRequest
from panto.config import Timeouts
from panto.events import Event
from panto.session import PersistentMessage, Session
from panto.tools import Tool, ToolCall, ToolCallResult, ToolSource

R = TypeVar("R", covariant=True)
T = TypeVar("T")


class Effect(msgspec.Struct, Generic[R], frozen=True, gc=False):
    """One request to the world; `R` is the type of its reply."""


class Opened(msgspec.Struct, frozen=True, gc=False):
    """The head of an answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]


class TransportFailure(Exception):
    """Thrown into the core by a driver: the request did not get there, or its answer broke off.

    `kind` is an `ErrorKind`.
    """

    def __init__(self, kind: object, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Open(Effect[Opened], frozen=True):
    """Send a request by POST; one answer is open at a time. May raise `TransportFailure`."""

    request: HTTPRequest
    timeouts: Timeouts | None


class Recv(Effect[bytes], frozen=True):
    """What came of the open answer; empty at its end. May raise `TransportFailure`."""


class CloseResponse(Effect[None], frozen=True):
    """The open answer is no longer wanted. Never fails.

    `whole`: its end signal came. What little may follow on the connection is then not cut off at once but left until
    the next `Open`, or the end, so that the connection can be used again.
    """

    whole: bool = False


class Sleep(Effect[None], frozen=True):
    """Wait so many seconds."""

    seconds: float


class Now(Effect[float], frozen=True):
    """Seconds since the epoch."""


class NewId(Effect[str], frozen=True):
    """A new unique id, ordered by time: hexadecimal digits and hyphens."""


class Jitter(Effect[float], frozen=True):
    """A random number, 0 included, 1 not."""


class Job(msgspec.Struct, frozen=True):
    """Calls to be run as one: one call of a tool, or all calls of one source in a message.

    max_image_side: pixels; the driver prepares the images of their results.
    """

    calls: tuple[ToolCall, ...]
    runner: Tool | ToolSource
    timeout: float
    max_image_side: int = 1568


class StartTools(Effect[None], frozen=True):
    """Start these jobs beside each other. Their signals carry the positions in `jobs`."""

    jobs: tuple[Job, ...]


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """A running tool has something to say."""

    job: int
    text: str


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """A job is done, well or not; one result for each of its calls."""

    job: int
    results: tuple[ToolCallResult, ...]


Signal: TypeAlias = Progress | Finished


class NextSignal(Effect[Signal], frozen=True):
    """The next thing that a running job has to tell."""


class StopTools(Effect[None], frozen=True):
    """Stop whatever jobs still run; they send no more signals."""


class Append(Effect[None], frozen=True):
    """Give records to the session's store. May raise `StoreError`."""

    session: Session
    records: Sequence[PersistentMessage]


class CallUser(Effect[T], Generic[T], frozen=True):
    """Call the user's own code and wait for what it returns; whatever it raises is thrown into the core.

    `secret`: the reply is a key; the driver wraps it in a `Secret` and a journal leaves it out. `blocking`: the code
    may take its time, so an async driver calls it in a thread.
    """

    function: Callable[..., object]
    args: tuple[object, ...] = ()
    secret: bool = False
    blocking: bool = False


class Cancelled(BaseException):
    """Thrown into the core by a driver: settle the history, then end. Thrown once at most.

    Its argument is `UNSEEN` when the plan stands at an event that nobody was shown.
    """


UNSEEN = "unseen"


Plan: TypeAlias = Generator["Effect[object] | Event", object, T]
"""A part of the loop: yields effects and events, returns a `T`."""


def do(effect: Effect[T]) -> Plan[T]:
    """Ask for `effect`; a `yield from` of it has the type of the reply."""
    return cast(T, (yield effect))


class Raised(msgspec.Struct, frozen=True):
    """The reply to an effect that failed: `error` is thrown into the plan."""

    error: Exception


def resume(plan: Plan[T], reply: object) -> Effect[object] | Event:
    """Go on with a plan, given the reply to its last effect. Raises `StopIteration` at its end."""
    return plan.throw(reply.error) if isinstance(reply, Raised) else plan.send(reply)
