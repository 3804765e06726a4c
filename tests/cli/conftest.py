from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import Command
from tests.cli.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def panto(tmp_path: Path, server: Server) -> Command:
    return Command(tmp_path, server)
