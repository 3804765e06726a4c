"""What a tool brings: parts, results, and how any value becomes one.

Law: whatever a tool returns has a text that says what it is, and no result holds more text than its limit.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, cast, overload

import msgspec

from .config import JSON
from .conversation import MediaPart, TextPart

__all__ = ["NO_OUTPUT", "ResultPart", "ResultParts", "ToolCallResult", "as_result", "limit_result"]

ResultPart: TypeAlias = TextPart | MediaPart
"""One part of what a tool returns."""

NO_OUTPUT = "(no output)"
"""What the model reads when a tool returned `None`: some hosts refuse an empty result, and `ok` would be a claim."""


class ResultParts(Sequence[ResultPart]):
    """What a tool returns: text and media, in order.

    >>> ResultParts.from_text("done")[0].text
    'done'
    """

    __slots__ = ("items",)

    def __init__(self, items: Iterable[ResultPart] = ()) -> None:
        self.items: tuple[ResultPart, ...] = tuple(items)

    @classmethod
    def from_text(cls, text: str) -> ResultParts:
        """A result of text alone."""
        return cls((TextPart(text),))

    @overload
    def __getitem__(self, at: int) -> ResultPart: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[ResultPart]: ...
    def __getitem__(self, at: int | slice) -> ResultPart | Sequence[ResultPart]:
        return self.items[at]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[ResultPart]:
        return iter(self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResultParts) and self.items == other.items

    def __hash__(self) -> int:
        return hash(self.items)

    def __repr__(self) -> str:
        return f"ResultParts({list(self.items)!r})"


class ToolCallResult(msgspec.Struct, frozen=True):
    """What one call brought. `details` is for programs: it is stored, and never shown to the model."""

    parts: Sequence[ResultPart]
    is_error: bool = False
    details: JSON = None

    @property
    def text(self) -> str:
        """The text of all parts, one after the other."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @classmethod
    def error(cls, text: str, details: JSON = None) -> ToolCallResult:
        """A result that says what went wrong."""
        return cls((TextPart(text),), True, details)


# ---------------------------------------------------------------- from any value


def as_result(value: object) -> ToolCallResult:
    """The result that a tool's return value makes.

    A `ToolCallResult` is taken as it is, if its parts are what they should be; parts, alone or in a sequence (also
    mixed with strings), become its parts; a string is text as it is. `None` is `(no output)`. Numbers, lists, dicts,
    dataclasses, Structs, pydantic models and whatever else msgspec knows become JSON; any other object its `str()`.
    Bytes are text if they are UTF-8, else an error that says how media are returned; an exception that was returned and
    not raised is an error too.

    >>> as_result({"degrees": 21.5}).text
    '{"degrees":21.5}'
    """
    match value:
        case ToolCallResult():
            return _sound(value)
        case TextPart() | MediaPart():
            return _sound(ToolCallResult((value,)))
        case ResultParts():
            return _sound(ToolCallResult(value.items))
        case None:
            return _text(NO_OUTPUT)
        case enum.Enum():
            return as_result(value.value)
        case str():
            return _text(str.__str__(value))
        case bytes() | bytearray() | memoryview():
            return _of_bytes(bytes(value))
        case BaseException():
            return ToolCallResult.error(f"{type(value).__name__}: {value}")
        case list() | tuple():
            return _sound(ToolCallResult(parts)) if (parts := _parts(value)) else _text(_json_text(value))
        case _:
            return _text(_json_text(value))


def _sound(result: ToolCallResult) -> ToolCallResult:
    """The same result where its parts are parts; types are promises, and a history must hold whatever comes."""
    given: object = result.parts
    if isinstance(given, str):
        return ToolCallResult((TextPart(given),), result.is_error, result.details)
    if isinstance(given, list | tuple | ResultParts):
        values: list[object] = list(given)
        if all(map(_is_part, values)):
            return result
        parts = tuple(TextPart(value) if isinstance(value, str) else value for value in values)
        if all(map(_is_part, parts)):
            return ToolCallResult(cast("tuple[ResultPart, ...]", parts), result.is_error, result.details)
    return ToolCallResult.error("The tool returned a result whose parts are neither text nor media.")


def _is_part(part: object) -> bool:
    text: object = part.text if isinstance(part, TextPart) else None
    if isinstance(part, MediaPart):
        media_type: object = part.media_type
        data: object = part.data
        return isinstance(media_type, str) and isinstance(data, bytes)
    return isinstance(text, str)


def _text(text: str) -> ToolCallResult:
    return ToolCallResult((TextPart(text),))


def _of_bytes(data: bytes) -> ToolCallResult:
    try:
        return _text(data.decode())
    except UnicodeDecodeError:
        return ToolCallResult.error(
            f"The tool returned {len(data)} bytes that are not text. "
            "(To the tool's author: return MediaPart(media_type, data) to show an image or a document.)"
        )


def _parts(values: Sequence[object]) -> tuple[ResultPart, ...]:
    """The parts in `values`; none unless there is at least one and the rest are strings."""
    parts: list[ResultPart] = []
    found = False
    for value in values:
        if isinstance(value, TextPart | MediaPart):
            parts.append(value)
            found = True
        elif isinstance(value, str):
            parts.append(TextPart(str.__str__(value)))
        else:
            return ()
    return tuple(parts) if found else ()


class _Untold(Exception):
    """msgspec does not know the value that was returned; only its `str()` tells something of it."""


def _json_text(value: object) -> str:
    def unknown(inner: object) -> object:
        dump = getattr(inner, "model_dump", None)
        if callable(dump) and not isinstance(inner, type):
            return dump(mode="json")
        if inner is value:
            raise _Untold
        return str(inner)

    try:
        return msgspec.json.encode(value, enc_hook=unknown).decode()
    except UnicodeEncodeError:  # a lone surrogate in a string: the view replaces it, as in any other text
        import json

        return json.dumps(msgspec.to_builtins(value, enc_hook=unknown, str_keys=True), ensure_ascii=False)
    except Exception:  # a key that is no JSON key, an iterator, a cycle: no JSON then
        return str(value)


# ---------------------------------------------------------------- the limit


def limit_result(result: ToolCallResult, max_bytes: int) -> ToolCallResult:
    """`result` with at most `max_bytes` UTF-8 bytes of text in all its parts together.

    Head and tail are kept, cut between characters, with a line between that says how much is missing. Media parts and
    `details` stay as they are. A result within the limit is returned itself.
    """
    texts = [part.text for part in result.parts if isinstance(part, TextPart)]
    if sum(map(len, texts)) * 4 <= max_bytes:
        return result
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    total = sum(map(len, encoded))
    if total <= max_bytes:
        return result
    room = max(0, max_bytes - len(_cut_line(total, total)))
    head, tail = room - room // 2, total - room // 2  # kept: before `head`, and from `tail` on
    parts: list[ResultPart] = []
    kept: list[tuple[int, bytes, bytes]] = []  # where in `parts`, what is kept of its head and of its tail
    cut_at: int | None = None  # the entry of `kept` that bears the line
    start = 0
    for part in result.parts:
        if not isinstance(part, TextPart):
            parts.append(part)
            continue
        data = encoded[len(kept)]
        before = data[: _boundary(data, head - start)]
        after = data[_boundary(data, tail - start, forward=True) :]
        if len(before) == len(data) or len(after) == len(data):
            before, after = data, b""
        elif cut_at is None:
            cut_at = len(kept)
        kept.append((len(parts), before, after))
        parts.append(part)
        start += len(data)
    line = _cut_line(total - sum(len(before) + len(after) for _, before, after in kept), total)[:max_bytes]
    for at, (where, before, after) in enumerate(kept):
        text = before + (line if at == cut_at else b"") + after
        parts[where] = TextPart(text.decode("utf-8", "surrogatepass"))
    return ToolCallResult(tuple(parts), result.is_error, result.details)


def _cut_line(cut: int, total: int) -> bytes:
    return f"\n[... {cut} of {total} bytes left out here; ask for a smaller part to see them ...]\n".encode()


def _boundary(data: bytes, at: int, *, forward: bool = False) -> int:
    """The end of a character nearest to `at`: before it, or after it if `forward`."""
    at = min(max(at, 0), len(data))
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1 if forward else -1
    return at
