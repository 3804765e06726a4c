"""Performs effects from a journal: no network, no clock, no chance, no store, and no code of the user's.

Law: the core gets exactly the replies that were recorded, and asks for exactly what it asked then; the first thing
that it asks otherwise is a `ReplayMismatch`. What is recorded is the very plan that the driver performs, in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from panto._core import loop
from panto._core.effects import UNSEEN, Cancelled, CloseResponse, Effect, Open, Plan, Raised, Recv, resume
from panto._core.engine import Engine
from panto._core.state import StateCell
from panto.conversation import Message, SystemMode
from panto.errors import StateError
from panto.events import Event

from . import journal
from .difference import first_difference
from .journal import NAMES, Line

T = TypeVar("T")


class ReplayMismatch(AssertionError):
    """What is replayed is not what was recorded; the message names the first difference."""


# ---------------------------------------------------------------- writing


class Writer:
    """Writes down what goes through the plans of an engine; its `watch`."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._open: Open | None = None
        self._answer: list[tuple[Line, bytes]] = []

    def __call__(self, plan: Plan[T], what: str, given: Mapping[str, object], /) -> Plan[T]:
        """The same plan, written down."""
        return self._through(plan, what, {name: journal.plain(value) for name, value in given.items()})

    def _through(self, plan: Plan[T], what: str, given: Line) -> Plan[T]:
        self.lines.append({"begin": what, **given})
        try:
            events = 0
            step = next(plan)
            while True:
                line: Line = {}
                before: object = None
                if isinstance(step, Effect):
                    before = journal.plain(journal.messages_of(step))
                    line = {"effect": NAMES[type(step)], **journal.asked(step)}
                else:
                    events += 1
                reply: object = None
                try:
                    reply = yield step
                except GeneratorExit:
                    self.lines.append({"cancel": events, "during": line.get("effect"), "dropped": True})
                    raise
                except Cancelled as error:
                    thrown: BaseException | None = error
                    unseen = UNSEEN in error.args
                    self.lines.append({"cancel": events, "during": line.get("effect"), "unseen": unseen})
                except Exception as error:
                    thrown = error
                    line["raised"] = journal.raised(error, self._strike)
                else:
                    thrown = None
                    if isinstance(step, Effect):
                        line["reply"] = journal.replied(step, reply)
                if isinstance(step, Effect) and not isinstance(thrown, Cancelled):
                    after = journal.plain(journal.messages_of(step))
                    if after != before:
                        line["changed"] = after
                    self._note(step, line, reply)
                step = plan.throw(thrown) if thrown is not None else plan.send(reply)
        except StopIteration as end:
            self.lines.append({"end": "done"})
            return cast(T, end.value)
        except Exception as error:
            self.lines.append({"end": type(error).__name__})
            raise
        finally:
            self.settle()
            plan.close()

    def _note(self, effect: Effect[object], line: Line, reply: object) -> None:
        self.lines.append(line)
        if isinstance(effect, Open):
            self.settle()
            self._open = effect
        elif isinstance(effect, Recv) and "reply" in line:
            self._answer.append((line, cast(bytes, reply)))
        elif isinstance(effect, CloseResponse):
            self.settle()

    def settle(self) -> None:
        """Strike the keys of the request out of its answer; only the whole of it shows them all."""
        answer, self._answer = self._answer, []
        pieces = journal.without([data for _, data in answer], self._strike)
        for (line, data), piece in zip(answer, pieces, strict=True):
            line["reply"] = journal.written(piece)
            if data and not piece:  # left in, it would be the end of the answer
                self.lines[:] = [kept for kept in self.lines if kept is not line]

    def _strike(self, text: str) -> str:
        return text if self._open is None else self._open.request.strike(text)


# ---------------------------------------------------------------- performing


class Replay:
    """Performs the plans of an engine from the lines of a journal."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._at = 0

    @property
    def over(self) -> bool:
        """Whether every line was used."""
        return self._at >= len(self._lines)

    def run(self, engine: Engine, events: list[Event]) -> Exception | None:
        """Perform the next recorded plan; its events go to `events`, and the exception that ended it comes back.

        Raises `ReplayMismatch`.
        """
        begin = self._take()
        plan = plan_of(engine, begin)
        cancelled = False
        seen = 0
        try:
            step = plan.send(None)
            while True:
                seen += not isinstance(step, Effect)
                cancel = None if self.over else self._cancel(step, seen)
                if not (isinstance(step, Effect) or cancelled or (cancel or {}).get("unseen")):
                    events.append(step)
                if self.over and isinstance(step, Effect):
                    plan.close()  # it had not ended when the recording did
                    return None
                if cancel is not None:
                    self._at += 1
                    if cancel.get("dropped"):
                        plan.close()
                        return None
                    cancelled = True
                    step = plan.throw(Cancelled())
                else:
                    step = resume(plan, self._perform(step) if isinstance(step, Effect) else None)
        except StopIteration:
            self._end("done")
            return None
        except ReplayMismatch:
            plan.close()
            raise
        except Exception as error:
            self._end(journal.kind_of(error))
            return error

    def _cancel(self, step: Effect[object] | Event, seen: int) -> Line | None:
        """The next line, if it says that the run was cancelled here."""
        line = self._lines[self._at]
        during = NAMES[type(step)] if isinstance(step, Effect) else None
        return line if line.get("cancel") == seen and line.get("during") == during and "cancel" in line else None

    def _perform(self, effect: Effect[object]) -> object:
        name, number = NAMES[type(effect)], self._at + 1
        line = self._take()
        if line.get("effect") != name:
            raise ReplayMismatch(f"line {number} of the journal {_says(line)}, but the code asks for `{name}`")
        wanted = {key: value for key, value in line.items() if key not in ("effect", "reply", "raised", "changed")}
        if (found := first_difference(journal.asked(effect), wanted, exact=True, path=name)) is not None:
            raise ReplayMismatch(f"the `{name}` in line {number} of the journal is not what the code asks\n{found}")
        for message, changed in zip(journal.messages_of(effect), cast("list[object]", line.get("changed", []))):
            journal.change(message, changed)
        if (raised := line.get("raised")) is not None:
            return Raised(journal.error_from(cast("Line", raised)))
        return journal.reply_from(effect, line.get("reply"))

    def _take(self) -> Line:
        if self.over:
            raise ReplayMismatch("the journal is at its end, but the code goes on")
        line = self._lines[self._at]
        self._at += 1
        return line

    def _end(self, how: str) -> None:
        number = self._at + 1
        line = self._take()
        if line.get("end") != how:
            ends = "ends" if how == "done" else f"ends with {how}"
            raise ReplayMismatch(f"line {number} of the journal {_says(line)}, but the code {ends}") from None


def plan_of(engine: Engine, begin: Line) -> Plan[None]:
    """The plan that a `begin` line tells of."""
    match begin.get("begin"):
        case "run":
            said = begin.get("said")
            return loop.run(engine, None if said is None else _message(said), StateCell())
        case "add_system":
            return engine.add_system(str(begin["text"]), SystemMode(str(begin["mode"])))
        case other:
            raise StateError(f"this journal begins with {other!r}, which cannot be replayed")


def _message(told: object) -> Message:
    import msgspec

    return msgspec.convert(told, Message)


def _says(line: Line) -> str:
    if "effect" in line:
        return f"holds `{line['effect']}`"
    if "cancel" in line:
        return f"says that the run was cancelled after {line['cancel']} events"
    return "says that the run ended" if "end" in line else f"begins a {line.get('begin')}"
