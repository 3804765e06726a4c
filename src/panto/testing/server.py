"""A scripted provider as a real HTTP server on loopback: chunked answers, real time, connections that really break.

Law: what a step says happens on the wire. What cannot be done to a client that is already connected (`refused`,
`certificate`) is a broken connection here.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Literal, overload

import msgspec

from panto._drive.http import reach_directly
from panto.config import AnthropicMessagesConfig, APIStyle, OpenAIChatConfig, ProviderConfig

from ._frames import Reply
from .requests import RecordedRequest
from .script import Drop, Waited

if TYPE_CHECKING:
    from typing import Self

    from .scripted import ScriptedProvider

LINGER_NONE = struct.pack("ii", 1, 0)
"""Closing a socket that has this option resets the connection."""


class ScriptedServer:
    """The server behind `ScriptedProvider.serve()`; runs while its `with` block does.

    url: where it listens, such as `http://127.0.0.1:50123`. No proxy of the environment is used to reach it.

    A request beyond the script gets a status 400 that says so, and is told again by `provider.done()`, which the end
    of the block calls unless it is left by an exception.
    """

    def __init__(self, provider: ScriptedProvider) -> None:
        self.provider = provider
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        """Where the server listens."""
        if self._server is None:
            raise RuntimeError("the server runs inside of `with provider.serve() as server:`")
        return f"http://127.0.0.1:{self._server.server_port}"

    @overload
    def config(self) -> OpenAIChatConfig: ...
    @overload
    def config(
        self, api_style: Literal[APIStyle.OPENAI_CHAT, "openai_chat"], **options: object
    ) -> OpenAIChatConfig: ...
    @overload
    def config(
        self, api_style: Literal[APIStyle.ANTHROPIC_MESSAGES, "anthropic_messages"], **options: object
    ) -> AnthropicMessagesConfig: ...
    @overload
    def config(self, api_style: APIStyle | str = ..., **options: object) -> ProviderConfig: ...
    def config(self, api_style: APIStyle | str = APIStyle.OPENAI_CHAT, **options: object) -> ProviderConfig:
        """A provider config that leads here; `options` are fields of it."""
        from .scripted import config

        return config(self.url, api_style, options)

    def __enter__(self) -> Self:
        self._server = server = _Server(("127.0.0.1", 0), _Handler)
        server.provider = self.provider
        reach_directly(self.url)
        threading.Thread(target=server.serve_forever, args=(0.02,), name="scripted-provider", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.end()
        if error is None:
            self.provider.done()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that server_close waits for them
    request_queue_size = 128
    provider: ScriptedProvider

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        super().__init__(address, handler)
        self.ending = threading.Event()
        self.connections: set[socket.socket] = set()

    def end(self) -> None:
        """Stop, and break whatever connection is still there."""
        self.ending.set()
        self.shutdown()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no news."""


class _Gone(Exception):
    """The connection is over."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 0
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    connection: socket.socket

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged: a request holds a key."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        base = f"http://127.0.0.1:{self.server.server_port}"
        try:
            request, reply = self.server.provider.take(base + self.path, headers, body)
        except Exception as error:
            self._plain(400, {"error": {"type": "script_error", "message": f"{error}"}})
            return
        try:
            self._answer(request, reply)
        except (_Gone, OSError):
            if request.ended != "broken":
                request.ended = "closed"
            self.close_connection = True

    def _answer(self, request: RecordedRequest, reply: Reply) -> None:
        self._wait(reply.delay)
        if reply.status is None:
            request.ended = "broken"
            for frame in reply.frames:
                if isinstance(frame, Drop):
                    self._drop(frame)
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        last = len(reply.frames) - 1
        for at, frame in enumerate(reply.frames):
            if isinstance(frame, Waited):
                self._wait(frame.seconds)
            elif isinstance(frame, Drop):
                self._wait(frame.delay)
                request.ended = "broken"
                if frame.how != "end":
                    self._drop(frame)
            elif frame:
                # Noted before it is sent: a test may look as soon as the client has it.
                request.sent += len(frame)
                if at == last:
                    request.ended = "end"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(frame), frame))
        if request.ended == "open":
            request.ended = "end"
        self.wfile.write(b"0\r\n\r\n")

    def _drop(self, drop: Drop) -> None:
        """Break the connection, after a silence that the client must end where the script says so."""
        if drop.how == "silence":
            self._wait(None)
        elif drop.how != "end":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
            self.connection.close()
        raise _Gone

    def _wait(self, seconds: float | None) -> None:
        """Wait for real, but not for a client that has gone; `None` waits for just that."""
        left = float("inf") if seconds is None else seconds
        while left > 0:
            if self.server.ending.is_set():
                raise _Gone
            moment = min(left, 0.05)
            if select.select([self.connection], [], [], moment)[0]:
                if not self.connection.recv(1, socket.MSG_PEEK):
                    raise _Gone
                self.server.ending.wait(moment)  # the client has said more; that is for later
            left -= moment

    def _plain(self, status: int, body: object) -> None:
        content = msgspec.json.encode(body)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
