"""The sync transport, over urllib3.

Law: no secret stays in a frame that raises; a response is let go of at once and from anywhere; what urllib3 says of a
failure stays inside this file.
"""

from __future__ import annotations

import http.client
import os
import socket
import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

import urllib3
from urllib3.exceptions import DecodeError, LocationParseError, NewConnectionError

from panto.config import Timeouts
from panto.errors import ConfigError, ErrorKind

from .http import Settings, TransportError
from .http_faults import Phase, Way, bare, closed, fault, inside
from .http_route import Address, Trust, keep_alive, parse, proxy_for, secrets_of, tls_context, trust, trusted
from .http_urllib3_pool import READ, Body, Exchange, make_manager

if TYPE_CHECKING:
    from .http import Response


class Urllib3Response:
    """One answer; see `Response`."""

    def __init__(self, raw: urllib3.BaseHTTPResponse, body: Body, way: Way) -> None:
        self.status: int = raw.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in raw.headers.itermerged()}
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


_GARBLED = (http.client.BadStatusLine, http.client.LineTooLong, http.client.UnknownProtocol, ValueError)


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
    if any(isinstance(one, _GARBLED) and not isinstance(one, OSError) for one in inside(error)):
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
        proxy = proxy_for(target, self._settings.proxy_url())
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
            exchange = Exchange(body, query, timeouts.idle or None, way)
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
        for sock in exchange.body.live:
            keep_alive(sock)
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
                self._managers[key] = make_manager(proxy, context, self._settings.pool_size)
            return self._managers[key]

    def close(self) -> None:
        """As `Transport.close`; answers that are still read break off."""
        with self._lock:
            managers, self._managers = self._managers, {}
        for response in list(self._open):
            response.close()
        for manager in managers.values():
            manager.clear()


def _stale(error: Exception, exchange: Exchange) -> bool:
    return (
        exchange.reused
        and (exchange.body is None or not isinstance(exchange.body.status, int))  # no status line has come
        and not isinstance(error, (urllib3.exceptions.TimeoutError, TimeoutError))
        and any(isinstance(one, ConnectionError) for one in [error, *error.args, error.__cause__])
    )
