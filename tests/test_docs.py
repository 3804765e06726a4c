"""What README, docs and docstrings show is run, as it stands."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import panto
from panto.testing import ScriptedProvider, call, say

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
HOST = "https://api.example.com"


class Patient(ScriptedProvider):
    """A provider that does not mind when its script is not used up."""

    def done(self) -> None:
        pass


def blocks(page: Path) -> list[tuple[int, str]]:
    """The Python blocks of a page, each with its line."""
    text = page.read_text("utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in found]


def modules() -> Iterator[str]:
    """Every module of panto."""
    for found in pkgutil.walk_packages(panto.__path__, "panto."):
        yield found.name


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_examples_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("A project.", "utf-8")
    # A provider that calls a tool where it is offered one and has not called it yet, and says hello else.
    script = [
        lambda request: (
            call(request.tools[0], path="README.md")
            if request.tools and not any(m["role"] == "tool" for m in request.messages)
            else say("Hello", ".")
        )
    ] * 40
    scope: dict[str, object] = {"__name__": f"example of {page.name}"}
    with Patient(script).serve() as server:
        for line, code in blocks(page):
            code = code.replace(HOST, server.url)
            exec(compile("\n" * line + code, str(page), "exec"), scope)


@pytest.mark.parametrize("name", list(modules()))
def test_the_examples_in_docstrings_hold(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    names = {**vars(module), "panto": panto}
    result = doctest.testmod(module, globs=names, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
