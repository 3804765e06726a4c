"""One annotation as a field: its schema, and how a JSON value becomes what the annotation means.

Law: msgspec decides whatever it knows; what it does not (paths, pydantic models, unions of several classes, literals
and enums of mixed kinds) is taken apart here, and what nobody can describe is refused when the tool is made, not when
it is called. A value is tried exactly first; only when that fails are the mistakes forgiven that models make.
"""

from __future__ import annotations

import collections.abc
import datetime
import enum
import pathlib
import re
import types
import typing
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from ._schema import Schema, inlined, wanted
from .config import JSON

__all__ = ["Field", "Misfit", "field_of"]

_UNIONS = (typing.Union, types.UnionType)

Convert: TypeAlias = Callable[[object, bool], object]
"""Takes a JSON value, and whether it must fit exactly; gives the Python value or raises."""


class Misfit(ValueError):
    """A value does not fit its field. `path` says where within it, empty for the whole."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.path = path


class Field:
    """An annotation, understood. `schema` is complete in itself; `description` comes from the annotation."""

    __slots__ = ("_convert", "description", "schema")

    def __init__(self, schema: Schema, convert: Convert, description: str | None) -> None:
        self.schema = schema
        self.description = description
        self._convert = convert

    def convert(self, value: object) -> object:
        """The Python value that the JSON value `value` means.

        Forgiven where an exact reading fails: numbers, booleans and null written as strings, a whole number written
        with a fraction of zero, an array or object written as a string of JSON. Raises `Misfit`.
        """
        try:
            return self._convert(value, True)
        except Exception as error:
            first = error
        readings = [value]
        if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
            try:
                readings.insert(0, msgspec.json.decode(value))
            except ValueError:  # also UnicodeEncodeError, for a lone surrogate
                pass
        for reading in readings:
            try:
                return self._convert(reading, False)
            except Exception:
                continue
        misfit = _misfit(first)
        want = wanted(self.schema, misfit.path)
        if want and misfit.text.startswith("Invalid"):  # says what is wrong and not what would be right
            misfit.text += f"; wanted {want}"
        raise misfit from None


def field_of(annotation: object) -> Field:
    """Understand an annotation. Raises `TypeError` with the reason when it cannot be described to a model."""
    schema, convert = _understood(annotation)
    return Field(inlined(schema), convert, _description(annotation))


def _description(annotation: object) -> str | None:
    """What an annotation, or a member of a union, says of itself."""
    inner, extras = _unwrapped(annotation)
    for extra in extras:
        text = extra if isinstance(extra, str) else getattr(extra, "description", None)
        if isinstance(text, str) and text.strip():
            return text.strip()
    if typing.get_origin(inner) in _UNIONS:
        return next(filter(None, map(_description, typing.get_args(inner))), None)
    return None


# ---------------------------------------------------------------- msgspec first


def _understood(annotation: object) -> tuple[Schema, Convert]:
    annotation = _with_meta(annotation)
    if annotation is object:
        annotation = typing.Any
    if _holds_time(annotation):
        if (parts := _taken_apart(annotation)) is not None:
            return parts
    try:
        (schema,), defs = msgspec.json.schema_components(
            [annotation], schema_hook=_custom_schema, ref_template="#/$defs/{name}"
        )
        msgspec.json.Decoder(annotation, dec_hook=_custom_value)  # knows some limits that the schema does not
    except (TypeError, NameError) as error:
        if (parts := _taken_apart(annotation)) is None:
            raise TypeError(str(error)) from None
        return parts

    def convert(value: object, strict: bool) -> object:
        return msgspec.convert(value, annotation, strict=strict, dec_hook=_custom_value)

    if isinstance(annotation, type) and annotation in _FORMATS:
        schema = {**schema, "format": _FORMATS[annotation]}
    return {**schema, "$defs": defs} if defs else schema, convert


_FORMATS: dict[object, str] = {datetime.datetime: "date-time", datetime.time: "time"}
"""Formats that msgspec leaves out, since it takes times without a zone too; a model has to be told nonetheless."""


def _holds_time(annotation: object) -> bool:
    arguments = typing.get_args(annotation)
    return any((isinstance(item, type) and item in _FORMATS) or _holds_time(item) for item in arguments)


def _is_model(kind: object) -> bool:
    """Whether a class is a pydantic model, or one that looks like it."""
    return isinstance(kind, type) and hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate")


def _custom_schema(kind: type) -> Schema:
    if _is_model(kind):
        schema: Schema = kind.model_json_schema()  # type: ignore[attr-defined]
        return schema
    if issubclass(kind, pathlib.PurePath):
        return {"type": "string"}
    raise TypeError(f"a model cannot be told of the type {getattr(kind, '__qualname__', kind)!r}")


def _custom_value(kind: type, value: object) -> object:
    if not _is_model(kind):
        if not isinstance(value, str):
            raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
        return kind(value)
    try:
        return kind.model_validate(value)  # type: ignore[attr-defined]
    except ValueError as error:
        errors: Callable[[], list[dict[str, typing.Any]]] | None = getattr(error, "errors", None)
        if errors is None:
            raise
        told = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}".removeprefix(": ") for item in errors()]
        raise ValueError("; ".join(told)) from None


# ---------------------------------------------------------------- what msgspec does not know

_ARRAYS: dict[object, Callable[[list[object]], object]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}
_OBJECTS = frozenset((dict, collections.abc.Mapping, collections.abc.MutableMapping))


def _taken_apart(annotation: object) -> tuple[Schema, Convert] | None:
    """The schema and conversion of a type made of others, from theirs; `None` if it is not made of others."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        if any(getattr(meta, word) is not None for meta in arguments[1:] for word in _CONSTRAINTS):
            raise TypeError(f"constraints cannot be put on the whole of {arguments[0]}; put them on its members")
        return _understood(arguments[0])
    if origin in _UNIONS:
        return _any_of([_understood(member) for member in arguments])
    if origin is typing.Literal:
        return _choice([(_plain(value), value) for value in arguments])
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _choice([(_plain(member.value), member) for member in annotation])
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is ...):
        return _fixed([_understood(member) for member in arguments])
    if origin is tuple or (origin in _ARRAYS and arguments):
        return _array(_understood(arguments[0]), _ARRAYS.get(origin, tuple))
    if origin in _OBJECTS and len(arguments) == 2 and arguments[0] is str:
        return _object(_understood(arguments[1]))
    return None


def _any_of(members: list[tuple[Schema, Convert]]) -> tuple[Schema, Convert]:
    schema: Schema = {"anyOf": [schema for schema, _ in members]}

    def convert(value: object, strict: bool) -> object:
        told: list[str] = []
        for exact in (True, False)[: 1 if strict else 2]:
            for _, member in members:
                try:
                    return member(value, exact)
                except Exception as error:
                    misfit = _misfit(error)
                    told.append(f"{misfit.path}: {misfit.text}".removeprefix(": "))
        raise Misfit("fits none of the kinds allowed (" + "; ".join(dict.fromkeys(told)) + ")")

    return schema, convert


def _choice(choices: list[tuple[JSON, object]]) -> tuple[Schema, Convert]:
    by_key: dict[tuple[type, object], object] = {(type(plain), plain): value for plain, value in choices}

    def convert(value: object, strict: bool) -> object:
        try:
            return by_key[(type(value), value)]
        except (KeyError, TypeError):
            raise Misfit(f"Invalid value {value!r}") from None

    return {"enum": [plain for plain, _ in choices]}, convert


def _plain(value: object) -> JSON:
    """The JSON value that stands for a literal."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{value!r} is no JSON value, so a model cannot choose it")


def _array(member: tuple[Schema, Convert], make: Callable[[list[object]], object]) -> tuple[Schema, Convert]:
    def convert(value: object, strict: bool) -> object:
        if not isinstance(value, list | tuple):
            raise Misfit(f"Expected `array`, got `{_json_kind(value)}`")
        return make([_within(f"[{at}]", member[1], item, strict) for at, item in enumerate(value)])

    return {"type": "array", "items": member[0]}, convert


def _fixed(members: list[tuple[Schema, Convert]]) -> tuple[Schema, Convert]:
    size = len(members)

    def convert(value: object, strict: bool) -> object:
        if not isinstance(value, list | tuple):
            raise Misfit(f"Expected `array`, got `{_json_kind(value)}`")
        if len(value) != size:
            raise Misfit(f"Expected `array` of length {size}, got {len(value)}")
        return tuple(_within(f"[{at}]", members[at][1], item, strict) for at, item in enumerate(value))

    prefix: list[JSON] = [schema for schema, _ in members]
    return {"type": "array", "minItems": size, "maxItems": size, "prefixItems": prefix, "items": False}, convert


def _object(member: tuple[Schema, Convert]) -> tuple[Schema, Convert]:
    def convert(value: object, strict: bool) -> object:
        if not isinstance(value, dict):
            raise Misfit(f"Expected `object`, got `{_json_kind(value)}`")
        return {name: _within(f".{name}", member[1], item, strict) for name, item in value.items()}

    return {"type": "object", "additionalProperties": member[0]}, convert


# ---------------------------------------------------------------- annotations of others

_CONSTRAINTS = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")


def _unwrapped(annotation: object) -> tuple[object, list[object]]:
    """What is annotated, and what with: the list is flat, a pydantic `FieldInfo` is followed by its own metadata."""
    if typing.get_origin(annotation) is not typing.Annotated:
        return annotation, []
    inner, *given = typing.get_args(annotation)
    extras: list[object] = []
    for extra in given:
        extras += [extra, *(getattr(extra, "metadata", None) or ())]
    return inner, extras


def _with_meta(annotation: object) -> object:
    """An annotation whose constraints by others (annotated-types, pydantic's `Field`) are told to msgspec too."""
    inner, extras = _unwrapped(annotation)
    metas: list[object] = []
    for extra in extras:
        if isinstance(extra, msgspec.Meta):
            metas.append(extra)
            continue
        if isinstance(extra, str | type):
            continue
        told = {word: limit for word in _CONSTRAINTS if (limit := getattr(extra, word, None)) is not None}
        if told:
            metas.append(msgspec.Meta(**told))
    return typing.Annotated[(inner, *metas)] if metas else inner


# ---------------------------------------------------------------- what went wrong

_PLACE = re.compile(r" - at `\$([^`]*)`$")


def _misfit(error: BaseException) -> Misfit:
    """Any failure of a conversion, as text and place."""
    if isinstance(error, Misfit):
        return error
    if isinstance(error, UnicodeError):
        return Misfit("holds a lone surrogate, which is no text")
    text = str(error) or type(error).__name__
    place = _PLACE.search(text)
    return Misfit(text[: place.start()], place[1]) if place else Misfit(text)


def _within(step: str, convert: Convert, value: object, strict: bool) -> object:
    try:
        return convert(value, strict)
    except Exception as error:
        inner = _misfit(error)
        raise Misfit(inner.text, step + inner.path) from None


def _json_kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "object"
        case list() | tuple():
            return "array"
        case _:
            return type(value).__name__
