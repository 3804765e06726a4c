"""How long a stream lives: begun at its first step, over once; and whose turn it is on an agent.

Law: one stream of an agent is open at a time. A stream that was never begun leaves nothing; one that was dropped
half-way stops at once; its history is put in order there and then, and stored by the next use of its agent.
"""

from __future__ import annotations

import warnings
import weakref
from typing import Protocol

from panto._core.effects import Plan
from panto._core.engine import Engine
from panto._core.state import State, StateCell
from panto.errors import StateError


class _Driver(Protocol):
    def abort(self) -> None: ...

    def finish(self) -> None: ...


class Lifecycle:
    """What the streams of both agents share; they add how to wait."""

    _begun = False

    def __init__(
        self, agent: object, engine: Engine, guard: Guard, plan: Plan[None], cell: StateCell, driver: _Driver
    ) -> None:
        self._agent = agent  # what it holds is not let go of before the stream
        self._engine = engine
        self._guard = guard
        self._plan: Plan[None] | None = plan
        self._cell = cell
        self._driver = driver

    @property
    def state(self) -> State:
        """Where the stream stands. Written by the loop alone; see `State`."""
        return self._cell.value

    def _begin(self) -> None:
        self._guard.enter(self)
        self._begun = True

    def _over(self) -> None:
        self._plan = None
        self._guard.leave(self)
        self._driver.finish()

    def _check_unread(self) -> None:
        if self._plan is None:
            raise StateError("this stream is over, and a stream is read once; call agent.run(...) for another turn")

    def __del__(self) -> None:
        plan = getattr(self, "_plan", None)
        if plan is None or not self._begun:
            return
        self._plan = None
        self._guard.leave(self)
        self._driver.abort()
        plan.close()  # the history is put in order at once, in memory; the next use of the agent stores it
        warnings.warn(
            "a panto stream was dropped before its end; use `with agent.run(...) as stream:` or stream.close()",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )


def being_read() -> StateError:
    """What a second reader of a stream is told."""
    return StateError("the next event of this stream is being waited for already; a stream has one reader")


class Guard:
    """Whose turn it is on one agent."""

    def __init__(self) -> None:
        self._open: weakref.ref[Lifecycle] | None = None
        self._busy: str | None = None
        self.closed: bool = False

    @property
    def stream(self) -> Lifecycle | None:
        """The open stream."""
        return self._open() if self._open is not None else None

    def check(self, what: str) -> None:
        """Refuse `what` while a stream is open, or after the agent's end."""
        if self.closed:
            raise StateError(f"{what}: the agent is closed; make a new one with the same session")
        if self.stream is not None:
            raise StateError(f"{what}: a stream of this agent is still open; read it to its end, or close() it, first")
        if self._busy is not None:
            raise StateError(f"{what}: the agent is busy with {self._busy}; wait for that first")

    def enter(self, stream: Lifecycle) -> None:
        """A stream begins."""
        self.check("run")
        self._open = weakref.ref(stream)

    def leave(self, stream: Lifecycle) -> None:
        """A stream is over, or gone."""
        if self.stream is stream:
            self._open = None

    def begin_call(self, what: str) -> None:
        """A call that is no stream begins."""
        self.check(what)
        self._busy = what

    def end_call(self) -> None:
        """It is over."""
        self._busy = None
