"""What a docstring tells a model: prose, and a description of each parameter.

Law: nothing the author wrote for the reader is lost. Parameter sections go to their parameters; what only a Python
caller needs (raised exceptions, types) is left out; all else stays as it stands. Google, NumPy and reST styles are
told from the lines themselves, and no text is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from inspect import cleandoc

import msgspec

__all__ = ["Docstring", "parse"]


class Docstring(msgspec.Struct, frozen=True):
    """A docstring, taken apart. `params` holds one description a name, in order of appearance."""

    prose: str
    params: dict[str, str]


_PARAMETERS = frozenset(
    [
        "args",
        "arguments",
        "params",
        "parameters",
        "keyword_args",
        "keyword_arguments",
        "other_parameters",
        "other_params",
    ]
)
_DROPPED = frozenset(["raises", "exceptions", "warns"])

_GOOGLE_HEADER = re.compile(r"([A-Z][A-Za-z ]*):\s*$")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?!:)\s*(.*)$")
_NUMPY_RULE = re.compile(r"-{3,}\s*$")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_REST_FIELD = re.compile(r":(\w+)(?:\s+([^:]*(?::[^:\s][^:]*)*?))?:(?:\s+(.*))?$")
_REST_PARAM = frozenset(["param", "parameter", "arg", "argument", "key", "keyword", "kwarg"])
_REST_DROPPED = frozenset(["type", "rtype", "raise", "raises", "except", "exception", "vartype", "kwtype"])
_LIST_ITEM = re.compile(r"(?:[-*+•]|\d+[.)])\s")


def parse(text: str | None) -> Docstring:
    """Take a docstring apart.

    >>> parse("Read a file.\\n\\nArgs:\\n    path: Where it is.\\n").params
    {'path': 'Where it is.'}
    """
    lines = cleandoc(text).expandtabs().splitlines() if text else []
    prose: list[str] = []
    params: dict[str, str] = {}
    at = 0
    while at < len(lines):
        for section in (_numpy, _google, _rest):
            if (end := section(lines, at, params)) is not None:
                at = end
                break
        else:
            prose.append(lines[at].rstrip())
            at += 1
    return Docstring(re.sub(r"\n{3,}", "\n\n", "\n".join(prose)).strip(), params)


# Each of these looks at lines[at:]. If a section of its style that does not stay in the prose begins there, it puts
# what it finds into `params` and returns the line after it, else None.


def _numpy(lines: Sequence[str], at: int, params: dict[str, str]) -> int | None:
    if not _is_numpy_header(lines, at) or (kind := _kind(lines[at])) not in _PARAMETERS | _DROPPED:
        return None
    margin = _indent(lines[at])
    end = at + 2
    while (
        end < len(lines)
        and not _is_numpy_header(lines, end)
        and (not lines[end].strip() or _indent(lines[end]) >= margin)
    ):
        end += 1
    names: list[str] = []
    for first, *rest in _entries(lines[at + 2 : end], margin):
        if kind in _PARAMETERS and (entry := _NUMPY_ENTRY.match(first)):
            names = [name.strip().lstrip("*") for name in entry[1].split(",")]
            for name in names:
                params.setdefault(name, _flowed(rest))
    return end


def _google(lines: Sequence[str], at: int, params: dict[str, str]) -> int | None:
    header = _GOOGLE_HEADER.match(lines[at].strip())
    if header is None or (kind := _kind(header[1])) not in _PARAMETERS | _DROPPED:
        return None
    margin = _indent(lines[at])
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > margin):
        end += 1
    block = lines[at + 1 : end]
    if not any(line.strip() for line in block):
        return None
    name = ""
    for first, *rest in _entries(block, min(_indent(line) for line in block if line.strip())):
        if kind in _DROPPED:
            continue
        if entry := _GOOGLE_ENTRY.match(first):
            name = entry[1]
            params.setdefault(name, _flowed([entry[2], *rest]))
        elif name:  # a continuation that was not indented
            params[name] = f"{params[name]} {_flowed([first, *rest])}".strip()
    return end


def _rest(lines: Sequence[str], at: int, params: dict[str, str]) -> int | None:
    field = _REST_FIELD.match(lines[at].strip())
    if field is None or field[1] not in _REST_PARAM | _REST_DROPPED:
        return None
    margin = _indent(lines[at])
    end = at + 1
    while end < len(lines) and _continues(lines, end, margin):
        end += 1
    if field[1] in _REST_PARAM and (words := (field[2] or "").split()):
        params.setdefault(words[-1].lstrip("*\\"), _flowed([field[3] or "", *lines[at + 1 : end]]))
    return end


def _continues(lines: Sequence[str], at: int, margin: int) -> bool:
    """Whether a line belongs to the field above it: deeper, or a blank line before a deeper one, or words at once."""
    if not lines[at].strip():
        return at + 1 < len(lines) and bool(lines[at + 1].strip()) and _indent(lines[at + 1]) > margin
    return _indent(lines[at]) > margin or (bool(lines[at - 1].strip()) and not lines[at].lstrip().startswith(":"))


def _is_numpy_header(lines: Sequence[str], at: int) -> bool:
    return (
        at + 1 < len(lines)
        and bool(lines[at].strip())
        and _NUMPY_RULE.match(lines[at + 1].strip()) is not None
        and _indent(lines[at]) == _indent(lines[at + 1])
    )


def _kind(title: str) -> str:
    return title.strip().lower().replace(" ", "_")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _entries(block: Sequence[str], margin: int) -> list[list[str]]:
    """The lines at the margin, stripped, each with the deeper and blank ones after it."""
    entries: list[list[str]] = []
    for line in block:
        if line.strip() and _indent(line) <= margin:
            entries.append([line.strip()])
        elif entries:
            entries[-1].append(line)
    return entries


def _flowed(lines: Sequence[str]) -> str:
    """Wrapped lines as one; paragraphs and list items keep their line."""
    text = ""
    for line in (line.strip() for line in lines):
        if not line:
            text = text.rstrip() + "\n\n" if text else ""
        elif not text or text.endswith("\n"):
            text += line
        else:
            text += ("\n" if _LIST_ITEM.match(line) else " ") + line
    return text.strip()
