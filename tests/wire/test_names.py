"""Every tool gets a wire name of its own, whatever it is called, and the call finds its way back."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from panto._wire.names import NameTable, encode
from panto.errors import ConfigError, ToolNameError

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def table(*names: str) -> NameTable:
    return NameTable([("local", name) for name in names])


alphabet = st.sampled_from("ab_-./: é日\ud800")
short = st.text(alphabet, min_size=1, max_size=4)
names = st.lists(short | st.text(min_size=1, max_size=90), unique=True, max_size=12)


@given(names)
@example(["a.b", "a-b", "a_b", "a__b", "a/b"])
def test_wire_names_are_legal_distinct_and_lead_back(names: list[str]) -> None:
    wires = table(*names)
    assert list(wires.to_wire) == names
    assert len(set(wires.to_wire.values())) == len(names)
    for name, wire in wires.to_wire.items():
        assert LEGAL.fullmatch(wire)
        assert wires.from_wire[wire] == name
        if LEGAL.fullmatch(name):
            assert wire == name
    assert len(wires.from_wire) == len(names)


@given(names, st.randoms(use_true_random=False))
def test_the_order_of_registration_does_not_show(names: list[str], random: object) -> None:
    shuffled = list(names)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert table(*names).to_wire == table(*shuffled).to_wire


@given(names, short | st.text(max_size=90))
def test_any_unregistered_name_gets_a_legal_wire_name_that_no_registered_tool_has(names: list[str], other: str) -> None:
    wires = table(*names)
    wire = wires.wire(other)
    assert LEGAL.fullmatch(wire)
    assert wire == wires.wire(other)
    if other in names:
        assert wire == wires.to_wire[other]
    else:
        assert wire not in wires.from_wire


def test_an_encoded_name_that_would_hit_the_hash_of_another_moves_on() -> None:
    taken = table("a.b", "a_b").to_wire["a.b"]
    wires = table("a.b", "a_b", taken)
    assert wires.to_wire[taken] == taken
    assert wires.to_wire["a.b"] not in ("a_b", taken)


def test_wire_names_are_the_same_in_every_process() -> None:
    code = (
        "from panto._wire.names import NameTable;"
        "print(sorted(NameTable([('', n) for n in ('a.b', 'a/b', 'é', 'x' * 70)]).to_wire.values()))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert seen == {str(sorted(table("a.b", "a/b", "é", "x" * 70).to_wire.values())) + "\n"}


def test_an_unregistered_legal_name_does_not_reach_the_tool_that_was_encoded_to_it() -> None:
    wires = table("calendar.create")
    assert wires.to_wire["calendar.create"] == "calendar_create"
    assert wires.wire("calendar_create") != "calendar_create"
    assert wires.name("calendar_create") == "calendar.create"
    assert wires.name("no_such_tool") == "no_such_tool"


def test_tn_01_dots_slashes_spaces_and_colons_are_encoded_readably() -> None:
    wires = table("calendar.create", "admin/tools/list", "a b", "x:y")
    assert list(wires.to_wire.values()) == ["calendar_create", "admin_tools_list", "a_b", "x_y"]
    assert [wires.name(wire) for wire in wires.to_wire.values()] == list(wires.to_wire)


def test_tn_02_a_long_name_is_shortened_with_a_hash_and_keeps_its_start() -> None:
    long = "enterprise-database-management__synchronize-all-customer-records-between-regions"
    other = long[:-1] + "z"
    wires = table(long, other)
    for wire in wires.to_wire.values():
        assert len(wire) == 64
        assert wire.startswith("enterprise-database-management")
    assert wires.to_wire[long] != wires.to_wire[other]
    assert wires.to_wire[long] == encode(long)


def test_tn_02_64_characters_are_kept_and_a_trailing_newline_is_not_legal() -> None:
    assert encode("x" * 64) == "x" * 64
    assert encode("x" * 65) != "x" * 65
    assert encode("grep\n") == "grep_"


def test_tn_03_two_names_never_become_one_and_the_legal_one_stays() -> None:
    assert table("catalog.query", "catalog_query").to_wire["catalog_query"] == "catalog_query"
    wires = table("a.b", "a-b", "a_b", "a__b", "a/b")
    assert len(set(wires.to_wire.values())) == 5
    assert [wires.to_wire[name] for name in ("a-b", "a_b", "a__b")] == ["a-b", "a_b", "a__b"]
    assert all(wires.to_wire[name].startswith("a_b_") for name in ("a.b", "a/b"))


def test_tn_04_the_same_full_name_twice_is_an_error_that_names_both_sources() -> None:
    with pytest.raises(ToolNameError, match=r"'search'.*from files.*from web"):
        NameTable([("files", "search"), ("web", "search")])
    assert issubclass(ToolNameError, ConfigError)


def test_tn_04_sources_are_told_apart_by_their_prefix() -> None:
    wires = NameTable([("files", "files.search"), ("web", "web.search"), ("", "search")])
    assert set(wires.to_wire.values()) == {"files_search", "web_search", "search"}


def test_an_empty_name_is_an_error_when_registered_and_still_sendable_in_an_old_history() -> None:
    with pytest.raises(ToolNameError, match="empty"):
        NameTable([("web", "")])
    assert LEGAL.fullmatch(table("grep").wire(""))
