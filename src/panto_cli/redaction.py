"""The last net under everything that is shown: known keys are struck out of it.

Law: no key is logged in the first place; if a provider sends one back, or another library logs one, it ends here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from .terminal import Console

__all__ = ["log_to", "redactor"]

SHORTEST = 6
"""A shorter value is no key, and striking it out would make holes in plain words."""


def redactor(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that strikes all of `secrets` out of a text.

    >>> redactor(["sk-123456"])("key sk-123456 refused")
    'key *** refused'
    """
    known = sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True)

    def redact(text: str) -> str:
        for secret in known:
            text = text.replace(secret, "***")
        return text

    return redact


class _ToConsole(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.DEBUG)
        self._console = console
        self.setFormatter(logging.Formatter("%(relativeCreated)6.0f ms %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record."""
        try:
            self._console.log(self.format(record))
        except Exception:
            self.handleError(record)


class _Warnings(_ToConsole):
    """Warnings of the library as notes, for a person who looks on."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record."""
        self._console.note(record.getMessage())


def log_to(console: Console) -> None:
    """Show warnings of the library; with `console.debug` everything that any library logs."""
    if console.debug:
        root = logging.getLogger()
        root.addHandler(_ToConsole(console))
        root.setLevel(logging.DEBUG)
    else:
        handler = _Warnings(console)
        handler.setLevel(logging.WARNING)
        logging.getLogger("panto").addHandler(handler)
