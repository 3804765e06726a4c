"""Damaged streams: no input crashes or stalls a decoder; a bad one is a typed failure, a good one a sound answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .mutations import bodies, cuts
from .profile import FUZZ
from .reading import WireName, read
from .seeds import CHAT, CHAT_PLAIN, MESSAGES, MESSAGES_PLAIN, Event, written


@settings(FUZZ)
@given(st.data())
def test_no_damaged_chat_stream_does_harm_and_no_cut_changes_what_it_says(data: st.DataObject) -> None:
    body = data.draw(bodies(CHAT, CHAT_PLAIN))
    whole = read("chat", [body])
    assert read("chat", data.draw(cuts(body))).told() == whole.told()


@settings(FUZZ)
@given(st.data())
def test_no_damaged_messages_stream_does_harm_and_no_cut_changes_what_it_says(data: st.DataObject) -> None:
    body = data.draw(bodies(MESSAGES, MESSAGES_PLAIN))
    whole = read("messages", [body])
    assert read("messages", data.draw(cuts(body))).told() == whole.told()


@settings(FUZZ, max_examples=100)
@given(st.data())
def test_a_decoder_that_is_fed_the_other_wire_fails_soundly(data: st.DataObject) -> None:
    read("messages", [data.draw(bodies(CHAT, CHAT_PLAIN))])
    read("chat", [data.draw(bodies(MESSAGES, MESSAGES_PLAIN))])


SEEDS = [
    *[("chat", name, events) for name, events in CHAT.items()],
    *[("messages", name, events) for name, events in MESSAGES.items()],
]


@pytest.mark.parametrize(("wire", "name", "events"), SEEDS, ids=[f"{wire}-{name}" for wire, name, _ in SEEDS])
def test_what_the_mutations_start_from_is_sound(wire: WireName, name: str, events: list[Event]) -> None:
    whole = read(wire, [written(events)])
    assert (whole.failure is not None) == ("error" in name)


@pytest.mark.parametrize(("wire", "name", "events"), SEEDS, ids=[f"{wire}-{name}" for wire, name, _ in SEEDS])
def test_a_stream_that_ends_anywhere_is_a_failure_or_the_same_answer(
    wire: WireName, name: str, events: list[Event]
) -> None:
    body = written(events)
    for end in range(0, len(body), 3):
        read(wire, [body[:end]])
