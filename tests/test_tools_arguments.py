"""Arguments are converted before a function runs, and what does not fit is told field by field."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from panto.tools import ArgumentError, Tool


class Unit(enum.Enum):
    C = "c"
    F = "f"


class Half(enum.Enum):
    ONE = 1
    HALF = 0.5


@dataclasses.dataclass
class Point:
    x: int
    unit: Unit = Unit.C


@dataclasses.dataclass
class Named:
    name: str


class Options(TypedDict, total=False):
    depth: int


class Node(msgspec.Struct):
    value: int
    kids: list[Node] = []


class Model(pydantic.BaseModel):
    count: int = pydantic.Field(ge=1)
    inner: list[Model] = []


def converted(annotation: object, value: Any) -> object:
    def tool(it):  # type: ignore[no-untyped-def]
        return it

    tool.__annotations__ = {"it": annotation}
    return Tool.from_function(tool).run({"it": value})


def refused(annotation: object, value: Any) -> str:
    with pytest.raises(ArgumentError) as raised:
        converted(annotation, value)
    return str(raised.value).partition("\n- ")[2]


@pytest.mark.parametrize(
    ("annotation", "value", "meant"),
    [
        (int, 3, 3),
        (float, 3, 3.0),
        (Unit, "c", Unit.C),
        (Half, 0.5, Half.HALF),
        (Literal[True, "x"], True, True),
        (Point, {"x": 1, "unit": "f"}, Point(1, Unit.F)),
        (list[Point], [{"x": 1}], [Point(1)]),
        (Point | Named, {"name": "n"}, Named("n")),
        (list[Point | Named], [{"name": "n"}, {"x": 1}], [Named("n"), Point(1)]),
        (dict[str, Point | pathlib.Path], {"a": "p"}, {"a": pathlib.Path("p")}),
        (tuple[int, Point | Named], [1, {"x": 2}], (1, Point(2))),
        (set[int], [1, 1], {1}),
        (Options, {"depth": 1}, {"depth": 1}),
        (Node, {"value": 1, "kids": [{"value": 2}]}, Node(1, [Node(2)])),
        (Model, {"count": 1, "inner": [{"count": 2}]}, Model(count=1, inner=[Model(count=2)])),
        (list[Model] | None, [{"count": 1}], [Model(count=1)]),
        (datetime.date, "2026-11-30", datetime.date(2026, 11, 30)),
        (datetime.datetime | None, "2026-11-30T12:00:00", datetime.datetime(2026, 11, 30, 12)),
        (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678-1234-5678-1234-567812345678")),
        (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
        (bytes, "aGk=", b"hi"),
        (pathlib.Path, "a/b", pathlib.Path("a/b")),
        (Any, {"a": [1]}, {"a": [1]}),
        (str, "caf\udce9", "caf\udce9"),
    ],
)
def test_a_value_becomes_what_the_annotation_means(annotation: object, value: object, meant: object) -> None:
    made = converted(annotation, value)
    assert made == meant
    assert type(made) is type(meant)


@pytest.mark.parametrize(
    ("annotation", "value", "meant"),
    [
        (int, "3", 3),
        (int, 3.0, 3),
        (float, "1.5", 1.5),
        (bool, "true", True),
        (int | None, "null", None),
        (list[int], "[1, 2]", [1, 2]),
        (list[int], '["1"]', [1]),
        (Point, '{"x": "1"}', Point(1)),
        (Point | Named, '{"name": "n"}', Named("n")),
        (Model, '{"count": 2}', Model(count=2)),
    ],
)
def test_what_models_commonly_write_otherwise_is_forgiven(annotation: object, value: object, meant: object) -> None:
    assert converted(annotation, value) == meant


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int | str, "3"),
        (str, "[1]"),
        (str | list[int], "[1]"),
        (str | None, "null"),
        (Any, "[1]"),
        (bool | str, "true"),
    ],
)
def test_nothing_is_forgiven_where_the_value_fits_as_it_is(annotation: object, value: object) -> None:
    assert converted(annotation, value) == value


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (int, "x", "it: Expected `int`, got `str`"),
        (int, 1.5, "it: Expected `int`, got `float`"),
        (str, 3, "it: Expected `str`, got `int`"),
        (Unit, "k", 'it: Invalid enum value \'k\'; wanted one of "c", "f"'),
        (list[Unit], ["c", "k"], 'it[1]: Invalid enum value \'k\'; wanted one of "c", "f"'),
        (Half, 3, "it: Invalid value 3; wanted one of 1, 0.5"),
        (Point, {}, "it: Object missing required field `x`"),
        (Point, {"x": 1, "unit": "k"}, 'it.unit: Invalid enum value \'k\'; wanted one of "c", "f"'),
        (list[Point], [{"x": 1}, {"x": "a"}], "it[1].x: Expected `int`, got `str`"),
        (dict[str, Point | Named], {"a": {}}, "it.a: fits none of the kinds allowed"),
        (Point | Named, 3, "it: fits none of the kinds allowed (Expected `object`, got `int`)"),
        (tuple[int, Point | Named], [1], "it: Expected `array` of length 2, got 1"),
        (Annotated[int, pydantic.Field(ge=2)], 1, "it: Expected `int` >= 2"),
        (datetime.date, "soon", "it: Invalid RFC3339 encoded date; wanted string (date)"),
        (Model, {"count": 0}, "it: count: Input should be greater than or equal to 1"),
        (
            list[Model],
            [{"count": 1, "inner": [{"count": "x"}]}],
            "it[0]: inner.0.count: Input should be a valid integer",
        ),
        (pathlib.Path, 3, "it: Expected `str`, got `int`"),
        (Unit, "\ud800", "it: holds a lone surrogate"),
        (list[int], "[1", "it: Expected `array`, got `str`"),
    ],
)
def test_what_does_not_fit_names_the_field_and_what_was_wanted(annotation: object, value: object, told: str) -> None:
    assert refused(annotation, value).startswith(told)


def test_every_wrong_missing_and_unknown_field_is_named_at_once_and_nothing_runs() -> None:
    ran: list[object] = []

    def tool(a: int, b: str, c: float = 1.0) -> None:
        ran.append(a)

    made = Tool.from_function(tool)
    with pytest.raises(ArgumentError) as raised:
        made.run({"a": "x", "c": [], "d": 1})
    assert str(raised.value).splitlines() == [
        "The arguments do not fit, and the tool was not run:",
        "- a: Expected `int`, got `str`",
        "- b: is missing; wanted string",
        "- c: Expected `float`, got `array`",
        "- d: there is no such argument (known: a, b, c)",
    ]
    assert not ran
    with pytest.raises(ArgumentError, match="is missing"):
        made.check({})
    made.check({"a": 1, "b": ""})
    assert not ran


def test_defaults_hold_for_what_is_left_out_and_for_null() -> None:
    def tool(a: int = 1, b: str | None = "b", *, c: list[int] = [2]) -> object:  # noqa: B006
        return (a, b, c)

    run = Tool.from_function(tool).run
    assert run({}) == (1, "b", [2])
    assert run({"a": None, "b": None, "c": None}) == (1, None, [2])


def test_null_for_what_must_be_given_is_refused() -> None:
    assert refused(int, None) == "it: Expected `int`, got `null`"


def test_positional_only_and_keyword_only_parameters_get_their_values() -> None:
    def tool(a: int, b: int = 2, c: int = 3, /, d: int = 4, *, e: int) -> object:
        return (a, b, c, d, e)

    assert Tool.from_function(tool).run({"a": 1, "c": 9, "e": 5}) == (1, 2, 9, 4, 5)


def test_a_parameter_without_annotation_takes_anything() -> None:
    def tool(a, b=3):  # type: ignore[no-untyped-def]
        return (a, b)

    run = Tool.from_function(tool).run
    assert run({"a": {"x": [None]}}) == ({"x": [None]}, 3)
    assert run({"a": "1", "b": "2"}) == ("1", "2")


def test_a_function_that_changes_its_arguments_does_not_change_the_call() -> None:
    def tool(rows: list[Any], loose) -> None:  # type: ignore[no-untyped-def]
        rows[0].append(1)
        loose.clear()

    arguments: dict[str, Any] = {"rows": [[0]], "loose": {"k": 1}}
    Tool.from_function(tool).run(arguments)
    assert arguments == {"rows": [[0]], "loose": {"k": 1}}


def test_an_error_of_the_function_itself_is_not_an_argument_error() -> None:
    def tool(a: int) -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom") as raised:
        Tool.from_function(tool).run({"a": 1})
    assert not isinstance(raised.value, ArgumentError)


def test_a_tool_that_is_not_from_a_function_has_nothing_to_check() -> None:
    Tool("t", "", {"type": "object"}, lambda arguments: "x").check({"any": 1})
