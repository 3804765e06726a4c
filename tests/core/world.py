"""A world in memory for the core's tests: answers effects from a script, and can throw `Cancelled` at any step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from panto import Config, Conversation, Event, Hooks, MemoryStore, OpenAIChatConfig, RetryConfig, Tool
from panto._core import loop
from panto._core.effects import (
    Append,
    CallUser,
    Cancelled,
    CloseResponse,
    Effect,
    Finished,
    Jitter,
    NewId,
    NextSignal,
    Now,
    Open,
    Opened,
    Plan,
    Raised,
    Recv,
    Sleep,
    StartTools,
    StopTools,
    TransportFailure,
    resume,
)
from panto._core.engine import Engine
from panto._core.state import StateCell
from panto._drive import jobs
from panto.errors import ErrorKind
from panto.events import TurnComplete


def sse(*payloads: object) -> bytes:
    """Chat completion chunks as a body."""
    return b"".join(
        b"data: " + (p if isinstance(p, str) else json.dumps(p)).encode() + b"\n\n" for p in (*payloads, "[DONE]")
    )


def chunk(finish: str | None = None, **delta: object) -> dict[str, object]:
    """One chunk with one choice."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def text(*pieces: str, finish: str = "stop") -> bytes:
    """An answer of text alone."""
    usage = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2}}
    return sse(*(chunk(content=piece) for piece in pieces), chunk(finish), usage)


def calls(*wanted: tuple[str, str, str], words: str = "", finish: str = "tool_calls") -> bytes:
    """An answer with calls: id, name, arguments."""
    deltas = [
        chunk(tool_calls=[{"index": at, "id": id, "type": "function", "function": {"name": name, "arguments": args}}])
        for at, (id, name, args) in enumerate(wanted)
    ]
    return sse(*([chunk(content=words)] if words else []), *deltas, chunk(finish))


class World:
    """Answers effects. `answers`: a body for each request, or (status, body), or an exception to throw."""

    def __init__(self, *answers: object, cut: int = 40) -> None:
        self.answers = list(answers)
        self.cut = cut
        self.requests: list[dict[str, Any]] = []
        self.slept: list[float] = []
        self.closed = 0
        self.now = 1_000_000.0
        self.ids = 0
        self.pieces: Iterator[bytes | Exception] = iter(())
        self.signals: list[Finished] = []
        self.append_fails: Callable[[int], bool] = lambda number: False
        self.appends = 0

    def perform(self, effect: Effect[object]) -> object:
        match effect:
            case Open():
                self.requests.append(json.loads(effect.request.body))
                answer = self.answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                status, body = answer if isinstance(answer, tuple) else (200, answer)
                self.pieces = iter(self._cut(body))
                return Opened(status, {"content-type": "text/event-stream"})
            case Recv():
                piece = next(self.pieces, b"")
                if isinstance(piece, Exception):
                    raise piece
                return piece
            case CloseResponse():
                self.closed += 1
                return None
            case Sleep():
                self.slept.append(effect.seconds)
                return None
            case Now():
                return self.now
            case Jitter():
                return 0.5
            case NewId():
                self.ids += 1
                return f"00000000-0000-7000-8000-{self.ids:012x}"
            case StartTools():
                self.signals = [self._run(at, job) for at, job in enumerate(effect.jobs)]
                return None
            case NextSignal():
                return self.signals.pop()  # the last one first: results come in any order
            case StopTools():
                self.signals = []
                return None
            case Append():
                self.appends += 1
                if self.append_fails(self.appends):
                    from panto import StoreError

                    raise StoreError("the disk is full")
                effect.session.append(effect.records)
                return None
            case CallUser():
                return effect.function(*effect.args)
            case _:
                raise AssertionError(effect)

    def _run(self, at: int, job: Any) -> Finished:
        context = jobs.Context(job.calls[0], lambda text: None)
        try:
            return Finished(at, jobs.results(job, context, jobs.begin(job, context)))
        except Exception as error:
            return Finished(at, jobs.failure(job, error))

    def _cut(self, body: bytes | Sequence[bytes | Exception]) -> list[bytes | Exception]:
        if isinstance(body, bytes):
            return [body[at : at + self.cut] for at in range(0, len(body), self.cut)]
        return list(body)


def reset() -> TransportFailure:
    """A connection that breaks."""
    return TransportFailure(ErrorKind.CONNECTION, "connection reset")


def engine(*tools: Tool, conversation: Conversation | None = None, hooks: Hooks | None = None, **config: Any) -> Engine:
    """An engine over a new session of a memory store, ready for the chat wire."""
    settings: dict[str, Any] = {"retry": RetryConfig(max_retries=0), **config}
    settings.setdefault("provider", OpenAIChatConfig(model="m", api_key="sk-1", base_url="http://h/v1"))
    made = Engine(Config(**settings), MemoryStore().create(), conversation, hooks or Hooks())
    for tool in tools:
        made.register(tool)
    return made


def step_through(plan: Plan[Any], world: World, cancel_at: int | None = None) -> tuple[list[Event], int]:
    """The events of a plan performed by `world`, and its steps; `Cancelled` is thrown at step `cancel_at`."""
    events: list[Event] = []
    steps = 0
    cancelled = False
    try:
        step = plan.send(None)
        while True:
            if steps == cancel_at and not cancelled:
                cancelled = True
                if not isinstance(step, Effect):
                    events.append(step)  # the consumer saw it, then closed
                step = plan.throw(Cancelled())
                continue
            steps += 1
            if isinstance(step, Effect):
                try:
                    reply = world.perform(step)
                except Exception as error:
                    reply = Raised(error)
                step = resume(plan, reply)
            else:
                if not cancelled or isinstance(step, TurnComplete):
                    events.append(step)
                step = plan.send(None)
    except StopIteration:
        return events, steps


def run(made: Engine, world: World, said: str | None = "go", cancel_at: int | None = None) -> list[Event]:
    """The events of one run."""
    return run_cell(made, world, said, cancel_at)[0]


def run_cell(
    made: Engine, world: World, said: str | None = "go", cancel_at: int | None = None
) -> tuple[list[Event], int, StateCell]:
    """The events of one run, its steps, and its state."""
    cell = StateCell()
    events, steps = step_through(loop.run(made, made.said(said), cell), world, cancel_at)
    return events, steps, cell
