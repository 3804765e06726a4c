"""Milliseconds that an import costs over bare Python, each in fresh processes, the best of the rounds.

    python bench/imports.py [--rounds 20]

Byte code is cached before the first round, as it is on a user's machine after the first start.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

WORK = {
    "bare Python": "pass",
    "import panto": "import panto",
    "from panto import Agent": "from panto import Agent",
    "from panto import AsyncAgent": "from panto import AsyncAgent",
    "an agent and a store": "from panto import Agent, Config, OpenAIChatConfig, FileSystemJSONLStore",
}


def once(code: str) -> float:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return (time.perf_counter() - began) * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    took = {name: [] for name in WORK}
    for code in WORK.values():
        once(code)
    for _ in range(options.rounds):  # in turn, so that a busy moment of the machine hits all alike
        for name, code in WORK.items():
            took[name].append(once(code))
    bare = min(took["bare Python"])
    for name, times in took.items():
        print(f"{name:30} {min(times):6.1f} ms  over bare Python {min(times) - bare:6.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
