"""Connections, pools and bodies of urllib3, with what panto needs to know of them.

Law: one request is one `Exchange`, which knows how far it came; its body owns the socket until the body has ended or
the response was closed, whichever comes first; after that the socket is the pool's, and nobody else's close can touch
it.

urllib3 does connections, pools, proxies, TLS and content encodings. Three things are ours, through the hooks that
urllib3 and http.client offer (`ConnectionCls`, `response_class`, `putrequest`): a chunked body is taken apart as many
chunks at once as one `recv` brought, not one chunk a call (measured 2026-12: a fifth of the cost); the query of a URL
reaches the wire without passing urllib3's debug log; and the time limit for sending is `idle`, not `connect`.
"""

from __future__ import annotations

import base64
import http.client
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from panto.errors import ConfigError

from .http_chunked import Dechunker
from .http_faults import Phase, Way
from .http_route import Address

if TYPE_CHECKING:
    import ssl
    from io import BufferedReader

READ = 1 << 16
SEND = 1 << 16
HOSTS = 64  # pools kept, one for each host


class Exchange:
    """The body of one request as urllib3 sends it, and what became of the request."""

    __slots__ = ("body", "idle", "payload", "query", "reused", "way")

    def __init__(self, payload: bytes, query: str, idle: float | None, way: Way) -> None:
        self.payload = payload
        self.query: Callable[[], str] = lambda: query
        self.idle = idle
        self.way = way
        self.reused = False
        self.body: Body | None = None

    def __iter__(self) -> Iterator[memoryview]:
        view = memoryview(self.payload)
        for at in range(0, len(view), SEND):  # the time limit of a send is for one piece
            yield view[at : at + SEND]


class Body(http.client.HTTPResponse):
    """The head and body of an answer.

    `live` holds the socket while this answer owns it. Whoever pops it, the end of the body or a close, decides what
    becomes of the connection.
    """

    def __init__(self, sock: socket.socket, debuglevel: int = 0, method: str | None = None, url: str | None = None):
        super().__init__(sock, debuglevel, method, url)
        self.live = [sock]
        self._dechunker = Dechunker()

    def read1(self, n: int = -1) -> bytes:
        """What one `recv` brought, of all chunks in it."""
        file = cast("BufferedReader | None", self.fp)  # None once the body has ended
        if file is None or not self.chunked:
            return super().read1(n)
        while True:
            raw = file.read1(READ)
            if not raw:
                raise http.client.IncompleteRead(b"")
            data = self._dechunker.feed(raw)
            if self._dechunker.done:
                self._close_conn()
                return data
            if data:
                return data

    def _close_conn(self) -> None:
        # http.client calls this wherever a body ends; urllib3 returns the connection to its pool after it.
        if self.live:
            try:
                self.live.pop()
            except IndexError:
                pass  # a close on another thread was faster
        super()._close_conn()  # type: ignore[misc]


class _Facts:
    """What panto's connections add to urllib3's."""

    debuglevel = 0  # http.client prints request headers where a program sets its class-wide debuglevel
    _exchange: Exchange | None = None
    _requests = 0

    def connect(self) -> None:
        self._requests = 0
        super().connect()  # type: ignore[misc]

    def request(self, method: str, url: str, body: Any = None, headers: Any = None, **options: Any) -> None:
        connection = cast(HTTPConnection, self)
        if connection.sock is None:
            connection.connect()  # under the limit for connecting, which urllib3 has set
        if isinstance(body, Exchange):
            self._exchange = body
            body.reused, self._requests = self._requests > 0, self._requests + 1
            body.way.phase = Phase.HEADERS
            connection.timeout = body.idle
        super().request(method, url, body=body, headers=headers, **options)  # type: ignore[misc]

    def putrequest(self, method: str, url: str, **options: Any) -> None:
        query = self._exchange.query() if self._exchange is not None else ""
        super().putrequest(method, url + query, **options)  # type: ignore[misc]

    def response_class(self, sock: socket.socket, *args: Any, **options: Any) -> Body:
        body = Body(sock, *args, **options)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:  # else it answers a CONNECT
            exchange.body = body
        return body


class _Connection(_Facts, HTTPConnection):  # type: ignore[misc]
    pass


class _TLSConnection(_Facts, HTTPSConnection):  # type: ignore[misc]
    pass


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = cast(Any, _Connection)


class _TLSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = cast(Any, _TLSConnection)


def make_manager(proxy: Address | None, context: ssl.SSLContext | None, pool_size: int) -> urllib3.PoolManager:
    """The pools for one way: direct or through one proxy, with one set of trusted certificates."""
    options: dict[str, Any] = {"num_pools": HOSTS, "maxsize": pool_size}
    if context is not None:
        options["ssl_context"] = context
    if proxy is None:
        manager = urllib3.PoolManager(**options)
    elif proxy.scheme.startswith("socks"):
        return _socks_manager(proxy, options)
    else:
        headers = {} if proxy.basic is None else {"proxy-authorization": proxy.basic()}
        if proxy.scheme == "https":
            options["proxy_ssl_context"] = context
        manager = urllib3.ProxyManager(proxy.public, proxy_headers=headers, **options)
    cast(Any, manager).pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}
    return manager


def _socks_manager(proxy: Address, options: dict[str, Any]) -> urllib3.PoolManager:
    try:
        from urllib3.contrib import socks
    except ImportError:
        raise ConfigError(
            f"the proxy {proxy.scheme}://{proxy.shown} is a SOCKS proxy, which needs one more package; "
            "install it with: pip install 'panto[socks]'"
        ) from None

    class Connection(_Facts, socks.SOCKSConnection):  # type: ignore[misc]
        pass

    class TLSConnection(_Facts, socks.SOCKSHTTPSConnection):  # type: ignore[misc]
        pass

    class Pool(socks.SOCKSHTTPConnectionPool):
        ConnectionCls = cast(Any, Connection)

    class TLSPool(socks.SOCKSHTTPSConnectionPool):
        ConnectionCls = cast(Any, TLSConnection)

    user, _, password = ("", "", "")
    if proxy.basic is not None:
        user, _, password = base64.b64decode(proxy.basic()[6:]).decode().partition(":")
    manager = socks.SOCKSProxyManager(proxy.public, username=user or None, password=password or None, **options)
    cast(Any, manager).pool_classes_by_scheme = {"http": Pool, "https": TLSPool}
    return manager
