"""What goes wrong on the way, in one language for all HTTP libraries.

Law: the answer is found from the standard library's exceptions inside the HTTP library's; the message names the host,
the phase and the remedy; of the exception only the innermost standard one is kept as the cause, without its traceback
(the frames of an HTTP library hold the headers, and so the key), and only if no secret is in its text.
"""

from __future__ import annotations

import enum
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException

from panto.config import Timeouts
from panto.errors import ErrorKind

from .http import TransportError
from .http_route import Address, redact


class Phase(enum.Enum):
    """How far a request had come."""

    CONNECT = "connect"
    HEADERS = "headers"
    BODY = "body"


class Way:
    """All that a message about a request may need. Made once for each request; its repr shows nothing."""

    __slots__ = ("phase", "proxy", "secrets", "target", "timeouts", "trusted")

    def __init__(
        self, target: Address, proxy: Address | None, trusted: str, timeouts: Timeouts, secrets: Iterable[str]
    ) -> None:
        self.target = target
        self.proxy = proxy
        self.trusted = trusted
        self.timeouts = timeouts
        self.phase = Phase.CONNECT
        hidden = list(secrets)
        self.secrets: Callable[[], list[str]] = lambda: hidden

    @property
    def host(self) -> str:
        """The host, and the proxy that leads to it."""
        return f"{self.target.shown} (through the proxy {self.proxy.shown})" if self.proxy else self.target.shown


def fault(error: BaseException, way: Way, *, kind: ErrorKind | None = None, words: str | None = None) -> TransportError:
    """The `TransportError` that tells of `error`.

    An HTTP library's file gives `kind` and `words` where only it can know; else the innermost exception decides.
    """
    inner = list(inside(error))
    secrets = way.secrets()
    if kind is None:
        kind = _kind(inner)
    if words is None:
        words = _WORDS[kind](way, inner)
    made = TransportError(kind, redact(words, secrets), sent=way.phase is not Phase.CONNECT)
    made.__cause__ = _clean(inner, secrets)
    return made


def closed(way: Way) -> TransportError:
    """A read of a response that was closed."""
    words = f"the answer of {way.target.shown} was closed while it was being read"
    return TransportError(ErrorKind.CONNECTION, words, sent=True)


def bare(error: BaseException) -> BaseException:
    """An exception that passes through (Ctrl-C, cancellation) without the frames and contexts of the HTTP library."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def inside(error: BaseException) -> Iterator[BaseException]:
    """The exception and all that it wraps, in whatever way its library does so."""
    todo: list[BaseException] = [error]
    seen: set[int] = set()
    while todo:
        one = todo.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        wrapped = [one.__cause__, one.__context__, *one.args]
        wrapped += [getattr(one, name, None) for name in ("reason", "original_error", "os_error", "certificate_error")]
        todo += [other for other in wrapped if isinstance(other, BaseException)]


def _kind(inner: list[BaseException]) -> ErrorKind:
    for kinds, kind in _TABLE:
        if any(isinstance(one, kinds) for one in inner):
            return kind
    return ErrorKind.CONNECTION


_TABLE: list[tuple[tuple[type[BaseException], ...], ErrorKind]] = [
    ((ssl.SSLCertVerificationError, ssl.CertificateError), ErrorKind.CERTIFICATE),
    ((TimeoutError,), ErrorKind.TIMEOUT),
]


def _certificate(way: Way, inner: list[BaseException]) -> str:
    told = (str(getattr(one, "verify_message", "")) for one in inner)  # aiohttp's kinds of these lack what ssl's have
    why = next(filter(None, told), "")
    return (
        f"certificate verification failed for {way.host}"
        + (f": {why.rstrip('.')}" if why else "")
        + f" (trusted: {way.trusted}). If a company network signs traffic with an authority of its own, name its PEM "
        "file in SSL_CERT_FILE or panto.init(ca_bundle=...)"
    )


def _timeout(way: Way, inner: list[BaseException]) -> str:
    limits = way.timeouts
    match way.phase:
        case Phase.CONNECT:
            return f"no connection to {way.host} within {limits.connect:g} s (Timeouts.connect)"
        case Phase.HEADERS:
            return f"{way.host} has not answered for {limits.idle:g} s (Timeouts.idle)"
        case Phase.BODY:
            return f"{way.host} fell silent in the middle of its answer for {limits.idle:g} s (Timeouts.idle)"


def _connection(way: Way, inner: list[BaseException]) -> str:
    plain = [one for one in inner if isinstance(one, OSError)]
    match way.phase:
        case Phase.CONNECT:
            if any(isinstance(one, socket.gaierror) for one in plain):
                name = way.proxy or way.target
                return f"the name {name.host!r} cannot be resolved; check the host, and the network"
            told = [str(getattr(one, "reason", None) or "") for one in plain if isinstance(one, ssl.SSLError)]
            if told:
                return f"no TLS connection to {way.host}: {next(filter(None, told), 'the handshake failed')}"
            return f"cannot connect to {way.host}" + (_because(plain) or f": {inner[0]}")
        case Phase.HEADERS:
            return f"{way.host} closed the connection before it answered" + _because(plain)
        case Phase.BODY:
            return f"{way.host} closed the connection in the middle of its answer" + _because(plain)


def _because(plain: list[OSError]) -> str:
    for one in reversed(plain):
        if one.errno is not None and one.errno > 0 and not isinstance(one, ssl.SSLError):
            return f": {os.strerror(one.errno)}"
    return f": {plain[-1]}" if plain and str(plain[-1]) else ""


def _protocol(way: Way, inner: list[BaseException]) -> str:
    return f"what {way.host} answered is not HTTP"


_WORDS = {
    ErrorKind.CERTIFICATE: _certificate,
    ErrorKind.TIMEOUT: _timeout,
    ErrorKind.CONNECTION: _connection,
    ErrorKind.PROTOCOL: _protocol,
}


def _clean(inner: list[BaseException], secrets: list[str]) -> BaseException | None:
    """The innermost exception of the standard library, bare, if it tells no secret."""
    for one in reversed(inner):
        if isinstance(one, (OSError, HTTPException)) and type(one).__module__ in _STANDARD:
            text = f"{one!r} {one}"
            return None if redact(text, secrets) != text else bare(one)
    return None


_STANDARD = {"builtins", "socket", "ssl", "http.client", "asyncio.exceptions"}
