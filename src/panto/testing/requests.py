"""Requests that a scripted provider got, and what a test may say of them.

Law: an assertion names the path of the first difference and shows both sides. Header values are never shown: the key
is among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

import msgspec

from panto._drive.difference import first_difference, shorten
from panto._secret import Headers
from panto.config import JSON, APIStyle

__all__ = ["RecordedRequest", "assert_request", "first_difference"]

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
        self.number: int = number
        self.wire: APIStyle = wire
        self.url: str = url
        self.headers: Headers = Headers({name.lower(): value for name, value in headers.items()})
        self.raw: bytes = body
        self.body: dict[str, JSON] = msgspec.json.decode(body, type=dict)
        self.ended: Ended = "open"
        self.sent: int = 0

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
        return f"request {self.number} ({self.wire.value}, {len(self.messages)} messages, last: {shorten(self.last)})"

    def __repr__(self) -> str:
        return f"<{self}>"


def assert_request(
    request: RecordedRequest, body: Mapping[str, object] | None = None, /, *, exact: bool = False, **fields: object
) -> None:
    """`request.expect(...)`, as a function."""
    request.expect(body, exact=exact, **fields)


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
