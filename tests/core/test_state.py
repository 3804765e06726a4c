"""The state machine is the table, and nothing but the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from panto import State
from panto._core.state import TRANSITIONS, StateCell, diagram

from ..ways import gone

DOC = Path(__file__).parents[2] / "docs" / "state.md"


def test_the_diagram_in_the_docs_is_drawn_from_the_table() -> None:
    assert f"```mermaid\n{diagram()}\n```" in DOC.read_text("utf-8"), "write the output of diagram() into docs/state.md"


def test_a_way_that_is_not_in_the_table_cannot_be_gone() -> None:
    cell = StateCell()
    with pytest.raises(AssertionError, match="no way from"):
        cell.move(State.BACKOFF)
    assert cell.value is State.IDLE


def test_nothing_leads_out_of_an_end() -> None:
    for end in (State.DONE, State.FAILED, State.ABORTED):
        assert end not in TRANSITIONS


@pytest.mark.last
def test_the_ways_gone_over_the_whole_suite_are_exactly_those_of_the_table(whole_suite: bool) -> None:
    if not whole_suite:
        pytest.skip("only a run of the whole suite goes all ways")
    assert gone == {(start, end) for start, ways in TRANSITIONS.items() for end in ways}
