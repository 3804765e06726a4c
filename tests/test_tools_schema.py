"""What a model is told of a function: the schema of each annotation, and what cannot be told."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import pathlib
import typing
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict, Union

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panto._schema import inlined
from panto.errors import ConfigError
from panto.tools import Tool, ToolContext, normal_schema


class Unit(enum.Enum):
    C = "c"
    F = "f"


class Mixed(enum.Enum):
    ONE = 1
    HALF = 0.5
    ALL = "all"


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


@dataclasses.dataclass
class Circle:
    centre: Point
    radius: float


class Node(msgspec.Struct):
    value: int
    kids: list[Node] = []


class Partial(TypedDict, total=False):
    a: int
    b: str


class Total(TypedDict):
    a: int
    b: NotRequired[str]


class Model(pydantic.BaseModel):
    title: str
    inner: list[Model] = []


class Flat(pydantic.BaseModel):
    count: int = pydantic.Field(ge=1, description="How many.")


UserId = NewType("UserId", int)
POINT = {
    "description": "A place.",
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
}
NULL = {"type": "null"}


def schema_of(annotation: object) -> dict[str, Any]:
    def tool(value):  # type: ignore[no-untyped-def]
        return value

    tool.__annotations__ = {"value": annotation}
    schema = Tool.from_function(tool).schema
    assert schema["required"] == ["value"]
    return schema["properties"]["value"]  # type: ignore[index,call-overload,return-value]


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (object, {}),
        (None, NULL),
        (list, {"type": "array"}),
        (dict, {"type": "object"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (collections.abc.Iterable[str], {"type": "array", "items": {"type": "string"}}),
        (collections.abc.Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["b", "a"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[2, 1], {"type": "integer", "enum": [1, 2]}),
        (Literal[True, "x"], {"enum": [True, "x"]}),
        (Unit, {"type": "string", "enum": ["c", "f"]}),
        (Mixed, {"enum": [1, 0.5, "all"]}),
        (Optional[int], {"anyOf": [{"type": "integer"}, NULL]}),  # noqa: UP045
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Union[Point, Unit], {"anyOf": [POINT, {"type": "string", "enum": ["c", "f"]}]}),  # noqa: UP007
        (Point, POINT),
        (Circle | Point, {"anyOf": [schema_of(Circle), POINT]}),
        (list[Point | pathlib.Path], {"type": "array", "items": {"anyOf": [POINT, {"type": "string"}]}}),
        (
            Partial,
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": []},
        ),
        (
            Total,
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]},
        ),
        (UserId, {"type": "integer"}),
        (Annotated[int, msgspec.Meta(ge=1, description="d")], {"type": "integer", "minimum": 1, "description": "d"}),
        (Annotated[str, "which one"], {"type": "string", "description": "which one"}),
        (
            Annotated[int, pydantic.Field(gt=0, description="d")],
            {"type": "integer", "exclusiveMinimum": 0, "description": "d"},
        ),
        (Annotated[str, "inside"] | None, {"anyOf": [{"type": "string"}, NULL], "description": "inside"}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.time | None, {"anyOf": [{"type": "string", "format": "time"}, NULL]}),
        (list[datetime.datetime], {"type": "array", "items": {"type": "string", "format": "date-time"}}),
        (datetime.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (decimal.Decimal, {"type": "string", "format": "decimal"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (pathlib.Path, {"type": "string"}),
        (pathlib.Path | None, {"anyOf": [{"type": "string"}, NULL]}),
        (
            Flat,
            {
                "properties": {"count": {"description": "How many.", "minimum": 1, "type": "integer"}},
                "required": ["count"],
                "type": "object",
            },
        ),
    ],
)
def test_an_annotation_has_its_schema(annotation: object, schema: dict[str, Any]) -> None:
    assert schema_of(annotation) == schema


def test_a_property_named_title_is_kept_and_titles_are_not() -> None:
    def tool(title: str, model: Model, node: Node) -> None: ...

    schema = Tool.from_function(tool).schema
    assert list(schema["properties"]) == ["title", "model", "node"]  # type: ignore[arg-type]
    assert list(schema["$defs"]["Model"]["properties"]) == ["title", "inner"]  # type: ignore[index,call-overload,arg-type]
    assert '"title":"' not in msgspec.json.encode(schema).decode()


def test_definitions_that_refer_to_themselves_are_kept_at_the_top_and_every_reference_holds() -> None:
    def tool(node: Node, more: list[Node], model: Model | None) -> None: ...

    schema = Tool.from_function(tool).schema
    text = msgspec.json.encode(schema).decode()
    refs = {part.split('"')[0] for part in text.split('"$ref":"#/$defs/')[1:]}
    assert refs == set(schema["$defs"])  # type: ignore[arg-type]
    assert "#/definitions" not in text


def test_two_classes_of_one_name_stay_two() -> None:
    first = {"$defs": {"N": {"properties": {"a": {"$ref": "#/$defs/N"}}}}, "$ref": "#/$defs/N"}
    second = {"$defs": {"N": {"properties": {"b": {"$ref": "#/$defs/N"}}}}, "$ref": "#/$defs/N"}
    made: Any = inlined({"anyOf": [first, second]})
    one, two = (branch["$ref"].rpartition("/")[2] for branch in made["anyOf"])
    assert made["$defs"][one]["properties"] == {"a": {"$ref": f"#/$defs/{one}"}}
    assert made["$defs"][two]["properties"] == {"b": {"$ref": f"#/$defs/{two}"}}


def test_the_schema_is_an_object_that_names_what_is_required_and_closes_the_rest() -> None:
    def tool(path: str, limit: int = 5, *, tags: frozenset[str] = frozenset("ba"), any_=None) -> None: ...  # type: ignore[no-untyped-def]

    assert Tool.from_function(tool).schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer", "default": 5},
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "default": ["a", "b"]},
            "any_": {"default": None},
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_is_an_empty_object() -> None:
    def now() -> str:
        return ""

    assert Tool.from_function(now).schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_a_default_that_is_no_json_is_not_told() -> None:
    def tool(a: Any = object(), b: pathlib.Path = pathlib.Path("x")) -> None: ...  # noqa: B008

    assert Tool.from_function(tool).schema["properties"] == {"a": {}, "b": {"type": "string", "default": "x"}}


def test_descriptions_come_from_the_docstring_and_the_annotation_wins() -> None:
    def tool(a: int, b: Annotated[int, "from the annotation"]) -> None:
        """Do it.

        Args:
            a: from the docstring
            b: not this
        """

    made = Tool.from_function(tool)
    assert made.description == "Do it."
    told: Any = made.schema["properties"]
    assert [told[name]["description"] for name in "ab"] == ["from the docstring", "from the annotation"]


def test_string_annotations_find_closures_and_classes_of_the_running_function() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    Closed = Literal["k"]

    def tool(a: Local, b: Closed) -> object:  # type: ignore[valid-type]
        return Closed

    told: Any = Tool.from_function(tool).schema["properties"]
    assert told["a"]["properties"] == {"x": {"type": "integer"}}
    assert told["b"]["enum"] == ["k"]


def test_a_decorated_function_is_read_where_it_was_written() -> None:
    def plain(fn: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(fn)
        def wrapper(*args: object, **kwargs: object) -> object:
            return fn(*args, **kwargs)

        return wrapper

    @plain
    def tool(a: Point) -> int:
        """Told."""
        return a.x

    made = Tool.from_function(tool)
    assert made.description == "Told."
    assert made.run({"a": {"x": 4}}) == 4


def test_what_a_partial_has_filled_is_not_shown() -> None:
    def query(sql: str, limit: int, *, key: str) -> str:
        """Ask."""
        return f"{sql}{limit}{key}"

    made = Tool.from_function(functools.partial(query, key="canary"))
    assert (made.name, made.description) == ("query", "Ask.")
    assert "key" not in made.schema["properties"]  # type: ignore[operator]
    assert "canary" not in repr(made.decl)
    assert made.run({"sql": "s", "limit": 1}) == "s1canary"


@pytest.mark.parametrize(
    "annotation",
    [ToolContext, ToolContext | None, Optional[ToolContext], Annotated[ToolContext, "x"], "ToolContext"],  # noqa: UP045
)
def test_a_parameter_for_the_context_is_not_shown_and_gets_it(annotation: object) -> None:
    def tool(a, ctx):  # type: ignore[no-untyped-def]
        return (a, ctx)

    tool.__annotations__ = {"ctx": annotation}
    made = Tool.from_function(tool)
    assert made.takes_context
    assert list(made.schema["properties"]) == ["a"]  # type: ignore[arg-type]
    assert made.run({"a": 1}, "context") == (1, "context")


def test_a_context_imported_for_the_type_checker_alone_is_known_by_its_name() -> None:
    def tool(ctx: "panto_for_checkers.ToolContext | None") -> object:  # type: ignore[name-defined]  # noqa: F821, UP037
        return ctx

    assert Tool.from_function(tool).takes_context


class Searcher:
    def method(self, q: str) -> str:
        """By method."""
        return q

    @classmethod
    def of_class(cls, q: str) -> str:
        return cls.__name__ + q

    @staticmethod
    def of_none(q: str) -> str:
        return q

    def __call__(self, q: str) -> str:
        """By call."""
        return q


class AsyncSearcher:
    """What searches."""

    async def __call__(self, q: Point) -> int:
        return q.x


@pytest.mark.parametrize(
    ("fn", "name", "said"),
    [
        (Searcher().method, "method", "x"),
        (Searcher.of_class, "of_class", "Searcherx"),
        (Searcher.of_none, "of_none", "x"),
        (Searcher(), "Searcher", "x"),
    ],
)
def test_methods_and_callable_objects_are_tools(fn: Callable[..., object], name: str, said: str) -> None:
    made = Tool.from_function(fn)
    assert made.name == name
    assert list(made.schema["properties"]) == ["q"]  # type: ignore[arg-type]
    assert made.run({"q": "x"}) == said
    assert not made.is_async


def test_async_functions_and_objects_are_known_as_such() -> None:
    async def tool(a: int) -> int:
        return a

    for made in (
        Tool.from_function(tool),
        Tool.from_function(functools.partial(tool)),
        Tool.from_function(AsyncSearcher()),
    ):
        assert made.is_async
    assert Tool.from_function(AsyncSearcher()).description == "What searches."
    assert Tool("t", "", {}, functools.partial(tool)).is_async
    assert Tool("t", "", {}, AsyncSearcher()).is_async
    coroutine = Tool.from_function(AsyncSearcher()).run({"q": {"x": 3}})
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)  # type: ignore[attr-defined]
    assert stopped.value.value == 3


class Unknown:
    pass


def test_what_a_model_cannot_be_told_of_is_refused_with_the_parameter_named() -> None:
    def stars(*args: int) -> None: ...
    def double(**kwargs: int) -> None: ...
    def unknown(bad: Unknown) -> None: ...
    def nested(bad: list[Unknown]) -> None: ...
    def unresolved(bad: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def constrained(bad: Annotated[str | pathlib.Path, msgspec.Meta(min_length=1)]) -> None: ...
    def mistyped(bad: Annotated[str, msgspec.Meta(ge=1)]) -> None: ...
    def literal(bad: Literal[b"x"]) -> None: ...
    def default(bad: int = pydantic.Field(3)) -> None: ...
    def second(a: ToolContext, bad: ToolContext) -> None: ...

    words = {
        stars: r"\*args",
        double: r"\*\*kwargs",
        unknown: "'bad'.*Unknown",
        nested: "'bad'.*Unknown",
        unresolved: "'bad'.*Missing",
        constrained: "'bad'.*members",
        mistyped: "'bad'",
        literal: "'bad'",
        default: "'bad'.*Annotated",
        second: "'bad'.*second",
    }
    for fn, said in words.items():
        with pytest.raises(ConfigError, match=said):
            Tool.from_function(fn)


def test_what_is_no_tool_at_all_is_refused_with_a_hint() -> None:
    def steps(a: int) -> typing.Iterator[int]:
        yield a

    async def asteps(a: int) -> typing.AsyncIterator[int]:
        yield a

    for fn, said in (
        (steps, "yields"),
        (asteps, "yields"),
        (Searcher.method, "instance"),
        (3, "not int"),
        (iter, "signature"),
    ):
        with pytest.raises(ConfigError, match=said):
            Tool.from_function(fn)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="name"):
        Tool.from_function(lambda: 1)
    assert Tool.from_function(lambda: 1, name="one").name == "one"


# ---------------------------------------------------------------- schemas of others


@pytest.mark.parametrize(
    ("given_schema", "normal"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
        ({"properties": {"a": True}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": ["object", "null"]}, {"type": "object", "properties": {}}),
        ({"type": "object", "required": None}, {"type": "object", "properties": {}}),
        (
            {"type": "object", "required": ("a",), "properties": {"a": {}}},
            {"type": "object", "properties": {"a": {}}, "required": ["a"]},
        ),
        (
            {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]},
            {"type": "object", "properties": {"a": {}}},
        ),
        (
            {"$ref": "#/definitions/X", "definitions": {"X": {"type": "object", "properties": {"a": {}}}}},
            {
                "type": "object",
                "properties": {"a": {}},
                "definitions": {"X": {"type": "object", "properties": {"a": {}}}},
            },
        ),
        ({"type": "string"}, None),
        ({"anyOf": [{"type": "object"}]}, None),
        ({"type": "object", "oneOf": [{"properties": {"a": {}}}]}, None),
        ({"enum": [1]}, None),
        ({"$ref": "#/$defs/Nowhere"}, None),
        ({"$ref": "#/$defs/X", "$defs": {"X": {"$ref": "#/$defs/X"}}}, None),
        ({"properties": []}, None),
        ({"properties": {"a": 3}}, None),
        ({"properties": {"a": {"default": object()}}}, None),
        ("string", None),
        (None, None),
    ],
)
def test_a_foreign_schema_is_made_normal_or_refused(given_schema: object, normal: object) -> None:
    assert normal_schema(given_schema) == normal


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "required", "$ref", "$defs", "X", "anyOf", "items", "enum"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_a_normal_schema_is_an_object_and_stays_as_it_is(value: object) -> None:
    made = normal_schema(value)
    if made is not None:
        assert made["type"] == "object"
        assert isinstance(made["properties"], dict)
        assert normal_schema(made) == made


@given(json_values)
def test_resolving_references_ends_for_any_schema(value: object) -> None:
    if isinstance(value, dict):
        once = inlined({**value, "properties": {"a": {"$ref": "#/$defs/X"}}})
        assert inlined(once) == once
