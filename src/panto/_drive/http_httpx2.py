"""The transports over a caller's own `httpx2` client.

Law: the client stays the caller's. panto opens requests on it, with panto's time limits and without following
redirects, closes its own responses, and never the client.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import httpx2

from panto.config import Timeouts
from panto.errors import ConfigError, ErrorKind

from .http import TransportError
from .http_faults import Phase, Way, bare, closed, fault
from .http_route import parse, secrets_of

if TYPE_CHECKING:
    from .http import AsyncResponse, Response

TRUSTED = "whom your httpx2 client trusts"


def _request(
    client: httpx2.Client | httpx2.AsyncClient, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
) -> tuple[httpx2.Request, Way]:
    """The request, its query hidden from httpx2's log of URLs, and the way it goes."""
    target = parse(url)
    way = Way(target, None, TRUSTED, timeouts, secrets_of(headers, target))
    sent = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "panto"}
    sent |= {name.lower(): value for name, value in headers.items()}
    if target.basic is not None:
        sent.setdefault("authorization", target.basic())
    idle = timeouts.idle or None
    extensions: dict[str, Any] = {}
    try:
        public = httpx2.URL(target.public)
        if target.query is not None:
            extensions["target"] = public.raw_path + target.query().encode("ascii")
        limits = httpx2.Timeout(connect=timeouts.connect or None, read=idle, write=idle, pool=None)
        made = client.build_request("POST", public, headers=sent, content=body, timeout=limits, extensions=extensions)
    except (httpx2.InvalidURL, UnicodeError):
        raise ConfigError(f"the URL {target.public!r} cannot be called; check base_url") from None
    return made, way


def _fault(error: Exception, way: Way) -> TransportError:
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout() | httpx2.ConnectError() | httpx2.ProxyError():
            way.phase = Phase.CONNECT
        case httpx2.HTTPError() if way.phase is Phase.CONNECT:
            way.phase = Phase.HEADERS
        case _:
            pass
    match error:
        case httpx2.ProxyError():
            words = f"the proxy of your httpx2 client did not let the request to {way.host} through: {error}"
            return fault(error, way, kind=ErrorKind.CONNECTION, words=words)
        case httpx2.TimeoutException():
            return fault(error, way, kind=ErrorKind.TIMEOUT)
        case httpx2.DecodingError():
            words = f"the compressed answer of {way.host} cannot be decoded"
            return fault(error, way, kind=ErrorKind.PROTOCOL, words=words)
        case httpx2.RemoteProtocolError() if not _cut(error):
            return fault(error, way, kind=ErrorKind.PROTOCOL)
        case _:
            return fault(error, way)


def _cut(error: Exception) -> bool:
    """Whether a protocol error is a connection that ended too early, in h11's words."""
    return any(words in str(error) for words in ("peer closed", "disconnected", "incomplete"))


class Httpx2Response:
    """One answer; see `Response`."""

    def __init__(self, raw: httpx2.Response, way: Way) -> None:
        self.status: int = raw.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in raw.headers.items()}
        self._raw = raw
        self._parts: Iterator[bytes] = raw.iter_bytes()
        self._way = way
        self._pid = os.getpid()
        self._closed = False
        self._reading = False

    def read(self) -> bytes:
        """As `Response.read`."""
        if self._closed:
            raise closed(self._way)
        problem: BaseException
        self._reading = True
        try:
            for part in self._parts:
                if part:
                    return part
            if not self._gone():
                return b""
            problem = closed(self._way)
        except Exception as error:
            problem = closed(self._way) if self._gone() else _fault(error, self._way)
            problem.__context__ = None
        except BaseException as error:
            problem = bare(error)
        finally:
            self._reading = False
        self._closed = True
        self._let_go()
        raise problem

    def _gone(self) -> bool:
        return self._closed  # another thread may have set it since the last look

    def close(self) -> None:
        """As `Response.close`."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._pid:
            return
        if not self._reading:
            self._let_go()
            return
        stream = self._raw.extensions.get("network_stream")
        sock = stream.get_extra_info("socket") if stream is not None else None
        if isinstance(sock, socket.socket) and not self._raw.is_closed:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # wakes the read, which then closes
            except OSError:
                pass

    def _let_go(self) -> None:
        try:
            self._raw.close()
        except Exception:
            pass

    def __del__(self) -> None:
        self.close()


class Httpx2Transport:
    """A caller's `httpx2.Client`; see `Transport`."""

    def __init__(self, client: object) -> None:
        assert isinstance(client, httpx2.Client)
        self._client = client

    def open(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> Response:
        """As `Transport.open`."""
        result: Httpx2Response | BaseException
        try:
            result = self._send(url, headers, body, timeouts)
        except BaseException as error:
            result = bare(error)
        del url, headers, body
        if isinstance(result, BaseException):
            raise result
        return result

    def _send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> Httpx2Response | TransportError:
        request, way = _request(self._client, url, headers, body, timeouts)
        try:
            raw = self._client.send(request, stream=True, follow_redirects=False)
        except Exception as error:
            return _fault(error, way)
        way.phase = Phase.BODY
        return Httpx2Response(raw, way)

    def close(self) -> None:
        """Does nothing: the client is the caller's."""


class AsyncHttpx2Response:
    """One answer; see `AsyncResponse`."""

    def __init__(self, raw: httpx2.Response, way: Way) -> None:
        self.status: int = raw.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in raw.headers.items()}
        self._raw = raw
        self._parts: AsyncIterator[bytes] = raw.aiter_bytes()
        self._way = way
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._pid = os.getpid()
        self._closed = False
        self._reading = False
        self._closing: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        """As `AsyncResponse.read`."""
        if self._closed:
            raise closed(self._way)
        problem: BaseException
        self._reading = True
        try:
            async for part in self._parts:
                if part:
                    return part
            if not self._gone():
                return b""
            problem = closed(self._way)
        except Exception as error:
            problem = closed(self._way) if self._gone() else _fault(error, self._way)
            problem.__context__ = None
        except BaseException as error:
            problem = bare(error)
        finally:
            self._reading = False
        self._closed = True
        self._let_go()
        raise problem

    def _gone(self) -> bool:
        return self._closed  # a close may have come while `read` waited

    def close(self) -> None:
        """As `AsyncResponse.close`; the client does it in a task of the loop."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._pid or self._loop.is_closed():
            return
        if threading.get_ident() == self._thread:
            self._let_go()
        else:
            try:
                self._loop.call_soon_threadsafe(self._let_go)
            except RuntimeError:
                pass  # the loop has ended meanwhile

    def _let_go(self) -> None:
        if self._loop.is_running():
            self._closing = self._loop.create_task(_aclose(self._raw))

    def __del__(self) -> None:
        self.close()


async def _aclose(raw: httpx2.Response) -> None:
    try:
        await raw.aclose()
    except Exception:
        pass


class AsyncHttpx2Transport:
    """A caller's `httpx2.AsyncClient`; see `AsyncTransport`."""

    def __init__(self, client: object) -> None:
        assert isinstance(client, httpx2.AsyncClient)
        self._client = client

    async def open(self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> AsyncResponse:
        """As `AsyncTransport.open`."""
        result: AsyncHttpx2Response | BaseException
        try:
            result = await self._send(url, headers, body, timeouts)
        except BaseException as error:
            result = bare(error)
        del url, headers, body
        if isinstance(result, BaseException):
            raise result
        return result

    async def _send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncHttpx2Response | TransportError:
        request, way = _request(self._client, url, headers, body, timeouts)
        try:
            raw = await self._client.send(request, stream=True, follow_redirects=False)
        except Exception as error:
            return _fault(error, way)
        way.phase = Phase.BODY
        return AsyncHttpx2Response(raw, way)

    async def aclose(self) -> None:
        """Does nothing: the client is the caller's."""
