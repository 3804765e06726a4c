"""The async transport, over aiohttp.

Law: it belongs to one event loop and ends with it. An open asynchronous generator of that loop holds the session, so
that `asyncio.run` and every runner that ends its loop properly closes the connections, whoever forgot to.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import io
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any

import aiohttp
import yarl
from aiohttp import ClientResponse, TCPConnector
from aiohttp.http_exceptions import ContentEncodingError, HttpProcessingError, TransferEncodingError

from panto.config import Timeouts
from panto.errors import ConfigError, ErrorKind

from .http import Settings, TransportError
from .http_faults import Phase, Way, bare, closed, fault, inside
from .http_route import Address, keep_alive, parse, proxy_for, secrets_of, tls_context, trust, trusted

if TYPE_CHECKING:
    from .http import AsyncResponse

BUFFER = 1 << 18
SHUT = 2.0  # seconds that deinit waits for the loop of another thread
_ENCODINGS = {"", "identity", "gzip", "x-gzip", "deflate"}


class _Connector(TCPConnector):
    """No limit on connections in use, one on those kept idle."""

    def __init__(self, keep: int, **options: Any) -> None:
        super().__init__(limit=0, **options)
        self._keep = keep

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        # aiohttp has no limit of its own for idle connections; were this hook to go, they would end after 15 s.
        full = len(self._conns.get(key, ())) >= self._keep
        super()._release(key, protocol, should_close=should_close or full)


class _Facts:
    """What the trace hooks told of one request."""

    __slots__ = ("reused", "way")

    def __init__(self, way: Way) -> None:
        self.way = way
        self.reused = False


async def _on_reuse(session: object, context: Any, params: object) -> None:
    context.trace_request_ctx.reused = True
    context.trace_request_ctx.way.phase = Phase.HEADERS


async def _on_create(session: object, context: Any, params: object) -> None:
    context.trace_request_ctx.way.phase = Phase.HEADERS


class AioResponse:
    """One answer; see `AsyncResponse`."""

    def __init__(self, raw: ClientResponse, way: Way, loop: asyncio.AbstractEventLoop) -> None:
        self.status: int = raw.status
        joined: dict[str, str] = {}
        for name, value in raw.headers.items():
            low = name.lower()
            joined[low] = f"{joined[low]}, {value}" if low in joined else value
        self.headers: Mapping[str, str] = joined
        self._shut: Callable[[], None] = lambda: raw.close()  # a closure: the repr of `raw` shows the query
        self._content = raw.content
        self._resume = _resume_once(raw)
        self._way = way
        self._loop = loop
        self._thread = threading.get_ident()
        self._pid = os.getpid()
        self._closed = False
        self._late: BaseException | None = None

    async def read(self) -> bytes:
        """As `AsyncResponse.read`."""
        problem: BaseException
        if self._closed:
            raise closed(self._way)
        if self._late is None:
            try:
                data = await self._content.readany()
                if self._resume is not None:
                    self._resume()
                if data or not self._gone():
                    return data
                problem = closed(self._way)
            except Exception as error:
                problem = closed(self._way) if self._gone() else _fault(error, self._way)
                problem.__context__ = None
                # aiohttp would drop what came before the failure and was not read yet.
                if not self._gone() and (data := _leftover(self._content)):
                    self._late = problem
                    return data
            except BaseException as error:
                problem = bare(error)
        else:
            problem, self._late = self._late, None
        self.close()
        raise problem

    def _gone(self) -> bool:
        return self._closed  # a close may have come while `read` waited

    def close(self) -> None:
        """As `AsyncResponse.close`."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._pid or self._loop.is_closed():
            return
        if threading.get_ident() == self._thread:
            self._shut()
        else:
            try:
                self._loop.call_soon_threadsafe(self._shut)
            except RuntimeError:
                pass  # the loop has ended meanwhile, and its connections with it

    def __del__(self) -> None:
        self.close()


def _resume_once(raw: ClientResponse) -> Callable[[], None] | None:
    """What lets the socket be read on after a read, or `None` where aiohttp does that.

    aiohttp asks its protocol to go on after every HTTP chunk that it takes from its buffer, each time through the
    parser (3.14: 1 us a chunk, as much as all else of a read). With a low-water mark of 0 it does not ask; once a read
    is enough.
    """
    connection, content = raw.connection, raw.content
    if connection is None or connection.protocol is None or not hasattr(content, "_low_water"):
        return None
    content._low_water = 0
    protocol = connection.protocol

    def resume() -> None:
        if raw.connection is not None:  # else the body has ended and the connection may serve another request
            protocol.resume_reading()

    return resume


def _leftover(content: aiohttp.StreamReader) -> bytes:
    content.set_exception(None)  # type: ignore[arg-type]  # it must be gone for the rest to be readable
    try:
        return content.read_nowait(-1)
    except Exception:
        return b""


def _fault(error: Exception, way: Way) -> TransportError:
    match error:
        case aiohttp.ClientHttpProxyError():
            words = f"the proxy {way.proxy.shown if way.proxy else ''} did not let the request through: "
            words += f"{error.status} {error.message}"
            return fault(error, way, kind=ErrorKind.CONNECTION, words=words)
        case aiohttp.ConnectionTimeoutError():
            way.phase = Phase.CONNECT
            return fault(error, way, kind=ErrorKind.TIMEOUT)
        case aiohttp.ClientPayloadError() if _wraps(error, ContentEncodingError):
            words = f"the compressed answer of {way.host} cannot be decoded"
            return fault(error, way, kind=ErrorKind.PROTOCOL, words=words)
        case aiohttp.ClientPayloadError() if _wraps(error, TransferEncodingError):
            cut = "Not enough data" in str(error)
            return fault(error, way, kind=ErrorKind.CONNECTION if cut else ErrorKind.PROTOCOL)
        case aiohttp.ClientResponseError() | HttpProcessingError():
            return fault(error, way, kind=ErrorKind.PROTOCOL)
        case _:
            return fault(error, way)


def _unanswered(error: Exception) -> bool:
    """Whether a connection ended before a byte of the answer came."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)  # else it is the part of a head that came
    return isinstance(error, aiohttp.ClientOSError) and not isinstance(error, aiohttp.ClientConnectorError)


def _wraps(error: BaseException, kind: type[BaseException]) -> bool:
    return any(isinstance(one, kind) for one in inside(error))


class AioTransport:
    """See `AsyncTransport`. Made in the loop it belongs to."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self.holders = 0  # agents that use it; kept by acquire_async and release_async
        self._sessions: dict[Address | None, aiohttp.ClientSession] = {}
        self._keeper: AsyncGenerator[None, None] | None = None

    async def open(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> AsyncResponse:
        """As `AsyncTransport.open`."""
        result: AioResponse | BaseException
        try:
            result = await self._send(url, headers, body, timeouts)
        except BaseException as error:
            result = bare(error)
        # From here on this frame, which a traceback may show with its values, has no secret in it.
        del url, headers, body
        if isinstance(result, BaseException):
            raise result
        return result

    async def _send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AioResponse | TransportError:
        target = parse(url)
        proxy = proxy_for(target, self._settings.proxy_url())
        trusts = trust(self._settings.ca_bundle)
        session = await self._session(proxy)
        way = Way(target, proxy, trusted(trusts), timeouts, secrets_of(headers, target, proxy))
        sent = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "panto"}
        sent |= {name.lower(): value for name, value in headers.items()}
        if target.basic is not None:
            sent.setdefault("authorization", target.basic())
        options: dict[str, Any] = {}
        if proxy is not None and not proxy.scheme.startswith("socks"):
            options["proxy"] = yarl.URL(proxy.public, encoded=True)
            if proxy.basic is not None:  # a tunnel hides the request, and its headers, from the proxy
                told = options.setdefault("proxy_headers", {}) if target.scheme == "https" else sent
                told["proxy-authorization"] = proxy.basic()
        if target.scheme == "https" or (proxy is not None and proxy.scheme == "https"):
            options["ssl"] = tls_context(trusts)
        limits = aiohttp.ClientTimeout(
            total=None,
            connect=timeouts.connect or None,
            sock_connect=timeouts.connect or None,
            sock_read=timeouts.idle or None,
        )
        whole = yarl.URL(target.public + (target.query() if target.query is not None else ""), encoded=True)
        while True:
            facts = _Facts(way)
            way.phase = Phase.CONNECT
            try:
                raw = await session.request(
                    "POST",
                    whole,
                    data=body if len(body) < BUFFER else io.BytesIO(body),  # written piece by piece
                    headers=sent,
                    timeout=limits,
                    allow_redirects=False,
                    trace_request_ctx=facts,
                    **options,
                )
            except aiohttp.InvalidURL:
                raise ConfigError(f"the URL {target.public!r} cannot be called; check base_url") from None
            except Exception as error:
                if facts.reused and _unanswered(error):
                    continue  # a pooled connection that the server had closed; nothing of an answer came
                return _fault(error, way)
            break
        way.phase = Phase.BODY
        connection = raw.connection
        if connection is not None and connection.transport is not None:
            keep_alive(connection.transport.get_extra_info("socket"))
        response = AioResponse(raw, way, self._loop)
        encoding = response.headers.get("content-encoding", "").lower().strip()
        if encoding not in _ENCODINGS:
            response.close()
            words = f"{way.host} compressed its answer with {encoding!r}, which was not asked for and cannot be read"
            return TransportError(ErrorKind.PROTOCOL, words, sent=True)
        return response

    async def _session(self, proxy: Address | None) -> aiohttp.ClientSession:
        key = proxy if proxy is not None and proxy.scheme.startswith("socks") else None
        found = self._sessions.get(key)
        if found is not None:
            return found
        if self._keeper is None:
            self._keeper = self._until_the_loop_ends()
            await anext(self._keeper)
        keep = self._settings.pool_size
        connector = _Connector(keep) if key is None else _socks_connector(key)
        traces = aiohttp.TraceConfig()
        traces.on_connection_reuseconn.append(_on_reuse)
        traces.on_connection_create_end.append(_on_create)
        session = self._sessions[key] = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            read_bufsize=BUFFER,
            trace_configs=[traces],
        )
        return session

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self._close_all()

    async def aclose(self) -> None:
        """As `AsyncTransport.aclose`."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await keeper.aclose()

    async def _close_all(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    def shut(self) -> None:
        """Close from outside of coroutines: from another thread, or with the loop at rest or at its end."""
        if self._loop.is_closed():
            self._sessions = {}
        elif not self._loop.is_running():
            try:
                self._loop.run_until_complete(self.aclose())
            except RuntimeError:
                pass  # this thread runs another loop; ours closes its connections when it ends
        elif asyncio._get_running_loop() is self._loop:
            self._closing = self._loop.create_task(self.aclose())
        else:
            done = asyncio.run_coroutine_threadsafe(self.aclose(), self._loop)
            try:
                done.result(SHUT)
            except TimeoutError:
                pass  # that loop is held up; it closes them as soon as it can


def _socks_connector(proxy: Address) -> aiohttp.BaseConnector:
    try:
        socks = importlib.import_module("aiohttp_socks")
    except ImportError:
        raise ConfigError(
            f"the proxy {proxy.scheme}://{proxy.shown} is a SOCKS proxy, which needs one more package; "
            "install it with: pip install 'panto[socks]'"
        ) from None
    user, _, password = ("", "", "")
    if proxy.basic is not None:
        user, _, password = base64.b64decode(proxy.basic()[6:]).decode().partition(":")
    connector: aiohttp.BaseConnector = socks.ProxyConnector(
        proxy_type=socks.ProxyType.SOCKS5,
        host=proxy.host,
        port=proxy.port,
        username=user or None,
        password=password or None,
        rdns=proxy.scheme == "socks5h",
        limit=0,
    )
    return connector
