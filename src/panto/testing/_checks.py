"""What both readers of requests check with: a list of findings, and the plain questions that fill it.

Law: a check never raises, whatever the value; it adds a finding with the path of what is wrong.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

Object = Mapping[str, object]

TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")

_IMAGES: Final[tuple[tuple[str, bytes, int], ...]] = (
    ("image/png", b"\x89PNG\r\n\x1a\n", 0),
    ("image/jpeg", b"\xff\xd8\xff", 0),
    ("image/gif", b"GIF8", 0),
    ("image/webp", b"WEBP", 8),
)


def is_object(value: object) -> TypeGuard[Object]:
    """Whether `value` is a JSON object."""
    return isinstance(value, Mapping)


def is_array(value: object) -> TypeGuard[Sequence[object]]:
    """Whether `value` is a JSON array."""
    return isinstance(value, (list, tuple))


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether `value` is a JSON number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def says(value: object) -> TypeGuard[str]:
    """Whether `value` is a string with something other than white space in it."""
    return isinstance(value, str) and bool(value.strip())


class Checks:
    """Findings so far."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def bad(self, path: str, what: str) -> None:
        """Add a finding."""
        self.found.append(f"{path}: {what}" if path else what)

    def need(self, holds: bool, path: str, what: str) -> bool:
        """Add a finding unless `holds`; says whether it does."""
        if not holds:
            self.bad(path, what)
        return holds

    def keys(self, path: str, value: Object, allowed: frozenset[str]) -> None:
        """No key but these: "Extra inputs are not permitted"."""
        for key in value:
            self.need(key in allowed, f"{path}.{key}", "unknown key; extra inputs are not permitted")

    def number(self, body: Object, key: str, low: float, high: float, whole: bool = False) -> None:
        """A number within its limits, where there is one."""
        value = body.get(key)
        if value is None:
            return
        if self.need(is_number(value), key, "must be a number") and is_number(value):
            self.need(low <= value <= high, key, f"must be from {low:g} to {high:g}, is {value!r}")
            self.need(not whole or isinstance(value, int), key, "must be a whole number")

    def encodable(self, path: str, value: object) -> None:
        """No half of a surrogate pair anywhere, which UTF-8 cannot carry."""
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                self.bad(path, "holds half a surrogate pair")
        elif is_object(value):
            for key, item in value.items():
                self.encodable(path, key)
                self.encodable(f"{path}.{key}" if path else key, item)
        elif is_array(value):
            for at, item in enumerate(value):
                self.encodable(f"{path}[{at}]", item)

    def image(self, path: str, media_type: object, data: object) -> None:
        """The base64 data of an image whose bytes are of a format that vendors read: png, jpeg, gif, webp."""
        if not isinstance(data, str):
            self.bad(path, "the data of an image must be a string")
            return
        try:
            begin = base64.b64decode(data, validate=True)[:16]
        except ValueError:
            self.bad(path, "the data of an image must be base64")
            return
        kinds = [kind for kind, magic, at in _IMAGES if begin[at:].startswith(magic)]
        self.need(bool(kinds), path, "an unsupported image; png, jpeg, gif and webp are read")
        self.need(media_type in {kind for kind, _, _ in _IMAGES}, path, f"{media_type!r} is no image type that is read")
