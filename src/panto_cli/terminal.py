"""Standard output and standard error, and who may be looking at them.

Law: the answer alone is on standard output; notes are on standard error and only when that is a terminal; errors are
on standard error always. What a model, a tool or a provider wrote is neutralised before it reaches a terminal: it may
move no cursor, set no title, ring no bell.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import sys
from collections.abc import Callable
from typing import Final, TextIO

from .failures import CommandError, Exit, ReaderGone

__all__ = ["Console", "Neutraliser", "neutral"]

# A control character is shown by its picture (U+2400 ...); of those without one, C1, by the replacement character.
_PICTURES: Final = {
    **{code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
    # They turn the order of what follows on the line: https://trojansource.codes (2021).
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"),
}


def neutral(text: str) -> str:
    """`text` as a terminal may have it: no control character but newline and tab.

    >>> neutral("a\\x1b[2Jb\\r\\n")
    'a␛[2Jb\\n'
    """
    return text.replace("\r\n", "\n").translate(_PICTURES)


class Neutraliser:
    """`neutral` over a stream: a carriage return waits for what follows it."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """What of the stream may be shown now."""
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        return neutral(text[:-1] if self._held else text)

    def end(self) -> str:
        """What was held back."""
        held, self._held = self._held, ""
        return neutral(held)


class Console:
    """What the command writes to.

    Args:
        out: Standard output; `None` when the process has none.
        err: Standard error; `None` when the process has none.
        redact: Takes keys out of whatever goes to standard error.
    """

    def __init__(
        self, out: TextIO | None, err: TextIO | None, redact: Callable[[str], str] = lambda text: text
    ) -> None:
        self._out, self._err = out, err
        self.redact = redact
        self.out_is_terminal = _is_terminal(out)
        self.err_is_terminal = _is_terminal(err)
        self._neutral = Neutraliser()
        self._open_line = False
        self.wrote = False
        self.debug = False
        dumb = os.environ.get("TERM", "dumb") in ("", "dumb")
        self._dim = ("\x1b[2m", "\x1b[0m") if not dumb and not os.environ.get("NO_COLOR") else ("", "")

    @classmethod
    def of_process(cls) -> Console:
        """The console of this process. Files and pipes get UTF-8, whatever the locale; no character makes it fail."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                if _is_terminal(stream) or os.environ.get("PYTHONIOENCODING"):
                    stream.reconfigure(errors="replace")
                else:
                    stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")
        return cls(sys.stdout, sys.stderr)

    def write(self, text: str) -> None:
        """Write to standard output, at once.

        Raises `ReaderGone` when nobody reads it any more.
        """
        if self.out_is_terminal:
            text = self._neutral.feed(text)
        if text:
            self._open_line = not text.endswith("\n")
            self.wrote = True
            self._put(text)

    def end_line(self) -> None:
        """Begin a new line on standard output, unless it stands at the beginning of one."""
        if held := self._neutral.end():
            self._put(held)
            self._open_line = True
        if self._open_line:
            self._open_line = False
            self._put("\n")

    def note(self, line: str) -> None:
        """Tell a person who looks on; nothing when nobody does."""
        if self.err_is_terminal:
            before, after = self._dim
            self._tell(f"{before}{_wrapped(neutral(self.redact(line)))}{after}\n")

    def error(self, paragraph: str) -> None:
        """Say what went wrong."""
        paragraph = f"panto: {self.redact(paragraph)}"
        self._tell(f"{_wrapped(neutral(paragraph)) if self.err_is_terminal else paragraph}\n")

    def progress(self, line: str) -> None:
        """A step of something long that was asked for: on standard error, terminal or not."""
        self._tell(f"{neutral(self.redact(line))}\n")

    def log(self, text: str) -> None:
        """A log line, for `--debug`."""
        text = self.redact(text)
        self._tell(f"{neutral(text) if self.err_is_terminal else text}\n")

    def traceback(self, error: BaseException) -> None:
        """Where an error came from, for `--debug`; nothing without it."""
        if self.debug:
            import traceback

            self.log("".join(traceback.format_exception(error)).rstrip())

    def ask(self, question: str) -> str:
        """Ask the person at the terminal; the question goes to standard error. Raises `EOFError` when none comes."""
        self._tell(neutral(question), end_line=False)
        line = sys.stdin.readline()
        if not line:
            self._tell("\n", end_line=False)
            raise EOFError
        return line.strip()

    @property
    def width(self) -> int | None:
        """How many cells a line of standard output has; `None` where it is no terminal."""
        return shutil.get_terminal_size().columns if self.out_is_terminal else None

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to ask."""
        return self.err_is_terminal and _is_terminal(sys.stdin)

    def finish(self) -> None:
        """Flush; raises `ReaderGone` when nobody reads standard output any more."""
        self._put("")

    def abandon(self) -> None:
        """Send what may still be in standard output's buffer nowhere, so that the end of Python does not complain."""
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)
        except (OSError, ValueError, AttributeError):
            pass

    def _put(self, text: str) -> None:
        if self._out is None:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except OSError as error:
            # Windows says EINVAL for a pipe that is closed at its other end.
            if error.errno in (errno.EPIPE, errno.ESHUTDOWN) or (os.name == "nt" and error.errno == errno.EINVAL):
                raise ReaderGone from None
            self.abandon()
            words = f"standard output cannot be written: {error.strerror}"
            raise CommandError(words, Exit.FAILED) from error

    def _tell(self, text: str, *, end_line: bool = True) -> None:
        if self._err is None:
            return
        try:
            if end_line and self.out_is_terminal and self.err_is_terminal:
                self.end_line()
            self._err.write(text)
            self._err.flush()
        except (OSError, ReaderGone):
            pass  # there is no place left to complain


def _wrapped(text: str) -> str:
    """`text` with its lines broken between words where the terminal would break them within."""
    import textwrap

    width = max(20, min(shutil.get_terminal_size().columns, 120))
    lines = (textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n"))
    return "\n".join("\n".join(wrapped) for wrapped in lines)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
