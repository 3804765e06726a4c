"""What Anthropic's strict tools and structured outputs take of JSON schema.

Law: the limits are the vendor's (build-with-claude/structured-outputs, 2026-12, and its error messages).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ._checks import Checks, Object, is_array, is_object

MAX_STRICT_TOOLS: Final = 20
MAX_UNIONS: Final = 16
MAX_OPTIONAL: Final = 24

_UNSUPPORTED: Final[dict[str, frozenset[str]]] = {
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "string": frozenset({"minLength", "maxLength"}),
    "array": frozenset({"maxItems", "uniqueItems"}),
    "object": frozenset({"minProperties", "maxProperties", "patternProperties"}),
}


def check_strict(checks: Checks, schemas: Sequence[tuple[str, Object]]) -> None:
    """The schemas of one request that are compiled to grammars, each with its path."""
    count = len(schemas)
    checks.need(count <= MAX_STRICT_TOOLS, "tools", f"too many strict tools ({count}); at most {MAX_STRICT_TOOLS}")
    unions = sum(_unions(schema) for _, schema in schemas)
    checks.need(unions <= MAX_UNIONS, "tools", f"too many parameters with union types ({unions})")
    optional = sum(_optional(schema) for _, schema in schemas)
    checks.need(optional <= MAX_OPTIONAL, "tools", f"too many optional parameters ({optional})")
    for path, schema in schemas:
        _check_schema(checks, path, schema)
        definitions = schema.get("$defs") or schema.get("definitions")
        for name in definitions if is_object(definitions) else ():
            checks.need(not _reaches(definitions, name), path, f"circular reference in schema definitions: {name}")


def _check_schema(checks: Checks, path: str, schema: object) -> None:
    if not is_object(schema):
        checks.bad(path, "a schema that is no object is not supported")
        return
    kind = schema.get("type")
    for key in _UNSUPPORTED.get(kind, frozenset()) if isinstance(kind, str) else ():
        checks.need(key not in schema, path, f"for {kind!r} type, property {key!r} is not supported")
    for key in ("properties", "$defs", "definitions"):
        members = schema.get(key)
        for name, member in members.items() if is_object(members) else ():
            _check_schema(checks, f"{path}.{key}.{name}", member)
    if "items" in schema:
        _check_schema(checks, f"{path}.items", schema["items"])
    for key in ("anyOf", "allOf", "oneOf"):
        options = schema.get(key)
        for at, option in enumerate(options if is_array(options) else ()):
            _check_schema(checks, f"{path}.{key}[{at}]", option)


def _members(schema: object) -> list[object]:
    """The schemas right below this one."""
    if not is_object(schema):
        return []
    below: list[object] = []
    for key in ("properties", "$defs", "definitions"):
        members = schema.get(key)
        below += members.values() if is_object(members) else ()
    for key in ("anyOf", "allOf", "oneOf"):
        options = schema.get(key)
        below += options if is_array(options) else ()
    return [*below, schema["items"]] if "items" in schema else below


def _unions(schema: object) -> int:
    here = is_object(schema) and (is_array(schema.get("type")) or "anyOf" in schema)
    return here + sum(_unions(member) for member in _members(schema))


def _optional(schema: object) -> int:
    here = 0
    if is_object(schema) and is_object(properties := schema.get("properties")):
        required = schema.get("required")
        here = len(set(properties) - set(map(str, required if is_array(required) else ())))
    return here + sum(_optional(member) for member in _members(schema))


def _reaches(definitions: object, name: str) -> bool:
    """Whether the definition `name` refers, over others or directly, to itself."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = definitions.get(waiting.pop()) if is_object(definitions) else None
        for target in _references(current):
            if target == name:
                return True
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return False


def _references(schema: object) -> list[str]:
    found: list[str] = []
    if is_object(schema):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            found.append(reference.rpartition("/")[2])
        for value in schema.values():
            found += _references(value)
    elif is_array(schema):
        for value in schema:
            found += _references(value)
    return found
