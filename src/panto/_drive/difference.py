"""Where two JSON values differ first, told so that one sees it.

Law: one difference, the first; its path, and both sides, cut to what can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

__all__ = ["first_difference", "shorten"]

LONG = 60
"""Texts that are alike for longer than this are shown from where they differ."""


def first_difference(actual: object, expected: object, *, exact: bool = False, path: str = "body") -> str | None:
    """Where two JSON values differ first, and how; `None` where `actual` is as expected.

    Objects in `actual` may hold more than is expected, at any depth, unless `exact`; lists must be of the same length.

    >>> print(first_difference({"messages": [{"role": "user"}]}, {"messages": [{"role": "system"}]}))
    at body.messages[0].role
      expected: 'system'
      but it is: 'user'
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return _of_objects(cast("Mapping[str, object]", actual), cast("Mapping[str, object]", expected), exact, path)
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        return _of_lists(cast("Sequence[object]", actual), cast("Sequence[object]", expected), exact, path)
    if expected == actual and isinstance(expected, bool) == isinstance(actual, bool):
        return None
    if isinstance(expected, str) and isinstance(actual, str):
        return _of_texts(actual, expected, path)
    return _told(path, shorten(expected), shorten(actual))


def _of_objects(actual: Mapping[str, object], expected: Mapping[str, object], exact: bool, path: str) -> str | None:
    for key, wanted in expected.items():
        where = f"{path}.{key}" if str(key).isidentifier() else f"{path}[{key!r}]"
        if key not in actual:
            return _told(where, shorten(wanted), f"nothing; the keys are {', '.join(map(str, actual)) or 'none'}")
        if (found := first_difference(actual[key], wanted, exact=exact, path=where)) is not None:
            return found
    more = [key for key in actual if key not in expected]
    return _told(f"{path}.{more[0]}", "nothing", shorten(actual[more[0]])) if exact and more else None


def _of_lists(actual: Sequence[object], expected: Sequence[object], exact: bool, path: str) -> str | None:
    for at, wanted in enumerate(expected):
        if at >= len(actual):
            return _told(f"{path}[{at}]", shorten(wanted), f"nothing; there are {len(actual)}")
        if (found := first_difference(actual[at], wanted, exact=exact, path=f"{path}[{at}]")) is not None:
            return found
    at = len(expected)
    return _told(f"{path}[{at}]", "nothing", shorten(actual[at])) if len(actual) > at else None


def _of_texts(actual: str, expected: str, path: str) -> str:
    alike = next((at for at, (a, b) in enumerate(zip(actual, expected, strict=False)) if a != b), None)
    at = min(len(actual), len(expected)) if alike is None else alike
    if at < LONG:
        return _told(path, shorten(expected), shorten(actual))
    start = at - 20
    return _told(f"{path} from character {start} on", shorten(expected[start:]), shorten(actual[start:]))


def _told(path: str, expected: str, actual: str) -> str:
    return f"at {path}\n  expected: {expected}\n  but it is: {actual}"


def shorten(value: object, limit: int = 200) -> str:
    """The repr of a value, cut."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
