"""A tool is data and one function; what could never be offered to a model is refused when it is registered."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from panto.config import JSON
from panto.errors import ConfigError, ToolNameError
from panto.tools import (
    Allow,
    Ask,
    Change,
    Deny,
    Hooks,
    Pause,
    Tool,
    ToolDecl,
    ToolDecorator,
    normal_tool,
)

HERE = pathlib.Path(__file__).parent


def plain(name: str = "t", schema: object = None) -> Tool:
    return Tool(name, "", {} if schema is None else schema, lambda arguments: "x")  # type: ignore[arg-type]


def test_a_tool_is_registered_with_a_normal_schema() -> None:
    assert normal_tool(plain()).schema == {"type": "object", "properties": {}}
    normal: dict[str, JSON] = {"type": "object", "properties": {"a": {}}}
    tool = plain(schema=normal)
    assert normal_tool(tool) is tool


def test_a_tool_without_a_name_or_with_an_impossible_schema_is_refused() -> None:
    for name in ("", "  "):
        with pytest.raises(ToolNameError, match="name"):
            normal_tool(plain(name))
    for schema in ({"type": "string"}, {"anyOf": [{"type": "object"}]}, "text"):
        with pytest.raises(ConfigError, match=r"'t'.*object"):
            normal_tool(plain(schema=schema))
    with pytest.raises(ConfigError, match="callable"):
        normal_tool(Tool("t", "", {}, "no function"))  # type: ignore[arg-type]


def test_options_of_a_tool_from_a_function_win_over_the_function() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    tool = Tool.from_function(add, name="plus", description="Sum.", parallel=False, timeout=2.5)
    assert (tool.name, tool.description, tool.parallel, tool.timeout) == ("plus", "Sum.", False, 2.5)
    assert tool.decl == ToolDecl("plus", "Sum.", tool.schema)
    assert Tool.from_function(add, description="").description == ""


def test_the_decorator_registers_bare_and_with_arguments_and_gives_the_function_back() -> None:
    tools: list[Tool] = []
    tool = ToolDecorator(tools.append)

    @tool
    def one(a: int) -> int:
        """One."""
        return a

    @tool(name="deux", parallel=False)
    async def two(a: int) -> int:
        return a

    @tool()
    def three() -> None: ...

    assert [made.name for made in tools] == ["one", "deux", "three"]
    assert [made.is_async for made in tools] == [False, True, False]
    assert one(1) == 1
    assert not tools[1].parallel


def test_hooks_are_optional_and_decisions_compare_by_value() -> None:
    assert Hooks() == Hooks(before_append=None, before_tool_call=None, after_tool_call=None, on_ask=None)
    assert Deny("no") == Deny("no") != Ask("no")
    assert Allow() == Allow() != Pause()
    assert Change({"a": 1}).arguments == {"a": 1}


def test_importing_tools_does_not_load_the_machinery_of_functions() -> None:
    code = (
        "import sys, panto.tools\n"
        "loaded = [m for m in ('panto._function', 'panto._annotation', 'dataclasses', 'pathlib', 'json', 'asyncio')"
        " if m in sys.modules]\n"
        "print(loaded)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_type_checkers_see_the_type_of_a_decorated_function(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--follow-imports=silent"]
    done = subprocess.run(
        [*command, str(HERE / "typing" / "decorated_tools.py")], capture_output=True, text=True, cwd=HERE.parent
    )
    assert done.returncode == 0, done.stdout + done.stderr
