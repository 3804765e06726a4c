"""A child is killed 300 times while it writes sessions: nothing acknowledged is lost, nothing doubled, all load."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_300_kills_of_which_100_fall_inside_a_write_lose_and_double_nothing(tmp_path):
    command = [sys.executable, "-m", "tests.stores.killed", str(tmp_path / "sessions"), "300", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=110)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["kills"] == 300
    assert seen["inside"] >= 100
    assert seen["torn"] >= 30  # the kills did leave torn lines behind
    assert seen["kept"] >= 60
