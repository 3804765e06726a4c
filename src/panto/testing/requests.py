"""Requests that a scripted provider got, and what a test may say of them.

Law: an assertion names the path of the first difference and shows both sides. Header values are never shown: the key
is among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec

from panto.config import JSON, APIStyle, Headers

Ended = Literal["open", "end", "closed", "broken"]


class RecordedRequest:
    """One request.

    Attributes:
        number: 1 for the first.
        wire: Which wire it speaks.
        url: The URL, without user info and query.
        headers: The headers, names in lower case. Its repr hides the values.
        body: The parsed body.
        ended: What became of the answer: still `open`, all of it sent (`end`), `closed` before by the client, or
            `broken` off.
        sent: Bytes of the answer that were sent.
    """

    def __init__(self, number: int, wire: APIStyle, url: str, headers: Mapping[str, str], body: bytes) -> None:
        self.number = number
        self.wire = wire
        self.url = url
        self.headers = Headers({name.lower(): value for name, value in headers.items()})
        self.raw = body
        self.body: dict[str, JSON] = msgspec.json.decode(body, type=dict)
        self.ended: Ended = "open"
        self.sent = 0

    @property
    def model(self) -> str:
        """The model that was asked."""
        return str(self.body.get("model"))

    @property
    def messages(self) -> list[dict[str, JSON]]:
        """The messages as the wire says them."""
        return cast("list[dict[str, JSON]]", self.body.get("messages") or [])

    @property
    def system(self) -> str:
        """The system prompt, on either wire; its parts joined with a blank line."""
        if self.wire is APIStyle.ANTHROPIC_MESSAGES:
            return _text(self.body.get("system"))
        leading = [m for m in self.messages if m.get("role") in ("system", "developer")]
        return "\n\n".join(_text(message.get("content")) for message in leading)

    @property
    def tools(self) -> list[str]:
        """The names of the tools on offer, in order, on either wire."""
        names: list[str] = []
        for tool in cast("list[dict[str, JSON]]", self.body.get("tools") or []):
            inner = tool.get("function")
            names.append(str((inner if isinstance(inner, dict) else tool).get("name")))
        return names

    @property
    def last(self) -> str:
        """The text of the last message, on either wire; of tool results too."""
        return _text(self.messages[-1].get("content")) if self.messages else ""

    def expect(self, body: Mapping[str, object] | None = None, /, *, exact: bool = False, **fields: object) -> None:
        """Assert that the request says this.

        Objects may hold more than is expected, at any depth, unless `exact`; lists must be of the same length.
        `fields` are further keys of the body.

        Raises `AssertionError`, which names the path of the first difference and both values.
        """
        if (found := first_difference(self.body, {**(body or {}), **fields}, exact=exact)) is not None:
            raise AssertionError(f"{self} is not as expected\n{found}")

    def __str__(self) -> str:
        return f"request {self.number} ({self.wire.value}, {len(self.messages)} messages, last: {_short(self.last)})"

    def __repr__(self) -> str:
        return f"<{self}>"


def assert_request(
    request: RecordedRequest, body: Mapping[str, object] | None = None, /, *, exact: bool = False, **fields: object
) -> None:
    """`request.expect(...)`, as a function."""
    request.expect(body, exact=exact, **fields)


def first_difference(actual: object, expected: object, *, exact: bool = False, path: str = "body") -> str | None:
    """Where two JSON values differ first, and how; `None` where `actual` is as expected.

    >>> print(first_difference({"messages": [{"role": "user"}]}, {"messages": [{"role": "system"}]}))
    at body.messages[0].role
      expected: 'system'
      but it is: 'user'
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key, wanted in expected.items():
            where = f"{path}.{key}" if str(key).isidentifier() else f"{path}[{key!r}]"
            if key not in actual:
                return _told(where, wanted, f"nothing; the keys are {', '.join(map(str, actual)) or 'none'}")
            if (found := first_difference(actual[key], wanted, exact=exact, path=where)) is not None:
                return found
        more = [key for key in actual if key not in expected]
        if exact and more:
            return _told(f"{path}.{more[0]}", None, _short(actual[more[0]]), wanted="nothing")
        return None
    if _is_list(expected) and _is_list(actual):
        wanted_items, items = cast("Sequence[object]", expected), cast("Sequence[object]", actual)
        for at, wanted in enumerate(wanted_items):
            if at >= len(items):
                return _told(f"{path}[{at}]", wanted, f"nothing; there are {len(items)}")
            if (found := first_difference(items[at], wanted, exact=exact, path=f"{path}[{at}]")) is not None:
                return found
        if len(items) > len(wanted_items):
            at = len(wanted_items)
            return _told(f"{path}[{at}]", None, _short(items[at]), wanted="nothing")
        return None
    if expected == actual and isinstance(expected, bool) == isinstance(actual, bool):
        return None
    if isinstance(expected, str) and isinstance(actual, str):
        return _text_difference(path, actual, expected)
    return _told(path, expected, _short(actual))


def _text_difference(path: str, actual: str, expected: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(actual, expected, strict=False)) if a != b), None)
    at = min(len(actual), len(expected)) if at is None else at
    if at < 60:
        return _told(path, expected, _short(actual))
    start = at - 20
    return _told(f"{path} from character {start} on", expected[start:], _short(actual[start:]))


def _told(path: str, expected: object, actual: str, *, wanted: str | None = None) -> str:
    return f"at {path}\n  expected: {_short(expected) if wanted is None else wanted}\n  but it is: {actual}"


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _short(value: object, limit: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def _text(content: object) -> str:
    """The text in a message's content, whatever its shape."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts: list[str] = []
    for part in cast("list[object]", content):
        if isinstance(part, dict):
            block = cast("dict[str, object]", part)
            texts.append(str(block["text"]) if isinstance(block.get("text"), str) else _text(block.get("content")))
    return "\n\n".join(text for text in texts if text)
