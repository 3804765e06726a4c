"""Any value becomes a result, and no result holds more text than its limit."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import pathlib
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panto.tools import MediaPart, ResultParts, TextPart, ToolCallResult, as_result, limit_result

PNG = MediaPart("image/png", b"\x89PNG\r\n")


class Colour(enum.Enum):
    RED = "red"


class Word(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not this"


class Row(msgspec.Struct):
    x: int
    at: pathlib.Path


@dataclasses.dataclass
class Point:
    x: int


class Model(pydantic.BaseModel):
    when: datetime.date


class Odd:
    def __str__(self) -> str:
        return "<odd>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\ud800", "as it is\ud800"),
        ("", ""),
        (Word("word"), "word"),
        (None, "(no output)"),
        (True, "true"),
        (3, "3"),
        (1.5, "1.5"),
        ({"b": 1, "a": [None]}, '{"b":1,"a":[null]}'),
        ([], "[]"),
        (["a", "b"], '["a","b"]'),
        ((1, "é"), '[1,"é"]'),
        ({1: Odd()}, '{"1":"<odd>"}'),
        (Colour.RED, "red"),
        (Row(1, pathlib.Path("p")), '{"x":1,"at":"p"}'),
        (Point(1), '{"x":1}'),
        (Model(when=datetime.date(2026, 1, 2)), '{"when":"2026-01-02"}'),
        ([Model(when=datetime.date(2026, 1, 2))], '[{"when":"2026-01-02"}]'),
        (Odd(), "<odd>"),
        (pathlib.Path("a/b"), "a/b"),
        ({(1, 2): 3}, '{"(1, 2)":3}'),
        ({"lone": "\udce9"}, '{"lone": "\udce9"}'),
        (b"caf\xc3\xa9", "café"),
        (int, "<class 'int'>"),
    ],
)
def test_a_value_has_its_text(value: object, text: str) -> None:
    result = as_result(value)
    assert result.text == text
    assert not result.is_error


def test_a_value_that_contains_itself_still_has_a_text() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert as_result(loop).text == "[[...]]"


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (PNG, (PNG,)),
        (TextPart("a"), (TextPart("a"),)),
        ([TextPart("a"), PNG], (TextPart("a"), PNG)),
        (["caption", PNG], (TextPart("caption"), PNG)),
        (ResultParts([PNG]), (PNG,)),
        (ResultParts(), ()),
    ],
)
def test_parts_stay_parts(value: object, parts: tuple[object, ...]) -> None:
    assert as_result(value) == ToolCallResult(parts)  # type: ignore[arg-type]


def test_a_result_is_taken_as_it_is() -> None:
    result = ToolCallResult.error("no", {"code": 1})
    assert as_result(result) is result


def test_bytes_that_are_no_text_and_returned_exceptions_are_errors() -> None:
    binary = as_result(b"\x89PNG")
    assert binary.is_error
    assert "4 bytes" in binary.text
    assert "MediaPart" in binary.text
    assert as_result(KeyError("k")) == ToolCallResult.error("KeyError: 'k'")


# ---------------------------------------------------------------- the limit


def size(result: ToolCallResult) -> int:
    return len(result.text.encode("utf-8", "surrogatepass"))


def test_a_giant_line_keeps_head_and_tail_and_says_what_is_missing() -> None:
    text = "<" + "x" * 5_000_000 + ">"
    limited = limit_result(as_result(text), 51_200)
    assert size(limited) <= 51_200
    head, line, tail = limited.text.split("\n")
    assert head.startswith("<x")
    assert tail.endswith("x>")
    assert abs(len(head) - len(tail)) <= 1
    assert line == (
        f"[... {len(text) - len(head) - len(tail)} of {len(text)} bytes left out here; "
        "ask for a smaller part to see them ...]"
    )


def test_what_is_within_the_limit_is_returned_itself() -> None:
    for result in (as_result("x" * 300), as_result("é" * 150), as_result(PNG), ToolCallResult(())):
        assert limit_result(result, 300) is result


def test_media_flag_and_details_stay() -> None:
    result = ToolCallResult((TextPart("a" * 400), PNG, TextPart("b" * 400)), True, {"code": 2})
    limited = limit_result(result, 300)
    assert limited.parts[1] is PNG
    assert (limited.is_error, limited.details) == (True, {"code": 2})
    assert limited.text.startswith("a")
    assert limited.text.endswith("b")
    assert limited.text.count("left out here") == 1


texts = st.text(st.sampled_from("aé€😀\ud83d\ude00\n"), max_size=120)


@given(st.lists(texts | st.just(PNG), max_size=6), st.integers(0, 400))
def test_the_limit_holds_for_any_parts_and_only_the_middle_is_missing(given_parts: list[Any], limit: int) -> None:
    result = ToolCallResult(tuple(TextPart(part) if isinstance(part, str) else part for part in given_parts))
    limited = limit_result(result, limit)
    assert size(limited) <= max(limit, 0)
    assert [type(part) for part in limited.parts] == [type(part) for part in result.parts]
    if size(result) <= limit:
        assert limited is result
    elif limit > 120:
        head, line, tail = limited.text.partition("\n[... ")
        count, _, tail = tail.partition(" ...]\n")
        assert line
        assert result.text.startswith(head)
        assert result.text.endswith(tail)
        kept = len((head + tail).encode("utf-8", "surrogatepass"))
        assert count.startswith(f"{size(result) - kept} of {size(result)} bytes")
