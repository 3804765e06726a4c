"""The `panto` command: the library's first user, through its public surface only.

Law: nothing is imported before it is needed, so that `panto --version` is there at once; nothing that goes wrong ends
in a traceback, unless `--debug` asks for one.
"""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]

EXTRA = {"click", "platformdirs", "prompt_toolkit", "rich"}
"""What the extra `cli` installs."""


def main() -> NoReturn:
    """Run the command with the arguments of the process and exit with its status."""
    try:
        status = _run(sys.argv[1:])
    except KeyboardInterrupt:
        status = 130
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        sys.stderr.write(
            f"panto: the package {error.name!r} is missing, which the command needs and the library does not.\n"
            "Install it with: pip install 'panto[cli]'\n"
        )
        status = 2
    sys.exit(status)


def _run(args: list[str]) -> int:
    if args in (["--version"], ["-V"]):
        from panto import __version__

        try:
            print(f"panto {__version__}", flush=True)
        except OSError as error:
            import os

            # What is left in the buffer goes nowhere, or the end of Python would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                sys.stderr.write(f"panto: standard output cannot be written: {error.strerror}\n")
                return 1
        return 0
    from .app import run

    return run(args)
