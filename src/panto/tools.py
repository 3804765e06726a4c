"""Tools: what a model may call, and what an application may say about a call.

Law: a tool is data and one function. What the model is told of it is an object schema, and a tool that has none is
refused when it is registered. How arguments reach a Python function is in `_function`, what comes back in `_results`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias, TypeVar, overload, runtime_checkable

import msgspec

from ._results import NO_OUTPUT, ResultPart, ResultParts, ToolCallResult, as_result, limit_result
from ._schema import ArgumentError, normal_schema
from .config import JSON
from .conversation import Conversation, MediaPart, Message, TextPart
from .errors import ConfigError, ToolNameError

__all__ = [
    "NO_OUTPUT",
    "Allow",
    "ArgumentError",
    "Ask",
    "Change",
    "Decision",
    "Deny",
    "Hooks",
    "MediaPart",
    "Pause",
    "ResultPart",
    "ResultParts",
    "TextPart",
    "Tool",
    "ToolCall",
    "ToolCallResult",
    "ToolContext",
    "ToolDecl",
    "ToolDecorator",
    "ToolFunction",
    "ToolSource",
    "as_result",
    "limit_result",
    "normal_schema",
    "normal_tool",
]


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


class ToolContext(Protocol):
    """What a running tool may use; a parameter annotated with it is not shown to the model.

    call: the call that is being run.
    cancelled: becomes true when the run is being closed; a tool that works in steps looks at it between them.
    details: what the tool wants to store beside its result, for programs; must be JSON.
    """

    call: ToolCall
    details: JSON

    @property
    def cancelled(self) -> bool:
        """Whether the run is being closed."""
        ...

    def progress(self, text: str) -> None:
        """Show `text` to whoever reads the stream, as a `ToolProgress` event."""
        ...


ToolFunction: TypeAlias = Callable[..., object]
"""A tool's function: takes the arguments as one dict; sync or async. `as_result` says what it may return."""

Function = TypeVar("Function", bound=Callable[..., object])


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

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        parallel: bool = True,
        timeout: float | None = None,
    ) -> Tool:
        """Make a tool of a Python function: its schema from the signature, its description from the docstring.

        fn: a function, method, `functools.partial` or callable object, sync or async. What a partial has filled in is
            not shown to the model, and neither is a parameter annotated `ToolContext`.
        name, description: instead of the function's own.

        Arguments are converted to what the annotations say before the function runs; those that do not fit go back to
        the model. Raises `ConfigError` for what a model cannot be told of, naming the parameter.

        >>> def add(a: int, b: int = 1) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> Tool.from_function(add).run({"a": 2})
        3
        """
        from ._function import FunctionPlan

        plan = FunctionPlan(fn, ToolContext)
        return normal_tool(
            cls(
                name=plan.name if name is None else name,
                description=plan.description if description is None else description,
                schema=plan.schema,
                run=plan.run_async if plan.is_async else plan.run,
                parallel=parallel,
                timeout=timeout,
                takes_context=plan.takes_context,
            )
        )

    @property
    def is_async(self) -> bool:
        """Whether `run` is a coroutine function, and so belongs on an event loop and not in a worker thread.

        A plain function may still return an awaitable: whoever runs a tool looks at what came back.
        """
        from inspect import iscoroutinefunction

        run: object = self.run
        while (inner := getattr(run, "func", None)) is not None and callable(inner):  # functools.partial
            run = inner
        return iscoroutinefunction(run) or iscoroutinefunction(getattr(run, "__call__", None))  # noqa: B004

    def check(self, arguments: Mapping[str, JSON]) -> None:
        """Raise `ArgumentError` if a tool made from a function would refuse `arguments`.

        It runs nothing, so that nobody need be asked to approve a call that cannot be run. Other tools tell only when
        they run.
        """
        from ._function import FunctionPlan

        plan = getattr(self.run, "__self__", None)
        if isinstance(plan, FunctionPlan):
            plan.check(arguments)


def normal_tool(tool: Tool) -> Tool:
    """`tool` as it may be registered, its schema as providers accept it (`normal_schema`).

    Raises `ToolNameError` for a blank name and `ConfigError` for a schema that is none of an object.
    """
    if not tool.name.strip():
        raise ToolNameError("a tool needs a name; give a lambda or a nameless object one with name=...")
    if not callable(tool.run):
        raise ConfigError(f"run of the tool {tool.name!r} is not callable")
    schema = normal_schema(tool.schema)
    if schema is None:
        raise ConfigError(
            f"the schema of the tool {tool.name!r} does not describe an object; providers would refuse every request: "
            'give {"type": "object", "properties": {...}}'
        )
    return tool if schema == tool.schema else msgspec.structs.replace(tool, schema=schema)


class ToolDecorator:
    """What `agent.tool` is: registers the function it decorates, bare or with arguments, and gives it back unchanged.

    The arguments are those of `Tool.from_function`.

    >>> tools = []
    >>> @ToolDecorator(tools.append)
    ... def now() -> str:
    ...     return "noon"
    >>> tools[0].name, now()
    ('now', 'noon')
    """

    __slots__ = ("_register",)

    def __init__(self, register: Callable[[Tool], object]) -> None:
        self._register = register

    @overload
    def __call__(self, fn: Function, /) -> Function: ...
    @overload
    def __call__(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        parallel: bool = True,
        timeout: float | None = None,
    ) -> Callable[[Function], Function]: ...
    def __call__(
        self,
        fn: Function | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        parallel: bool = True,
        timeout: float | None = None,
    ) -> Function | Callable[[Function], Function]:
        """Register `fn`, or give the decorator that does."""

        def register(fn: Function) -> Function:
            self._register(
                Tool.from_function(fn, name=name, description=description, parallel=parallel, timeout=timeout)
            )
            return fn

        return register if fn is None else register(fn)


@runtime_checkable
class ToolSource(Protocol):
    """Many tools behind one door, such as a server's. Both methods may be coroutines. Declarations carry their full
    names, so that two sources are told apart by their prefixes.
    """

    def decls(self) -> list[ToolDecl] | Awaitable[list[ToolDecl]]:
        """What the source offers."""
        ...

    def call(self, calls: list[ToolCall]) -> list[ToolCallResult] | Awaitable[list[ToolCallResult]]:
        """Run calls of this source's tools; one result a call, in their order."""
        ...


# ---------------------------------------------------------------- hooks


class Allow(msgspec.Struct, frozen=True, gc=False):
    """Run the call as it is."""


class Deny(msgspec.Struct, frozen=True, gc=False):
    """Do not run the call; the model gets an error result with `reason`, and the run goes on."""

    reason: str


class Change(msgspec.Struct, frozen=True):
    """Run the call with other arguments; they are checked as the model's own are. The history keeps the model's."""

    arguments: Mapping[str, JSON]


class Ask(msgspec.Struct, frozen=True, gc=False):
    """Ask a person: `Hooks.on_ask` gets the question. Without that hook the call is denied."""

    question: str


class Pause(msgspec.Struct, frozen=True, gc=False):
    """Let the call wait for a person. Runs cannot wait yet: for now the call is denied, with words that say so."""


Decision: TypeAlias = Allow | Deny | Change | Ask | Pause
"""What `before_tool_call` may say of a call."""


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """Where an application may step in. Each is optional, sync or async; none may touch the running agent.

    before_append: gets a message just before it is offered to the store, and the conversation; may set
        `message.metadata`.
    before_tool_call: gets a call before it runs, and says what becomes of it. `None` is `Allow()`.
    after_tool_call: gets a call that ran and its result, before the result is limited and stored; gives the result
        that takes its place.
    on_ask: gets the question of an `Ask`. `True` allows the call, `False` denies it, a string denies it with that
        reason.
    """

    before_append: Callable[[Message, Conversation], Awaitable[None] | None] | None = None
    before_tool_call: Callable[[ToolCall], Awaitable[Decision | None] | Decision | None] | None = None
    after_tool_call: Callable[[ToolCall, ToolCallResult], Awaitable[ToolCallResult] | ToolCallResult] | None = None
    on_ask: Callable[[str], Awaitable[bool | str] | bool | str] | None = None
