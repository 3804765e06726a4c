"""What every command has in common: its options, and what is set up before it starts.

Law: keys are known to the net that strikes them out before the first thing that could show one is done.
"""

from __future__ import annotations

import click

from .aliases import Catalogue
from .configfile import read_config
from .paths import config_file
from .redaction import log_to, redactor
from .terminal import Console

__all__ = ["debug_option", "json_option", "set_up", "store_option"]

store_option = click.option("--store", metavar="DIRECTORY", help="The folder of the sessions.")
debug_option = click.option("--debug", is_flag=True, help="Show logs and tracebacks on standard error, without keys.")
json_option = click.option("--json", "as_json", is_flag=True, help="Show JSON.")


def set_up(console: Console, debug: bool) -> Catalogue:
    """Read the configuration, and make logs and errors go where they should.

    Raises `CommandError` for a config file that cannot be used.
    """
    console.debug = debug
    catalogue = Catalogue(read_config(*config_file()))
    console.redact = redactor(catalogue.secrets())
    log_to(console)
    return catalogue
