"""A run as JSON lines, and the schema of those lines.

Law: one event a line, encoded from the very types of the library; the schema is generated from the same types, so that
neither can say what the other does not.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

import panto

from .terminal import Console

__all__ = ["JSONLine", "JSONRenderer", "RunFailed", "RunStart", "schema"]


class RunStart(msgspec.Struct, frozen=True, tag_field="event", tag="run_start"):
    """The first line: who is asked, and in which session. `session` is `None` when nothing is saved."""

    session: str | None
    alias: str
    identity: panto.WireIdentity


class RunFailed(msgspec.Struct, frozen=True, tag_field="event", tag="run_failed"):
    """The last line of a run that has no `turn_complete`.

    `kind` is that of a provider's failure, or `interrupted`, `terminated`, `config`, `session`, `store`, `error`;
    `status` the HTTP status, where there was one; `exit_status` what the command exits with.
    """

    kind: str
    message: str
    exit_status: int
    status: int | None = None
    retryable: bool = False
    request_id: str | None = None


JSONLine: TypeAlias = RunStart | panto.Event | RunFailed
"""What a line of `--json` is."""


class JSONRenderer:
    """Writes the events of a run as JSON lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._encoder = msgspec.json.Encoder()
        self.stop_reason: panto.StopReason | None = None
        self.detail: str | None = None

    def show(self, event: JSONLine) -> None:
        """Write one line."""
        if isinstance(event, panto.TurnComplete):
            self.stop_reason, self.detail = event.stop_reason, event.detail
        self._console.write(self._encode(event) + "\n")

    def end(self) -> None:
        """The run is over; each line has its end already."""

    def failed(self, error: BaseException, kind: str, message: str, status: int) -> None:
        """Write the line that says why there is no more."""
        line = RunFailed(kind=kind, message=message, exit_status=status)
        if isinstance(error, panto.ProviderError):
            line = msgspec.structs.replace(
                line, status=error.status, retryable=error.retryable, request_id=error.request_id
            )
        self.show(line)

    def _encode(self, event: JSONLine) -> str:
        try:
            return self._encoder.encode(event).decode("utf-8")
        except UnicodeEncodeError:
            import json

            # A lone surrogate, which UTF-8 cannot say and JSON can: as an escape.
            return json.dumps(msgspec.to_builtins(event), separators=(",", ":"))


def schema() -> dict[str, object]:
    """The JSON schema of one line of `--json`."""
    found = msgspec.json.schema(JSONLine)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of `panto --json`",
        **found,
    }


def main() -> None:
    """Print the schema, as docs/events.schema.json has it: `python -m panto_cli.jsonout > docs/events.schema.json`."""
    import json

    print(json.dumps(schema(), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
