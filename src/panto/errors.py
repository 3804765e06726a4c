"""What can go wrong, and whose fault it is.

    PantoError
    ├── ConfigError            the caller configured or called something that cannot work
    │   └── ToolNameError      a tool name that is empty or taken
    ├── StateError             the right call at the wrong time
    ├── SessionError           a session that cannot be used as asked
    │   ├── SessionNotFound
    │   ├── AmbiguousSession
    │   └── SessionBusy        also a StoreError: nothing was written
    ├── StoreError             a store that could not do its work
    └── ProviderError          the provider, or the way to it
        └── ContextOverflowError

Law: an error names the guilty party, says what to do next, and never holds a key.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

__all__ = [
    "RETRYABLE_KINDS",
    "AmbiguousSession",
    "ConfigError",
    "ContextOverflowError",
    "ErrorKind",
    "PantoError",
    "ProviderError",
    "SessionBusy",
    "SessionError",
    "SessionNotFound",
    "StateError",
    "StoreError",
    "ToolNameError",
]


class ErrorKind(enum.StrEnum):
    """What kind of failure a provider, or the way to it, had."""

    AUTH = "auth"
    PERMISSION = "permission"
    BILLING = "billing"
    NOT_FOUND = "not_found"
    INVALID_REQUEST = "invalid_request"
    CONTEXT_OVERFLOW = "context_overflow"
    REQUEST_TOO_LARGE = "request_too_large"
    REQUEST_OVER_RATE_BUDGET = "request_over_rate_budget"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER = "server"
    CONTENT_FILTER = "content_filter"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    CERTIFICATE = "certificate"
    STREAM_ENDED = "stream_ended"
    PROTOCOL = "protocol"


RETRYABLE_KINDS: frozenset[ErrorKind] = frozenset(
    {
        ErrorKind.RATE_LIMIT,
        ErrorKind.OVERLOADED,
        ErrorKind.SERVER,
        ErrorKind.TIMEOUT,
        ErrorKind.CONNECTION,
        ErrorKind.STREAM_ENDED,
    }
)
"""The kinds that waiting may cure. `ProviderError.retryable` follows the kind alone."""


class PantoError(Exception):
    """Root of every error that panto raises on purpose."""


class ConfigError(PantoError):
    """The caller gave something that cannot work; nothing was sent."""


class ToolNameError(ConfigError):
    """A tool's name is empty, or another tool of the agent has it already."""


class StateError(PantoError):
    """The right call at the wrong time; the message says what to do instead."""


class SessionError(PantoError):
    """A session cannot be used as asked."""


class SessionNotFound(SessionError):
    """`Session.load()` of an id whose record is gone."""


class AmbiguousSession(SessionError):
    """A prefix fits more than one session.

    `candidates` are the full ids it fits.
    """

    def __init__(self, message: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.candidates: tuple[str, ...] = tuple(candidates)


class StoreError(PantoError):
    """A store could not read or write. The answer it concerns was delivered nonetheless."""


class SessionBusy(SessionError, StoreError):
    """Another process held the session's lock for too long."""


class ProviderError(PantoError):
    """A provider refused, failed, or could not be reached.

    Attributes:
        kind: What kind of failure it was; decides `retryable`.
        status: The HTTP status, or the one an error body under 200 names; `None` if there was no answer.
        message: The provider's own words, also those of the provider behind a router.
        retryable: Whether trying again later may help. Follows `kind` alone.
        retry_after: Seconds the provider asked to wait, or `None`.
        request_id: The provider's id of the request, for its support, or `None`.
        partial: The `Message` that had been received when the stream failed, or `None`. It is in no history.
        host: The host that was called, without user info, or `None`.
        url: The full URL that was called, without user info and query, or `None`.
        hint: What to do next, or `None`.
    """

    def __init__(
        self,
        kind: ErrorKind,
        status: int | None,
        message: str,
        retryable: bool | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        partial: object | None = None,
        *,
        url: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.kind = kind
        self.status = status
        self.message = message
        self.retryable: bool = kind in RETRYABLE_KINDS if retryable is None else retryable
        self.retry_after = retry_after
        self.request_id = request_id
        self.partial = partial
        self.url = url
        self.hint = hint
        super().__init__(str(self))

    @property
    def host(self) -> str | None:
        """The host that was called, and its port where it is not the usual one; without user info."""
        if not self.url:
            return None
        return self.url.partition("://")[2].partition("/")[0] or None

    def __str__(self) -> str:
        who = self.host or "the provider"
        facts = [self.kind.value.replace("_", " ")]
        if self.status is not None:
            facts.append(f"HTTP {self.status}")
        if self.request_id:
            facts.append(f"request {self.request_id}")
        # Words of panto's own about the way there name the host already.
        said = self.message if who in self.message else f"{who}: {self.message}"
        text = f"{said} ({', '.join(facts)})"
        return f"{text}\n{self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        state = (self.kind, self.status, self.message, self.retryable, self.retry_after, self.request_id, self.partial)
        return (type(self), state, {"url": self.url, "hint": self.hint})


class ContextOverflowError(ProviderError):
    """The request does not fit the model's context window."""
