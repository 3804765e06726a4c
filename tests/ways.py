"""The ways between states that the tests of this process have gone."""

from __future__ import annotations

from panto._core.state import State, StateCell

gone: set[tuple[State, State]] = set()

_move = StateCell.move


def _noted(cell: StateCell, to: State) -> None:
    before = cell.value
    _move(cell, to)
    if to is not before:
        gone.add((before, to))


StateCell.move = _noted  # type: ignore[method-assign]
