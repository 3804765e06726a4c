"""Recorded traffic of real providers, replayed through the public surface, where the corpus is there."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[2] / "shared" / "conformance" / "run.py"
FRAMINGS = [("lines", "recorded"), ("random", "recorded"), ("whole", "recorded"), ("random", "crlf")]
FRAMINGS += [("random", "cr"), ("random", "odd")]


@pytest.mark.skipif(not RUNNER.exists(), reason="the recorded traffic in ../shared is not here")
@pytest.mark.parametrize(("colour", "framing"), list(itertools.product(("sync", "async"), FRAMINGS)), ids=str)
def test_every_recorded_case_holds(colour: str, framing: tuple[str, str]) -> None:
    cut, frame = framing
    told = subprocess.run(
        [sys.executable, str(RUNNER), "--colour", colour, "--cut", cut, "--frame", frame],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-2000:]
    assert ", 0 failed," in told.stdout
