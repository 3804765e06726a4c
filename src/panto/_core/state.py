"""Where a stream stands, and the table of the ways between.

Law: only the core moves a state, and only along a row of `TRANSITIONS`; the diagram in the docs is drawn from the
table, and a test holds that the ways gone over the whole suite are exactly its rows.
"""

from __future__ import annotations

import enum


class State(enum.Enum):
    """Where a stream stands."""

    IDLE = "idle"
    """Not started."""
    OPENING = "opening"
    """A request is on its way."""
    STREAMING = "streaming"
    """An answer is coming in."""
    BACKOFF = "backoff"
    """A call failed and waits for its next try."""
    DISPATCHING = "dispatching"
    """Tools run."""
    COMPACTING = "compacting"
    """The conversation is being summarised."""
    DONE = "done"
    """Ended with a `TurnComplete`."""
    FAILED = "failed"
    """Ended with an exception."""
    ABORTED = "aborted"
    """Closed before its end."""


TRANSITIONS: dict[State, dict[State, str]] = {
    State.IDLE: {
        State.OPENING: "started",
        State.ABORTED: "closed while the question was stored",
        State.FAILED: "the caller's own code raised",
    },
    State.OPENING: {
        State.STREAMING: "an answer begins",
        State.BACKOFF: "refused, may be tried again",
        State.FAILED: "refused",
        State.ABORTED: "closed",
    },
    State.STREAMING: {
        State.OPENING: "the provider paused",
        State.BACKOFF: "failed in the middle, may be tried again",
        State.DISPATCHING: "the answer holds calls",
        State.DONE: "the answer is whole",
        State.FAILED: "failed in the middle, or could not be stored",
        State.ABORTED: "closed",
    },
    State.BACKOFF: {
        State.OPENING: "waited",
        State.ABORTED: "closed",
    },
    State.DISPATCHING: {
        State.OPENING: "every call has its result",
        State.DONE: "a limit was reached, or the answer was cut",
        State.FAILED: "results could not be stored, or the caller's own code raised",
        State.ABORTED: "closed",
    },
}
"""From, to, and why."""


class StateCell:
    """The state of one stream."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: State = State.IDLE

    def move(self, to: State) -> None:
        """Go to `to`; staying is no move."""
        if to is self.value:
            return
        if to not in TRANSITIONS.get(self.value, {}):
            raise AssertionError(f"no way from {self.value} to {to}")
        self.value = to


def diagram() -> str:
    """The table as a Mermaid state diagram, for `docs/state.md`."""
    rows = [
        f"    {start.name} --> {end.name}: {why}" for start, ways in TRANSITIONS.items() for end, why in ways.items()
    ]
    ends = [f"    {state.name} --> [*]" for state in State if state not in TRANSITIONS and state in _reached()]
    return "\n".join(["stateDiagram-v2", "    [*] --> IDLE", *rows, *ends])


def _reached() -> set[State]:
    return {end for ways in TRANSITIONS.values() for end in ways}
