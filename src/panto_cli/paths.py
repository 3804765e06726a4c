"""Where the command keeps what it reads and writes.

Law: the flag, then the environment, then the config file, then the folder that the platform has for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["config_file", "sessions_directory"]


def config_file(environ: Mapping[str, str] = os.environ) -> tuple[Path, bool]:
    """The config file, and whether it was asked for by name in `PANTO_CONFIG`."""
    if named := environ.get("PANTO_CONFIG", "").strip():
        return Path(named).expanduser(), True
    import platformdirs

    return platformdirs.user_config_path("panto", appauthor=False) / "config.toml", False


def sessions_directory(flag: str | None, in_file: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the sessions."""
    if named := (flag or environ.get("PANTO_STORE", "").strip()):
        return Path(named).expanduser()
    if in_file is not None:
        return in_file
    import platformdirs

    return platformdirs.user_data_path("panto", appauthor=False) / "sessions"
