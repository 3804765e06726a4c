"""The transport: open a POST, read what came, close; and the process-wide one that panto uses by itself.

Law: importing this file loads no HTTP library. Each is imported at the first request that needs it, lives in one
implementation file (`http_urllib3`, `http_aiohttp`, `http_httpx2`), and none of its classes leaves that file: what
goes wrong is a `TransportError`, whose text and whose cause hold no secret.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from panto._secret import Secret, veiled
from panto.config import Timeouts
from panto.errors import ConfigError, ErrorKind, StateError

if TYPE_CHECKING:
    import asyncio

    from .http_aiohttp import AioTransport
    from .http_urllib3 import Urllib3Transport

__all__ = [
    "AsyncResponse",
    "AsyncTransport",
    "Response",
    "Transport",
    "TransportError",
    "acquire_async",
    "as_async_transport",
    "as_transport",
    "deinit",
    "init",
    "reach_directly",
    "release_async",
    "resolve_timeouts",
    "sync_transport",
]

DEFAULT_POOL_SIZE = 32


class TransportError(Exception):
    """A request that got no answer, or an answer that broke off.

    Attributes:
        kind: `connection`, `timeout`, `certificate` or `protocol`.
        message: What happened, in words for the user; names the host, holds no secret.
        sent: Whether the provider may have seen the request. `False` is certain, `True` is not.
    """

    def __init__(self, kind: ErrorKind, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.sent = sent


class Response(Protocol):
    """An answer whose head has come and whose body is still coming."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names in lower case, repeated ones joined with `", "`."""
        ...

    def read(self) -> bytes:
        """What has come, as soon as there is anything; waits only when there is nothing; `b""` at the end.

        Raises:
            TransportError: The connection broke, was closed, or was silent for longer than `Timeouts.idle`.
        """
        ...

    def close(self) -> None:
        """Let go of the answer at once; what has not come is not waited for.

        May be called twice, from another thread (a `read` waiting there ends) and from a finaliser.
        """
        ...


@runtime_checkable
class Transport(Protocol):
    """The way to a provider, for `Agent(transport=...)`. Bring your own by these two methods.

    >>> class Logged:
    ...     def __init__(self, inner: Transport) -> None:
    ...         self.inner = inner
    ...
    ...     def open(self, url, headers, body, timeouts):
    ...         print(len(body), "bytes go out")
    ...         return self.inner.open(url, headers, body, timeouts)
    ...
    ...     def close(self) -> None:
    ...         self.inner.close()
    """

    def open(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> Response:
        """POST `body` to `url` and wait for the head of the answer, whatever its status.

        `url` and `headers` may hold keys: they go on the wire and nowhere else. Redirects are not followed.

        Raises:
            TransportError: There is no answer.
            ConfigError: What the caller set up (a proxy, a CA file) cannot work; nothing was sent.
        """
        ...

    def close(self) -> None:
        """Close every connection. panto never closes a transport that it was given."""
        ...


class AsyncResponse(Protocol):
    """`Response` for asyncio: `read` is awaited, `close` is not, so that a finaliser can call it."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names in lower case, repeated ones joined with `", "`."""
        ...

    async def read(self) -> bytes:
        """What has come, as soon as there is anything; `b""` at the end. Raises as `Response.read` does."""
        ...

    def close(self) -> None:
        """Let go of the answer at once. May be called twice, from another thread and from a finaliser."""
        ...


@runtime_checkable
class AsyncTransport(Protocol):
    """`Transport` for asyncio, for `AsyncAgent(transport=...)`."""

    async def open(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> AsyncResponse:
        """As `Transport.open`."""
        ...

    async def aclose(self) -> None:
        """Close every connection. panto never closes a transport that it was given."""
        ...


# ---------------------------------------------------------------- the settings


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `init` sets; its repr hides a proxy's user and password."""

    proxy: str | Secret | None = None
    ca_bundle: str | None = None
    timeouts: Timeouts = Timeouts()
    pool_size: int = DEFAULT_POOL_SIZE

    def __post_init__(self) -> None:
        if isinstance(self.proxy, str):
            msgspec.structs.force_setattr(self, "proxy", Secret(self.proxy))

    def proxy_url(self) -> str | None:
        """The proxy, user and password in it, for the transports alone."""
        return self.proxy() if isinstance(self.proxy, Secret) else None

    def __repr__(self) -> str:
        return f"Settings(ca_bundle={self.ca_bundle!r}, timeouts={self.timeouts!r}, pool_size={self.pool_size!r})"


class _Process:
    """What this process shares; a fork starts with a fresh one."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.settings = Settings()
        self.sync: Urllib3Transport | None = None
        self.loops: dict[asyncio.AbstractEventLoop, AioTransport] = {}

    @property
    def used(self) -> bool:
        return self.sync is not None or any(not loop.is_closed() for loop in self.loops)


_process = _Process()
_inherited: list[_Process] = []  # what a fork copied: kept for ever, since closing it would reach into the parent


def _after_fork() -> None:
    global _process
    parent = _process
    _inherited.append(parent)
    _process = _Process()
    _process.settings = parent.settings


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)


@veiled
def init(
    *,
    proxy: str | None = None,
    ca_bundle: str | os.PathLike[str] | None = None,
    timeouts: Timeouts | None = None,
    pool_size: int | None = None,
) -> None:
    """Set how this process reaches providers. Optional: without it, the environment decides.

    Calling it again with the same values does nothing. Safe over threads; a forked process keeps the settings and
    makes its own connections.

    Args:
        proxy: URL of the proxy for all requests but those that `NO_PROXY` exempts (`http://`, `https://`, `socks5://`,
            `socks5h://`; user and password may be in it). `""` is no proxy at all. `None` follows `HTTPS_PROXY`,
            `HTTP_PROXY` and `ALL_PROXY`.
        ca_bundle: A PEM file of certificate authorities, or a directory of them as OpenSSL's `rehash` makes it, to
            trust in place of the operating system's. `None` follows `SSL_CERT_FILE` and `SSL_CERT_DIR`, then the
            operating system.
        timeouts: For providers whose config has none of its own.
        pool_size: Idle connections kept for reuse, for each host; never a limit on those in use. Default 32.

    Raises:
        ConfigError: A value that cannot work, such as a CA file that does not exist.
        StateError: A request was made already, with other settings. Call `deinit` first.

    >>> deinit()
    >>> init(timeouts=Timeouts(connect=5, idle=120))
    >>> deinit()
    """
    from .http_route import check_ca_bundle, check_proxy

    if proxy is not None:
        check_proxy(proxy)
    bundle = None if ca_bundle is None else check_ca_bundle(os.fspath(ca_bundle))
    if pool_size is not None and pool_size < 1:
        raise ConfigError(f"pool_size must be at least 1, not {pool_size!r}")
    settings = Settings(
        proxy=proxy,
        ca_bundle=bundle,
        timeouts=Timeouts() if timeouts is None else timeouts,
        pool_size=DEFAULT_POOL_SIZE if pool_size is None else pool_size,
    )
    process = _process
    with process.lock:
        if settings != process.settings and process.used:
            raise StateError(
                "panto.init came after the first request, which already made connections with other settings; "
                "call panto.init at the start of the program, or panto.deinit() before it"
            )
        process.settings = settings


def deinit() -> None:
    """Close every connection that panto opened by itself and forget what `init` set.

    Idempotent, and called at exit. panto can be used afterwards; it then opens new connections.
    """
    process = _process
    with process.lock:
        sync, process.sync = process.sync, None
        loops, process.loops = process.loops, {}
        process.settings = Settings()
    if sync is not None:
        sync.close()
    for transport in loops.values():
        transport.shut()


atexit.register(deinit)


def resolve_timeouts(own: Timeouts | None) -> Timeouts:
    """A provider's own timeouts, or else those of `init`."""
    return _process.settings.timeouts if own is None else own


def reach_directly(url: str) -> None:
    """Never use a proxy for the host and port of `url`: a server that this process started itself."""
    from .http_route import direct, parse

    direct.add(parse(url).netloc)


# ---------------------------------------------------------------- the process-wide transports


def sync_transport() -> Transport:
    """The transport of this process, made on first use. Ask anew for each request: a `deinit` may come between."""
    process = _process
    found = process.sync
    if found is not None:
        return found
    from .http_urllib3 import Urllib3Transport

    with process.lock:
        if process.sync is None:
            process.sync = Urllib3Transport(process.settings)
        return process.sync


def acquire_async() -> AsyncTransport:
    """The transport of the running event loop; `release_async` once for each call.

    When the last holder has released it, or the loop ends, its connections are closed.
    """
    import asyncio

    from .http_aiohttp import AioTransport

    process, loop = _process, asyncio.get_running_loop()
    with process.lock:
        for ended in [known for known in process.loops if known.is_closed()]:
            process.loops.pop(ended).shut()
        transport = process.loops.get(loop)
        if transport is None:
            transport = process.loops[loop] = AioTransport(process.settings)
        transport.holders += 1
        return transport


async def release_async(transport: AsyncTransport) -> None:
    """Give back what `acquire_async` gave, also after a `deinit`. The last holder closes it."""
    from .http_aiohttp import AioTransport

    if not isinstance(transport, AioTransport):
        return
    process = _process
    with process.lock:
        transport.holders -= 1
        if transport.holders > 0:
            return
        for loop in [loop for loop, known in process.loops.items() if known is transport]:
            del process.loops[loop]
    await transport.aclose()


# ---------------------------------------------------------------- the caller's own


def as_transport(given: object) -> Transport:
    """What a caller passed as `Agent(transport=...)`, as a `Transport`.

    Accepted: a `Transport`, an `httpx2.Client`, or an object whose `for_sync()` returns a `Transport`.
    """
    offer = getattr(given, "for_sync", None)
    if callable(offer):
        given = offer()
    if _is_httpx2(given, "Client"):
        from .http_httpx2 import Httpx2Transport

        return Httpx2Transport(given)
    if isinstance(given, Transport) and not _is_async(given.open):
        return given
    raise _not_accepted(given, "Agent", "an httpx2.Client", "open(url, headers, body, timeouts) and close()")


def as_async_transport(given: object) -> AsyncTransport:
    """What a caller passed as `AsyncAgent(transport=...)`, as an `AsyncTransport`.

    Accepted: an `AsyncTransport`, an `httpx2.AsyncClient`, or an object whose `for_async()` returns an
    `AsyncTransport`.
    """
    offer = getattr(given, "for_async", None)
    if callable(offer):
        given = offer()
    if _is_httpx2(given, "AsyncClient"):
        from .http_httpx2 import AsyncHttpx2Transport

        return AsyncHttpx2Transport(given)
    if isinstance(given, AsyncTransport) and _is_async(given.open):
        return given
    raise _not_accepted(
        given, "AsyncAgent", "an httpx2.AsyncClient", "async open(url, headers, body, timeouts) and async aclose()"
    )


def _is_async(function: object) -> bool:
    import inspect

    return inspect.iscoroutinefunction(function)


def _is_httpx2(given: object, name: str) -> bool:
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == "httpx2" for kind in type(given).__mro__)


def _not_accepted(given: object, agent: str, client: str, methods: str) -> ConfigError:
    kind = type(given)
    return ConfigError(
        f"transport= of {agent} takes {client} or a transport (an object with {methods}), "
        f"not {kind.__module__}.{kind.__qualname__}"
    )
