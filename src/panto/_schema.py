"""JSON schemas as providers accept them.

Law: what goes out is an object schema: plain JSON, in a stable order, without titles, every reference resolved in
place; only definitions that refer to themselves stay in `$defs`. A schema is made simpler here, never stricter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from .config import JSON

__all__ = ["ArgumentError", "Schema", "inlined", "normal_schema", "wanted"]

Schema: TypeAlias = dict[str, JSON]
"""A JSON schema. `True` and `False`, which are schemas too, are not used."""


class ArgumentError(ValueError):
    """A call's arguments do not fit its tool's schema; the text is for the model and names each field that is wrong."""


_ONE = frozenset(
    [
        *("items", "additionalItems", "unevaluatedItems", "additionalProperties", "unevaluatedProperties"),
        *("contains", "propertyNames", "not", "if", "then", "else"),
    ]
)
_LIST = frozenset(["anyOf", "oneOf", "allOf", "prefixItems"])
_MAP = frozenset(["properties", "patternProperties", "dependentSchemas"])
_NOISE = frozenset(("title", "discriminator", "$defs", "definitions"))
"""Keywords that tell a model nothing, or that are gone when references are resolved."""

_COMBINATORS = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else")
"""What providers refuse at the top of a tool's schema (Anthropic: "input_schema does not support oneOf, allOf, or anyOf
at the top level"; OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top
level"; both as answered in 2026-11)."""


# ---------------------------------------------------------------- references


class _Inliner:
    """Resolves references within one document; definitions that refer to themselves are collected in `kept`."""

    def __init__(self) -> None:
        self.kept: dict[str, JSON] = {}
        self.names: dict[int, str] = {}

    def walk(self, schema: JSON, scope: Mapping[str, Schema]) -> JSON:
        if not isinstance(schema, dict):
            return schema
        scope = _scope(schema, scope)
        made: Schema = {}
        if (target := _target(schema, scope)) is not None:
            name, definition = target
            if _refers_to_itself(definition, scope):
                made["$ref"] = f"#/$defs/{self.keep(name, definition, scope)}"
            else:
                resolved = self.walk(definition, scope)
                made.update(resolved if isinstance(resolved, dict) else {})
        for key, value in schema.items():
            if key in _NOISE or (key == "$ref" and target is not None):
                continue
            if key in _ONE:
                made[key] = self.walk(value, scope)
            elif key in _LIST and isinstance(value, list):
                made[key] = [self.walk(item, scope) for item in value]
            elif key in _MAP and isinstance(value, dict):
                made[key] = {name: self.walk(item, scope) for name, item in value.items()}
            else:
                made[key] = value
        if "type" not in made and (kind := _enum_type(made.get("enum"))):
            made = {"type": kind, **made}
        return made

    def keep(self, name: str, definition: Schema, scope: Mapping[str, Schema]) -> str:
        """Keep a definition, once, under a name of its own."""
        if (known := self.names.get(id(definition))) is not None:
            return known
        own, number = name, 1
        while own in self.kept:
            number += 1
            own = f"{name}_{number}"
        self.names[id(definition)] = own
        self.kept[own] = {}  # holds its place while it is being walked
        self.kept[own] = self.walk(definition, scope)
        return own


def inlined(schema: Mapping[str, JSON]) -> Schema:
    """`schema` with titles gone and every `#/$defs/...` reference replaced by what it refers to.

    Definitions that refer to themselves are kept in `$defs` of the whole, under distinct names. `$defs` may stand
    anywhere; they hold for what is below them. An enum of strings or of integers gets its `type`.
    """
    inliner = _Inliner()
    made = inliner.walk(dict(schema), {})
    assert isinstance(made, dict)
    if inliner.kept:
        made["$defs"] = inliner.kept
    return made


def _scope(schema: Schema, scope: Mapping[str, Schema]) -> Mapping[str, Schema]:
    for word in ("definitions", "$defs"):
        if isinstance(own := schema.get(word), dict):
            scope = {**scope, **{name: item for name, item in own.items() if isinstance(item, dict)}}
    return scope


def _target(schema: Schema, scope: Mapping[str, Schema]) -> tuple[str, Schema] | None:
    """The name and the definition that a schema's `$ref` means, if it is one of ours."""
    ref = schema.get("$ref")
    if not isinstance(ref, str) or not ref.startswith(("#/$defs/", "#/definitions/")):
        return None
    name = ref.split("/", 2)[2].replace("~1", "/").replace("~0", "~")
    return (name, scope[name]) if name in scope else None


def _refers_to_itself(definition: Schema, scope: Mapping[str, Schema]) -> bool:
    seen: set[int] = set()
    rest = [definition]
    while rest:
        for ref in _refs(rest.pop()):
            if (target := _target(ref, scope)) is not None:
                if target[1] is definition:
                    return True
                if id(target[1]) not in seen:
                    seen.add(id(target[1]))
                    rest.append(target[1])
    return False


def _refs(schema: JSON) -> Iterator[Schema]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema
        for key, value in schema.items():
            if key in _MAP and isinstance(value, dict):
                for item in value.values():
                    yield from _refs(item)
            elif key in _ONE or key in _LIST:
                yield from _refs(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _refs(item)


def _enum_type(values: JSON) -> str | None:
    if not isinstance(values, list) or not values:
        return None
    kinds = {type(value) for value in values}
    return "string" if kinds == {str} else "integer" if kinds == {int} else None


# ---------------------------------------------------------------- schemas of others


def normal_schema(schema: object) -> Schema | None:
    """`schema` as providers accept it for a tool, or `None` when it cannot describe an object.

    Adds `type: object` and `properties: {}` where they are missing, follows a reference at the top, takes `object` out
    of a list of types, drops `$schema`, `$id` and what is malformed beside the properties. A combinator at the top
    (`anyOf` and the like), which providers refuse, is dropped if there are properties beside it: the schema then allows
    more than its author meant, and the tool itself still checks. With nothing beside it there is no object to describe.
    What is normal already comes back equal.

    >>> normal_schema({"$schema": "http://json-schema.org/draft-07/schema#"})
    {'type': 'object', 'properties': {}}
    >>> normal_schema({"type": "string"}) is None
    True
    """
    if not isinstance(schema, Mapping):
        return None
    try:
        made: Schema = msgspec.json.decode(msgspec.json.encode(dict(schema)))
    except Exception:  # not JSON at all
        return None
    for _ in range(8):  # a reference may lead to a reference
        if (target := _target(made, _scope(made, {}))) is None:
            break
        made.pop("$ref")
        made = {**target[1], **made}
    if "$ref" in made:
        return None
    kind = made.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        return None
    properties = made.get("properties")
    if properties is not None and not isinstance(properties, dict):
        return None
    if not properties and any(word in made for word in _COMBINATORS):
        return None
    named: dict[str, JSON] = {}
    for name, item in (properties or {}).items():
        if item is True:  # anything; providers want it as an object
            item = {}
        if not isinstance(item, dict):
            return None
        named[name] = item
    rest = {key: value for key, value in made.items() if key not in ("type", "properties", "$schema", "$id")}
    for word in _COMBINATORS:
        rest.pop(word, None)
    required = rest.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        del rest["required"]
    return {"type": "object", "properties": named, **rest}


# ---------------------------------------------------------------- in words


def wanted(schema: JSON, path: str = "") -> str:
    """What a schema asks for at `path` (`.name`, `[0]`), in a few words; empty where it says nothing.

    >>> wanted({"type": "array", "items": {"enum": ["c", "f"]}}, "[0]")
    'one of "c", "f"'
    """
    at = _at(schema, path)
    if not isinstance(at, dict):
        return ""
    if isinstance(values := at.get("enum"), list):
        return "one of " + ", ".join(msgspec.json.encode(value).decode() for value in values)
    for word in ("anyOf", "oneOf"):
        if isinstance(branches := at.get(word), list):
            return " or ".join(text for text in map(wanted, branches) if text)
    kind = at.get("type")
    if kind == "array" and (inner := wanted(at.get("items"))):
        return f"array of {inner}"
    shape = at.get("format") or at.get("contentEncoding")
    return f"{kind} ({shape})" if kind and shape else str(kind or "")


def _at(schema: JSON, path: str) -> JSON:
    for step in path.replace("[", ".[").split(".")[1:]:
        if not isinstance(schema, dict):
            return None
        properties = schema.get("properties")
        if not step.startswith("["):
            schema = properties.get(step) if isinstance(properties, dict) else None
        else:
            schema = schema.get("items") or schema.get("additionalProperties")
    return schema
