"""The user's guide is true: every test that it shows is run here, on its own."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import panto.testing

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
TEXT = PAGE.read_text("utf-8")


def guide() -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "guide"}
    for match in re.finditer(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL):
        line = TEXT.count("\n", 0, match.start(1))
        exec(compile("\n" * line + match.group(1), str(PAGE), "exec"), scope)
    return scope


NAMES = [
    node.name
    for block in re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    for node in ast.parse(block).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]


@pytest.mark.parametrize("name", NAMES)
def test_a_test_of_the_guide_passes(name: str, tmp_path: Path) -> None:
    function = guide()[name]
    wanted = function.__code__.co_varnames[: function.__code__.co_argcount]
    if wanted == ("check",):
        for check in panto.testing.store_checks():
            function(check)
    else:
        function(**({"tmp_path": tmp_path} if wanted else {}))


def test_the_guide_shows_some_tests_and_each_once() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 10


@pytest.mark.parametrize("name", panto.testing.__all__)
def test_each_name_of_the_kit_is_in_the_guide(name: str) -> None:
    assert re.search(rf"\b{name}\b", TEXT), f"docs/testing.md does not tell of {name}"


def test_each_name_of_the_kit_can_be_had() -> None:
    for name in panto.testing.__all__:
        assert getattr(panto.testing, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = panto.testing.nothing  # type: ignore[attr-defined]
