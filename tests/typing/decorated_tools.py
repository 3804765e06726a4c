"""What a type checker must see: a decorated function keeps its type. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import assert_type

from panto.tools import (
    Allow,
    Decision,
    Deny,
    Hooks,
    ResultParts,
    Tool,
    ToolCall,
    ToolCallResult,
    ToolContext,
    ToolDecorator,
)


def register(tool: Tool) -> None: ...


tool = ToolDecorator(register)


@tool
def bare(path: str, limit: int = 3) -> str:
    return path * limit


@tool(name="with_arguments", timeout=3)
async def with_arguments(path: str, context: ToolContext) -> dict[str, int]:
    context.progress(path)
    return {path: 1}


@tool
def parts() -> ResultParts:
    return ResultParts.from_text("x")


assert_type(bare("x"), str)
assert_type(bare("x", limit=2), str)
keep: Callable[[str, ToolContext], Awaitable[dict[str, int]]] = with_arguments
bare(3)  # type: ignore[arg-type]
tool(3)  # type: ignore[call-overload]


def decide(call: ToolCall) -> Decision:
    return Deny("no") if call.name == "rm" else Allow()


async def decide_later(call: ToolCall) -> Decision:
    return decide(call)


def after(call: ToolCall, result: ToolCallResult) -> ToolCallResult:
    return result


Hooks(before_tool_call=decide, after_tool_call=after)
Hooks(before_tool_call=decide_later, on_ask=lambda question: True)
Hooks(before_tool_call=after)  # type: ignore[arg-type]
