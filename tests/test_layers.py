"""The house's rules about imports, held by import-linter and, where its graph is too coarse, by reading the source."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
IMPURE = {"time", "random", "uuid", "os", "socket", "asyncio", "threading"}
COMMAND_MAY = {"panto", "panto.stores", "panto.ext", "panto.testing"}


def imports(source: str, module: str, *, package: bool = False) -> Iterator[str]:
    """Full names of what a module imports, at any depth of its code: `a.b` for `import a.b` and `from a import b`."""
    parts = module.split(".") if package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*parts[: len(parts) - node.level + 1]] if node.level else []
            base += node.module.split(".") if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)


def modules(*rooms: str) -> Iterator[tuple[str, set[str]]]:
    for path in sorted(SRC.rglob("*.py")):
        package = path.name == "__init__.py"
        parts = path.relative_to(SRC).with_suffix("").parts
        name = ".".join(parts[:-1] if package else parts)
        if any(name == room or name.startswith(room + ".") for room in rooms):
            yield name, set(imports(path.read_text(encoding="utf-8"), name, package=package))


def impure(found: set[str]) -> set[str]:
    return {name for name in found if name.partition(".")[0] in IMPURE}


def beyond_the_surface(found: set[str]) -> set[str]:
    """Names of panto that the command may not know."""
    bad = set[str]()
    for name in found:
        parts = name.split(".")
        if parts[0] != "panto":
            continue
        if any(part.startswith("_") and part != "__version__" for part in parts):
            bad.add(name)
        elif (SRC / Path(*parts[:2])).with_suffix(".py").exists() or (SRC / Path(*parts[:2]) / "__init__.py").exists():
            if ".".join(parts[:2]) not in COMMAND_MAY:
                bad.add(name)
    return bad


def lint_imports(cwd: Path, src: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [str(program), "--no-cache", "--no-logo", "--config", str(ROOT / "pyproject.toml")],
        cwd=cwd,
        env={"PYTHONPATH": str(src), "PATH": str(program.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_core_and_the_wire_import_nothing_that_performs() -> None:
    seen = 0
    for name, found in modules("panto._core", "panto._wire"):
        seen += 1
        assert not impure(found), f"{name} imports {impure(found)}"
    assert seen > 2


def test_an_import_inside_a_function_of_the_core_would_be_found() -> None:
    source = "def f():\n    from os.path import join\n    import asyncio.tasks\n"
    assert impure(set(imports(source, "panto._core.x"))) == {"os.path.join", "asyncio.tasks"}


def test_the_command_reaches_panto_through_its_public_surface_only() -> None:
    for name, found in modules("panto_cli"):
        assert not beyond_the_surface(found), f"{name} imports {beyond_the_surface(found)}"


@pytest.mark.parametrize(
    "source",
    [
        "from panto._core import loop",
        "import panto.config",
        "from panto import agent",
        "from panto.ext import _local_server",
    ],
)
def test_a_command_that_reaches_further_would_be_found(source: str) -> None:
    assert beyond_the_surface(set(imports(source, "panto_cli.x")))


@pytest.mark.parametrize(
    "source",
    ["import panto", "from panto import Agent", "from panto.ext.local import local_model", "from . import args"],
)
def test_a_command_that_keeps_to_the_surface_is_left_alone(source: str) -> None:
    assert not beyond_the_surface(set(imports(source, "panto_cli.x")))


def test_no_room_is_named_after_nothing() -> None:
    names = {path.stem for path in SRC.rglob("*.py")}
    assert not names & {"utils", "util", "helpers", "helper", "common", "misc"}


def test_imports_run_one_way() -> None:
    done = lint_imports(ROOT, SRC)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_import_upwards_breaks_the_contract(tmp_path: Path) -> None:
    shutil.copytree(SRC, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    low = tmp_path / "src" / "panto" / "errors.py"
    low.write_text(low.read_text(encoding="utf-8") + "\nimport panto.session\n", encoding="utf-8")
    done = lint_imports(tmp_path, tmp_path / "src")
    assert done.returncode != 0
    assert "panto.errors -> panto.session" in done.stdout


def test_every_dependency_has_its_reason_in_the_docs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    names = [requirement.split(";")[0].split(">")[0].split("=")[0].split("[")[0].strip() for requirement in wanted]
    assert not [name for name in names if f"`{name}`" not in page]
