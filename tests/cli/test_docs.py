"""The pages of the command say what the command does."""

from __future__ import annotations

import re
from pathlib import Path

import click

from panto_cli.aliases import Catalogue
from panto_cli.app import COMMANDS, STATUSES, ask_command
from panto_cli.configfile import ModelEntry, ProviderEntry, read_config
from panto_cli.failures import Exit
from panto_cli.providers import BUILT_IN

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_table_of_providers_is_the_commands_own() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| (\S+) \| `(\S+)` \|$", page("configuration.md"), re.M)
    assert rows == [(r.name, r.key_env, r.base_url_env, r.base_url, r.default_model) for r in BUILT_IN.values()]


def test_the_config_file_of_the_page_is_a_good_one(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", page("configuration.md"), re.S)
    assert found
    (tmp_path / "config.toml").write_text(found[1], encoding="utf-8")
    catalogue = Catalogue(
        read_config(tmp_path / "config.toml", True), {"WORK_KEY": "sk-1", "WORK_TOKEN": "t", "GROQ_API_KEY": "sk-2"}
    )
    assert catalogue.default == "deep"
    for name in ("deep", "quick"):
        assert catalogue.config_of(name).model == catalogue.aliases[name].model


def test_every_key_of_the_file_is_on_the_page() -> None:
    for entry in (ProviderEntry, ModelEntry):
        for key in entry.__struct_fields__:
            assert re.search(rf"\b{key}\b", page("configuration.md")), key


def test_every_option_and_command_is_on_the_page() -> None:
    text = page("command.md")
    for param in ask_command.params:
        if isinstance(param, click.Option):
            assert any(f"`{name}" in text for name in param.opts), param.opts
    assert all(f"panto {name}" in text for name in COMMANDS)


def test_every_exit_status_is_on_its_page_and_in_the_help() -> None:
    rows = re.findall(r"^\| (\d+) \|", page("exit-status.md"), re.M)
    assert rows == [str(int(each)) for each in Exit]
    assert [status for status, _ in STATUSES] == [str(int(each)) for each in Exit]
