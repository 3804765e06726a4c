"""Fragments of tool calls find their call, whatever a host leaves out, repeats or empties."""

from __future__ import annotations

import re

import pytest
from tests.wire.chat_streams import Reading, call, chunk, deltas, event

from panto.config import StopReason
from panto.events import ContentDelta, ToolDetails

MADE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")


def ids(reading: Reading) -> list[str]:
    return [made.id for made in reading.calls]


def test_tc_01_the_index_of_the_only_call_may_be_missing() -> None:
    reading = Reading(deltas(call('{"p":', "c1", "ls", index=None), call('"."}', index=None), finish="tool_calls"))
    assert reading.made == [("ls", '{"p":"."}')]
    assert ids(reading) == ["c1"]
    assert reading.answer.stop_reason is StopReason.TOOL_USE


def test_tc_01_the_index_may_be_missing_at_first_only_or_change() -> None:
    assert Reading(deltas(call("{", "c", "ls", index=None), call("}", index=0))).made == [("ls", "{}")]
    assert Reading(deltas(call("{", "c", "ls", index=1), call("}", "c", index=0))).made == [("ls", "{}")]
    assert Reading(deltas(call("{", "c", "ls", index=-1), call("}", index=-1))).made == [("ls", "{}")]


def test_tc_02_new_ids_at_one_index_are_new_calls() -> None:
    cities = ("Oslo", "Lima", "Pune")
    given = [call(f'{{"c":"{city}"}}', f"q{n}", "weather") for n, city in enumerate(cities)]
    reading = Reading(deltas(*given))
    assert reading.made == [("weather", f'{{"c":"{city}"}}') for city in cities]
    assert ids(reading) == ["q0", "q1", "q2"]


def test_tc_02_calls_at_one_index_without_ids_are_told_apart_by_what_they_hold() -> None:
    same = Reading(deltas(call('{"c":1}', "", "w"), call('{"c":2}', "", "w"), call("{}", None, "v")))
    assert same.made == [("w", '{"c":1}'), ("w", '{"c":2}'), ("v", "{}")]
    assert len(set(ids(same))) == 3


def test_an_id_of_its_own_for_every_fragment_is_still_one_call() -> None:
    assert Reading(deltas(call('{"a"', "x1", "f"), call(":1", "x2"), call("}", "x3"))).made == [("f", '{"a":1}')]


def test_tc_03_id_and_name_in_every_chunk_are_taken_once() -> None:
    given = [call(piece, "t9", "read_file") for piece in ("{", '"p"', ':"a"', "}")]
    reading = Reading(deltas(*given))
    assert reading.made == [("read_file", '{"p":"a"}')]
    assert ids(reading) == ["t9"]


def test_tc_03_id_and_name_may_be_emptied_on_continuation() -> None:
    reading = Reading(deltas(call("", "t9", "read_file"), call("{", "", ""), call("}", "", "")))
    assert reading.made == [("read_file", "{}")]
    assert ids(reading) == ["t9"]


def test_tc_04_null_arguments_mean_no_bytes_yet() -> None:
    first = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "w", "arguments": None}}]}
    assert Reading(deltas(first, call('{"city":'), call('"Rome"}'))).made == [("w", '{"city":"Rome"}')]


@pytest.mark.parametrize("arguments", ["", None, "  "])
def test_tc_05_a_call_may_have_no_arguments(arguments: str | None) -> None:
    reading = Reading(deltas(call(arguments, "c", "now"), finish="tool_calls"))
    assert [(made.name, made.arguments.strip()) for made in reading.calls] == [("now", "")]
    assert ToolDetails(0, "c", "now") in reading.events


def test_tc_06_a_placeholder_in_front_of_the_arguments_is_dropped() -> None:
    for named in (None, "find"):
        reading = Reading(deltas(call("{}", "c", "find"), call('{"q":', None, named), call('"x"}')))
        assert reading.made == [("find", '{"q":"x"}')]
    twice = Reading(deltas(call("{}", "c", "find"), call("{}"), call('{"q":1}')))
    assert twice.made == [("find", '{"q":1}')]


def test_tc_06_a_placeholder_that_nothing_follows_is_the_arguments() -> None:
    reading = Reading(deltas(call("{}", "c", "now"), call("{}", "d", "now", index=1)))
    assert reading.made == [("now", "{}"), ("now", "{}")]
    assert [e.text for e in reading.events if isinstance(e, ContentDelta)] == ["{}", "{}"]


@pytest.mark.parametrize("id", ["", None])
def test_tc_07_calls_without_an_id_get_their_own(id: str | None) -> None:
    reading = Reading(deltas(call('{"a":1}', id, "f"), call('{"a":2}', id, "f", index=1)), seed="9f")
    assert reading.made == [("f", '{"a":1}'), ("f", '{"a":2}')]
    assert len(set(ids(reading))) == 2
    assert all(MADE_ID.fullmatch(made) for made in ids(reading))
    assert [e.id for e in reading.events if isinstance(e, ToolDetails)] == ids(reading)


def test_tc_07_two_calls_with_one_id_get_two() -> None:
    reading = Reading(deltas(call("{}", "call_0", "f"), call("{}", "call_0", "g", index=1)))
    assert reading.made == [("f", "{}"), ("g", "{}")]
    assert ids(reading)[0] == "call_0"
    assert len(set(ids(reading))) == 2


def test_tc_07_an_id_may_come_after_the_name() -> None:
    reading = Reading(deltas(call("", None, "f", index=None), call("{}", "late", index=None)))
    assert reading.made == [("f", "{}")]
    assert ids(reading) == ["late"]


@pytest.mark.parametrize("reason", ["stop", "other", None])
def test_tc_08_calls_count_whatever_the_reason(reason: str | None) -> None:
    given = [{"content": "On it"}, call("{}", "a", "f"), call("{}", "b", "g", index=1)]
    reading = Reading(deltas(*given, finish=reason))
    assert reading.text == "On it"
    assert reading.made == [("f", "{}"), ("g", "{}")]


def test_tc_10_a_call_that_was_cut_is_kept_as_it_came() -> None:
    for reason in ("length", "tool_calls"):
        reading = Reading(deltas(call('{"path":"a', "c", "write"), finish=reason))
        assert reading.made == [("write", '{"path":"a')]
        assert reading.answer.stop_raw == reason


def test_tc_13_arguments_may_be_an_object() -> None:
    reading = Reading(deltas(call({"a": [1, "ä"]}, "c", "f")))
    assert reading.made == [("f", '{"a":[1,"ä"]}')]
    assert Reading(deltas(call({}, "c", "f"), call({"a": 1}))).made == [("f", '{"a":1}')]


def test_several_calls_in_one_delta() -> None:
    entries = [{"id": f"c{n}", "function": {"name": "f", "arguments": f'{{"n":{n}}}'}, "index": n} for n in range(3)]
    for drop in ((), ("index",), ("index", "id"), ("id",)):
        kept = [{k: v for k, v in entry.items() if k not in drop} for entry in entries]
        assert Reading(deltas({"tool_calls": kept})).made == [("f", f'{{"n":{n}}}') for n in range(3)], drop


def test_calls_may_grow_side_by_side() -> None:
    both = {
        "tool_calls": [{"index": 0, "function": {"arguments": "1}"}}, {"index": 1, "function": {"arguments": "2}"}}]
    }
    reading = Reading(deltas(call('{"a":', "x", "f"), call('{"b":', "y", "g", index=1), both))
    assert reading.made == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_a_name_may_come_in_pieces() -> None:
    reading = Reading(deltas(call(None, "c", "read_"), call(None, None, "file"), call("{}")))
    assert reading.made == [("read_file", "{}")]
    growing = Reading(deltas(call(None, "c", "read_"), call(None, None, "read_file"), call("{}")))
    assert growing.made == [("read_file", "{}")]


def test_two_calls_with_nothing_but_names_are_two() -> None:
    assert Reading(deltas(call("", None, "now", index=None), call("", None, "today", index=None))).made == [
        ("now", ""),
        ("today", ""),
    ]


def test_arguments_that_come_before_their_name_wait_for_it() -> None:
    reading = Reading(deltas(call('{"a":', "c"), call("1}"), call(None, None, "f")))
    assert reading.made == [("f", '{"a":1}')]


def test_a_fragment_that_says_nothing_starts_no_call() -> None:
    reading = Reading(deltas({"tool_calls": []}, call("", "", ""), {"tool_calls": [{"index": 0}]}, {"content": "x"}))
    assert reading.kinds == ["TextualBlock"]


def test_details_are_told_before_the_first_argument_and_once() -> None:
    reading = Reading(deltas(call("", "c", "f"), call("{"), call("}")))
    names = [type(e).__name__ for e in reading.events]
    assert names == ["BlockStart", "ToolDetails", "ContentDelta", "ContentDelta", "BlockComplete"]


def test_the_old_form_of_a_call_is_read() -> None:
    given = [{"function_call": {"name": "f", "arguments": ""}}, {"function_call": {"arguments": '{"a":1}'}}]
    reading = Reading(deltas(*given, finish="function_call"))
    assert reading.made == [("f", '{"a":1}')]
    assert reading.answer.stop_reason is StopReason.TOOL_USE


def test_a_call_whole_in_the_chunk_that_ends_the_stream() -> None:
    reading = Reading(event(chunk(call('{"a":1}', "c", "f"), "tool_calls")))
    assert reading.made == [("f", '{"a":1}')]
