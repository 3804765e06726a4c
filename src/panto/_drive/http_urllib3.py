"""The sync transport, over urllib3.

Law: one request is one `_Exchange`, which knows how far it came and owns its socket until the body has ended or the
response was closed, whichever comes first; after that the socket is the pool's, and nobody else's close can touch it.

urllib3 does connections, pools, proxies, TLS and content encodings. Three things are ours, through the hooks that
urllib3 and http.client document (`ConnectionCls`, `response_class`, `putrequest`): a chunked body is taken apart as
many chunks at once as one `recv` brought, not one chunk a call (measured 2026-12: 0.5 us instead of 5 us a chunk);
the query of a URL reaches the wire without passing urllib3's debug log; and the time limit for sending is `idle`, not
`connect`.
"""

from __future__ import annotations

import http.client
import os
import socket
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import DecodeError, LocationParseError, NewConnectionError

from panto.config import Timeouts
from panto.errors import ConfigError, ErrorKind

from .http import Settings, TransportError
from .http_chunked import Dechunker
from .http_faults import Phase, Way, bare, closed, fault
from .http_route import Address, Trust, parse, proxy_for, secrets_of, tls_context, trust, trusted

if TYPE_CHECKING:
    from io import BufferedReader

    from .http import Response

READ = 1 << 16
SEND = 1 << 16
HOSTS = 64  # pools kept, one for each host


class _Exchange:
    """The body of one request as urllib3 sends it, and what became of the request."""

    __slots__ = ("body", "idle", "payload", "query", "reused", "way")

    def __init__(self, payload: bytes, query: str, idle: float | None, way: Way) -> None:
        self.payload = payload
        self.query: Callable[[], str] = lambda: query
        self.idle = idle
        self.way = way
        self.reused = False
        self.body: _Body | None = None

    def __iter__(self) -> Iterator[memoryview]:
        view = memoryview(self.payload)
        for at in range(0, len(view), SEND):  # the time limit of a send is for one piece
            yield view[at : at + SEND]


class _Body(http.client.HTTPResponse):
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
    _exchange: _Exchange | None = None
    _requests = 0

    def connect(self) -> None:
        self._requests = 0
        super().connect()  # type: ignore[misc]

    def request(self, method: str, url: str, body: Any = None, headers: Any = None, **options: Any) -> None:
        connection = cast(HTTPConnection, self)
        if connection.sock is None:
            connection.connect()  # under the limit for connecting, which urllib3 has set
        if isinstance(body, _Exchange):
            self._exchange = body
            body.reused, self._requests = self._requests > 0, self._requests + 1
            body.way.phase = Phase.HEADERS
            connection.timeout = body.idle
        super().request(method, url, body=body, headers=headers, **options)  # type: ignore[misc]

    def putrequest(self, method: str, url: str, **options: Any) -> None:
        query = self._exchange.query() if self._exchange is not None else ""
        super().putrequest(method, url + query, **options)  # type: ignore[misc]

    def response_class(self, sock: socket.socket, *args: Any, **options: Any) -> _Body:
        body = _Body(sock, *args, **options)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:  # else it answers a CONNECT
            exchange.body = body
        return body


class _Connection(_Facts, HTTPConnection):  # type: ignore[misc]
    pass


class _TLSConnection(_Facts, HTTPSConnection):  # type: ignore[misc]
    pass


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


class Urllib3Response:
    """One answer; see `Response`."""

    def __init__(self, raw: urllib3.BaseHTTPResponse, body: _Body, way: Way) -> None:
        self.status: int = raw.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in raw.headers.items()}
        self._raw = raw
        self._body = body
        self._way = way
        self._pid = os.getpid()
        self._closed = False
        self._reading = False

    def read(self) -> bytes:
        """As `Response.read`."""
        self._reading = True
        problem: BaseException | None = None
        try:
            if self._closed:
                raise closed(self._way)
            data = self._raw.read1(READ)
            if data or not self._gone():
                return data
            problem = closed(self._way)  # the close of another thread looks like the end of the body
        except Exception as error:
            problem = closed(self._way) if self._gone() else _fault(error, self._way)
            problem.__context__ = None
        except BaseException as error:
            problem = bare(error)
        finally:
            self._reading = False
            if self._gone():
                self._let_go()
        self.close()
        raise problem

    def _gone(self) -> bool:
        return self._closed  # another thread may have set it since the last look

    def close(self) -> None:
        """As `Response.close`."""
        self._closed = True
        if os.getpid() != self._pid:
            return  # a fork's copy: the connection is the parent's
        try:
            sock = self._body.live.pop()
        except IndexError:
            return  # the body has ended and the connection is back in its pool, or it was closed before
        if not self._reading and self._ended(sock):
            return
        try:
            # Wakes a read on another thread. Not SSLSocket.shutdown, which takes the TLS state away under that read.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        except OSError:
            pass
        if not self._reading:
            self._let_go()

    def _ended(self, sock: socket.socket) -> bool:
        """Whether the end of the body is here already, unread: then the connection can be used again."""
        try:
            sock.settimeout(0)
            self._raw.read1(READ)
        except Exception:
            return False
        return self._body.isclosed()

    def _let_go(self) -> None:
        try:
            self._raw.close()
        except Exception:
            pass

    def __del__(self) -> None:
        self.close()


def _fault(error: Exception, way: Way) -> TransportError:
    if isinstance(error, DecodeError):
        words = f"the compressed answer of {way.host} cannot be decoded"
        return fault(error, way, kind=ErrorKind.PROTOCOL, words=words)
    if isinstance(error, urllib3.exceptions.ProxyError) and way.phase is Phase.CONNECT:
        inner = error.original_error
        if not isinstance(inner, (urllib3.exceptions.SSLError, TimeoutError, urllib3.exceptions.TimeoutError)):
            words = f"the proxy {way.proxy.shown if way.proxy else ''} did not let the request through: {inner}"
            return fault(error, way, kind=ErrorKind.CONNECTION, words=words)
    if isinstance(error, NewConnectionError):  # which urllib3 has under its TimeoutError
        return fault(error, way, kind=ErrorKind.CONNECTION)
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return fault(error, way, kind=ErrorKind.TIMEOUT)
    garbled = (http.client.BadStatusLine, http.client.LineTooLong, http.client.UnknownProtocol, ValueError)
    inner_errors = [error, *error.args, error.__cause__, error.__context__]
    if any(isinstance(one, garbled) and not isinstance(one, ConnectionError) for one in inner_errors):
        return fault(error, way, kind=ErrorKind.PROTOCOL)
    return fault(error, way)


class Urllib3Transport:
    """See `Transport`. Safe over threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._managers: dict[tuple[Address | None, Trust | None], urllib3.PoolManager] = {}
        self._open: weakref.WeakSet[Urllib3Response] = weakref.WeakSet()

    def open(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> Response:
        """As `Transport.open`."""
        result: Urllib3Response | BaseException
        try:
            result = self._send(url, headers, body, timeouts)
        except BaseException as error:
            result = bare(error)
        # From here on this frame, which a traceback may show with its values, has no secret in it.
        del url, headers, body
        if isinstance(result, BaseException):
            raise result
        return result

    def _send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> Urllib3Response | TransportError:
        target = parse(url)
        proxy = proxy_for(target, self._settings.proxy)
        trusts = trust(self._settings.ca_bundle)
        manager = self._manager(target, proxy, trusts)
        way = Way(target, proxy, trusted(trusts), timeouts, secrets_of(headers, target, proxy))
        sent = {"accept-encoding": "identity", "user-agent": "panto"}
        sent |= {name.lower(): value for name, value in headers.items()}
        if target.basic is not None:
            sent.setdefault("authorization", target.basic())
        sent["content-length"] = str(len(body))
        query = target.query() if target.query is not None else ""
        limits = urllib3.Timeout(connect=timeouts.connect or None, read=timeouts.idle or None)
        while True:
            exchange = _Exchange(body, query, timeouts.idle or None, way)
            way.phase = Phase.CONNECT
            try:
                raw = manager.urlopen(
                    "POST",
                    target.public,
                    body=exchange,
                    headers=sent,
                    timeout=limits,
                    retries=False,
                    redirect=False,
                    preload_content=False,
                )
            except (LocationParseError, UnicodeError):
                raise ConfigError(f"the URL {target.public!r} cannot be called; check base_url") from None
            except Exception as error:
                if _stale(error, exchange):
                    continue  # a pooled connection that the server had closed; nothing of an answer came
                return _fault(error, way)
            break
        assert exchange.body is not None
        way.phase = Phase.BODY
        response = Urllib3Response(raw, exchange.body, way)
        self._open.add(response)
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", "") and any(
            part.strip() not in (*raw.CONTENT_DECODERS, "identity") for part in encoding.split(",")
        ):
            response.close()
            words = f"{way.host} compressed its answer with {encoding!r}, which was not asked for and cannot be read"
            return TransportError(ErrorKind.PROTOCOL, words, sent=True)
        return response

    def _manager(self, target: Address, proxy: Address | None, trusts: Trust) -> urllib3.PoolManager:
        tls = target.scheme == "https" or (proxy is not None and proxy.scheme == "https")
        key = (proxy, trusts if tls else None)
        found = self._managers.get(key)
        if found is not None:
            return found
        context = tls_context(trusts) if tls else None
        with self._lock:
            if key not in self._managers:
                options: dict[str, Any] = {"num_pools": HOSTS, "maxsize": self._settings.pool_size}
                if context is not None:
                    options["ssl_context"] = context
                self._managers[key] = _make_manager(proxy, options)
            return self._managers[key]

    def close(self) -> None:
        """As `Transport.close`; answers that are still read break off."""
        with self._lock:
            managers, self._managers = self._managers, {}
        for response in list(self._open):
            response.close()
        for manager in managers.values():
            manager.clear()


def _stale(error: Exception, exchange: _Exchange) -> bool:
    return (
        exchange.reused
        and (exchange.body is None or not isinstance(exchange.body.status, int))  # no status line has come
        and not isinstance(error, (urllib3.exceptions.TimeoutError, TimeoutError))
        and any(isinstance(one, ConnectionError) for one in [error, *error.args, error.__cause__])
    )


def _make_manager(proxy: Address | None, options: dict[str, Any]) -> urllib3.PoolManager:
    if proxy is None:
        manager = urllib3.PoolManager(**options)
    elif proxy.scheme.startswith("socks"):
        return _socks_manager(proxy, options)
    else:
        headers = {} if proxy.basic is None else {"proxy-authorization": proxy.basic()}
        if proxy.scheme == "https":
            options["proxy_ssl_context"] = options.get("ssl_context")
        manager = urllib3.ProxyManager(proxy.public, proxy_headers=headers, **options)
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}
    return manager


def _socks_manager(proxy: Address, options: dict[str, Any]) -> urllib3.PoolManager:
    try:
        from urllib3.contrib import socks
    except ImportError:
        raise ConfigError(
            f"the proxy {proxy.scheme}://{proxy.shown} is a SOCKS proxy, which needs one more package; "
            "install it with: pip install 'panto[socks]'"
        ) from None
    import base64

    class Connection(_Facts, socks.SOCKSConnection):  # type: ignore[misc]
        pass

    class TLSConnection(_Facts, socks.SOCKSHTTPSConnection):  # type: ignore[misc]
        pass

    class Pool(socks.SOCKSHTTPConnectionPool):
        ConnectionCls = Connection

    class TLSPool(socks.SOCKSHTTPSConnectionPool):
        ConnectionCls = TLSConnection

    user, _, password = ("", "", "")
    if proxy.basic is not None:
        user, _, password = base64.b64decode(proxy.basic()[6:]).decode().partition(":")
    manager = socks.SOCKSProxyManager(proxy.public, username=user or None, password=password or None, **options)
    manager.pool_classes_by_scheme = {"http": Pool, "https": TLSPool}
    return manager
