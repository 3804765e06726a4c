"""What an error means to the person at the command: a paragraph and an exit status.

Law: every failure is said in words, with the next step; the status tells a script whose fault it was.
"""

from __future__ import annotations

import enum

import panto

__all__ = ["CommandError", "Exit", "ReaderGone", "Terminated", "explain"]


class Exit(enum.IntEnum):
    """The exit statuses; docs/exit-status.md is their page."""

    OK = 0
    FAILED = 1
    """A provider, a store, the network or the disk failed."""
    USAGE = 2
    """The command line, the environment or the config file asks for what cannot work. Nothing was sent."""
    INCOMPLETE = 3
    """An answer came and is not whole: cut at a limit, filtered, or empty."""
    INTERRUPTED = 130
    """Ctrl-C."""
    TERMINATED = 143
    """SIGTERM, or the terminal was closed."""


class CommandError(Exception):
    """Something the command itself has to say before it gives up."""

    def __init__(self, message: str, status: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.status = status


class ReaderGone(Exception):
    """Nobody reads standard output any more (`panto ... | head`). Not a failure."""


class Terminated(BaseException):
    """The process was asked to end."""


NEXT_STEP: dict[panto.ErrorKind, str] = {
    panto.ErrorKind.AUTH: "Check the key; it was refused.",
    panto.ErrorKind.PERMISSION: "The key is good but may not do this; ask whoever runs the account.",
    panto.ErrorKind.BILLING: "The account has no credit left; top it up, or take another model with -m.",
    panto.ErrorKind.NOT_FOUND: "Check the model's name and base_url; `panto models` shows what is configured.",
    panto.ErrorKind.CONTEXT_OVERFLOW: (
        "The question, with the session before it, is too long for this model: shorten it, begin anew without -c "
        "or -r, or take a model with a larger window with -m."
    ),
    panto.ErrorKind.REQUEST_TOO_LARGE: "Send less text at once.",
    panto.ErrorKind.RATE_LIMIT: "Wait a little and try again, or take another model with -m.",
    panto.ErrorKind.OVERLOADED: "Wait a little and try again, or take another model with -m.",
    panto.ErrorKind.SERVER: "It may pass: try again.",
    panto.ErrorKind.TIMEOUT: "It may pass: try again.",
    panto.ErrorKind.CONNECTION: "Check the network, and base_url if you set one.",
    panto.ErrorKind.CERTIFICATE: "Behind a company proxy, name its certificates in SSL_CERT_FILE.",
    panto.ErrorKind.STREAM_ENDED: "The answer was cut off; try again.",
}

INSTEAD = frozenset({panto.ErrorKind.CONTEXT_OVERFLOW})
"""Where the library's own next step is for programs: the command cannot compact."""

BROKE_OFF = "It may pass: try again."
"""After a failure of the connection when part of the answer had come: the way there is right."""

ABOUT_THE_KEY = (panto.ErrorKind.AUTH, panto.ErrorKind.PERMISSION, panto.ErrorKind.BILLING)


def explain(error: BaseException, key_env: str | None = None, *, keyless: bool = False) -> tuple[str, Exit]:
    """The paragraph and the exit status for an error.

    `key_env` names the variable that holds the key in use; `keyless` says that nothing like a key was sent.
    """
    match error:
        case CommandError(status=status):
            return str(error), status
        case panto.ProviderError(kind=kind):
            lines = [str(error)]
            hint = error.hint
            if hint and (kind in INSTEAD or (keyless and kind is panto.ErrorKind.AUTH)):
                lines, hint = [str(error).removesuffix(f"\n{hint}")], None
            if keyless and kind is panto.ErrorKind.AUTH:
                missing = (
                    f"{key_env} is not set" if key_env else "the config file names no api_key_env for this provider"
                )
                lines.append(f"No key was sent: {missing}.")
            elif not hint and kind in NEXT_STEP:  # the library's own is nearer to the case
                broke_off = kind is panto.ErrorKind.CONNECTION and error.partial is not None
                lines.append(BROKE_OFF if broke_off else NEXT_STEP[kind])
            if key_env and not keyless and kind in ABOUT_THE_KEY:
                lines.append(f"The key in use is the one in {key_env}.")
            return "\n".join(lines), Exit.FAILED
        case panto.SessionBusy():
            return str(error), Exit.FAILED
        case panto.ConfigError() | panto.SessionError():
            return str(error), Exit.USAGE
        case panto.PantoError():
            return str(error), Exit.FAILED
        case OSError():
            where = f": {error.filename}" if error.filename else ""
            return f"{error.strerror or error}{where}", Exit.FAILED
        case _:
            words = str(error) or "no further words"
            fault = f"panto has a fault of its own ({type(error).__name__}: {words})."
            return f"{fault}\nRun it again with --debug and report what it shows.", Exit.FAILED
