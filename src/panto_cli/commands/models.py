"""`panto models`: who can be asked, and why.

Law: it shows what a question would use, and asks nobody; no key is shown, only the name of its variable.
"""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from ..aliases import Alias, Catalogue
from ..failures import Exit
from ..options import debug_option, json_option, set_up
from ..terminal import Console

__all__ = ["ModelLine", "command"]


class ModelLine(msgspec.Struct, frozen=True):
    """One alias, as `panto models --json` has it."""

    alias: str
    default: bool
    provider: str
    model: str
    base_url: str | None
    api_style: str
    reasoning: str
    key_env: str | None
    ready: bool
    origin: str


@click.command(name="models", context_settings={"help_option_names": ["-h", "--help"]})
@json_option
@debug_option
@click.pass_obj
def command(console: Console, as_json: bool, debug: bool) -> Exit:
    """List the models that can be asked, and where each name comes from. The default has a star."""
    catalogue = set_up(console, debug)
    lines = [_line(catalogue, alias) for alias in catalogue.aliases.values()]
    if as_json:
        console.write(msgspec.json.format(msgspec.json.encode(lines), indent=2).decode() + "\n")
        return Exit.OK

    from ..table import table

    rows = [
        (
            "*" if line.default else "",
            line.alias,
            line.provider,
            line.model,
            _short(line.origin) + ("" if line.ready else f"; no key: {line.key_env} is not set"),
        )
        for line in lines
    ]
    console.write(table(("", "ALIAS", "PROVIDER", "MODEL", "FROM"), rows, console.width, flexible=(3, 4), drop=(2, 3)))
    origin = _short(catalogue.default_origin)
    console.note(f"The default is {catalogue.default} ({origin}); -m takes another, also as PROVIDER/MODEL.")
    return Exit.OK


def _short(origin: str) -> str:
    """A path below the home folder, as a person writes it."""
    home = f"{Path.home()}{os.sep}"
    return f"~{os.sep}{origin[len(home) :]}" if origin.startswith(home) else origin


def _line(catalogue: Catalogue, alias: Alias) -> ModelLine:
    local = alias.provider not in catalogue.providers
    identity = None if local else catalogue.config_of(alias, keys=False).wire_identity()
    key_env = catalogue.key_env(alias)
    return ModelLine(
        alias=alias.name,
        default=alias.name == catalogue.default,
        provider=alias.provider,
        model=alias.model,
        base_url=identity.base_url if identity else None,
        api_style=(identity.api_style if identity else "openai_chat"),
        reasoning=(identity.reasoning if identity else "default"),
        key_env=key_env,
        ready=catalogue.ready(alias),
        origin=alias.origin,
    )
