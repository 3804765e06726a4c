"""Tools: what a model may call, and what comes back.

Law: a tool is data and one function. A call always has a result, and the result never holds more than its limit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias, overload, runtime_checkable

import msgspec

from .config import JSON
from .conversation import MediaPart, TextPart

__all__ = [
    "MediaPart",
    "ResultPart",
    "ResultParts",
    "TextPart",
    "Tool",
    "ToolCall",
    "ToolCallResult",
    "ToolContext",
    "ToolDecl",
    "ToolSource",
]

ResultPart: TypeAlias = TextPart | MediaPart
"""One part of what a tool returns."""


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


class ToolDecl(msgspec.Struct, frozen=True):
    """What a model is told of a tool. `schema` is a JSON schema of an object."""

    name: str
    description: str
    schema: Mapping[str, JSON]


class ToolCall(msgspec.Struct, frozen=True):
    """One call, its arguments parsed. A call whose arguments could not be read has none, and an error result."""

    id: str
    name: str
    arguments: dict[str, JSON]


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


class ToolContext(Protocol):
    """What a running tool may use; a parameter annotated with it is not shown to the model.

    call: the call that is being run.
    cancelled: becomes true when the run is being closed; a tool that works in steps looks at it between them.
    details: what the tool wants to store beside its result, for programs; must be JSON.
    """

    call: ToolCall
    details: JSON

    @property
    def cancelled(self) -> bool: ...

    def progress(self, text: str) -> None:
        """Show `text` to whoever reads the stream, as a `ToolProgress` event."""
        ...


ToolReturn: TypeAlias = str | ResultParts | Sequence[ResultPart] | ToolCallResult
"""What a tool's function may return."""

ToolFunction: TypeAlias = Callable[..., ToolReturn | Awaitable[ToolReturn]]
"""A tool's function: takes the arguments as one dict."""


class Tool(msgspec.Struct, frozen=True):
    """A tool: what the model is told of it, and the function that is run.

    name: any name; what no wire can carry is encoded on the wire only.
    schema: a JSON schema of an object.
    run: takes the arguments as one dict, and a `ToolContext` too if `takes_context`; sync or async. Raising makes an
        error result of type and message; the run goes on.
    parallel: whether it may run beside other calls of the same message.
    timeout: seconds, instead of `Limits.tool_timeout`.
    """

    name: str
    description: str
    schema: Mapping[str, JSON]
    run: ToolFunction
    parallel: bool = True
    timeout: float | None = None
    takes_context: bool = False

    @property
    def decl(self) -> ToolDecl:
        """What the model is told."""
        return ToolDecl(self.name, self.description, self.schema)


@runtime_checkable
class ToolSource(Protocol):
    """Many tools behind one door, such as a server's. Both methods may be coroutines.

    `name` tells sources apart and is a prefix of nothing: declarations carry their full names.
    """

    def decls(self) -> list[ToolDecl] | Awaitable[list[ToolDecl]]:
        """What the source offers."""
        ...

    def call(self, calls: list[ToolCall]) -> list[ToolCallResult] | Awaitable[list[ToolCallResult]]:
        """Run calls of this source's tools; one result a call, in their order."""
        ...
