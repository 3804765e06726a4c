"""The command as its users have it: a process of its own, in a home of its own, at a pipe or at a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pyte
from tests.cli.server import Server

CANARY = "sk-CANARY-1-do-not-show"


class Command:
    """Runs `panto` with a home below `directory` and, unless told otherwise, a key for `server`."""

    def __init__(self, directory: Path, server: Server) -> None:
        self.home = directory
        self.store = directory / "sessions"
        self.config = directory / "config.toml"
        self.config.write_text("[retry]\nmax_retries = 0\n", encoding="utf-8")
        self.env: dict[str, str] = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
            "PANTO_STORE": str(self.store),
            "PANTO_CONFIG": str(self.config),
            "OPENAI_API_KEY": CANARY,
            "OPENAI_BASE_URL": server.url,
        }
        self.python: tuple[str, ...] = (sys.executable,)

    def argv(self, *args: str) -> list[str]:
        return [*self.python, "-m", "panto_cli", *args]

    def run(
        self, *args: str, input: str | bytes | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; without `input` standard input is empty and no terminal."""
        data = input.encode() if isinstance(input, str) else input
        done = subprocess.run(
            self.argv(*args),
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            env={**self.env, **(env or {})},
            timeout=60,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *args: str) -> subprocess.Popen[bytes]:
        """Start it with its output in pipes."""
        return subprocess.Popen(
            self.argv(*args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env,
        )

    def at_terminal(self, *args: str, columns: int = 80, env: Mapping[str, str] | None = None) -> Terminal:
        """Start it at a terminal."""
        return Terminal(self.argv(*args), {**self.env, **(env or {})}, columns)

    def saved(self) -> str:
        """All that is in the session files."""
        return "".join(path.read_text(encoding="utf-8") for path in sorted(self.store.glob("*.jsonl")))


class Terminal:
    """A process at a pseudo-terminal, and what its screen shows."""

    def __init__(self, argv: list[str], env: Mapping[str, str], columns: int) -> None:
        import pexpect

        self.child = pexpect.spawn(
            argv[0], argv[1:], env=dict(env), dimensions=(24, columns), timeout=30, encoding=None, echo=True
        )
        self._screen = pyte.Screen(columns, 24)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""

    def wait_for(self, words: str) -> None:
        """Read until the screen shows `words`."""
        import pexpect

        end = time.monotonic() + 30
        while words not in self.text:
            assert time.monotonic() < end, f"{words!r} did not appear on:\n{self.text}"
            try:
                self._take(self.child.read_nonblocking(4096, 1))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                assert words in self.text, f"{words!r} never appeared on:\n{self.text}"

    def type(self, text: str) -> None:
        self.child.send(text)

    def end(self) -> int:
        """Read to the end; the exit status."""
        import pexpect

        while True:
            try:
                self._take(self.child.read_nonblocking(4096, 30))
            except pexpect.EOF:
                break
        self.child.close()
        return self.child.exitstatus if self.child.exitstatus is not None else -(self.child.signalstatus or 0)

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without what is empty at their ends and below."""
        return self.text.splitlines()

    @property
    def text(self) -> str:
        # A wide character stands in two cells for pyte: the second is empty.
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def _take(self, data: bytes) -> None:
        self.raw += data
        self._stream.feed(data)
