"""Loopback servers for the tests of the transports: every byte is the test's own."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock: socket.socket, server: Server) -> None:
        self.sock = sock
        self.server = server
        self._file = sock.makefile("rb")

    def request(self) -> Request | None:
        line = self._file.readline()
        if not line:
            return None
        method, target, _ = line.decode("latin-1").split()
        headers: dict[str, str] = {}
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = self._file.read(int(headers.get("content-length", "0")))
        request = Request(method, target, headers, body)
        self.server.requests.append(request)
        return request

    def send(self, *parts: bytes) -> None:
        self.sock.sendall(b"".join(parts))

    def head(self, *lines: str, status: str = "200 OK") -> None:
        self.send("\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1"))

    def chunks(self, *parts: bytes, end: bool = True) -> None:
        self.send(*(b"%x\r\n%s\r\n" % (len(part), part) for part in parts), b"0\r\n\r\n" if end else b"")

    def answer(self, body: bytes = b"ok", *lines: str, status: str = "200 OK") -> None:
        self.head(f"content-length: {len(body)}", *lines, status=status)
        self.send(body)

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._file.close()
        self.sock.close()

    def gone(self, seconds: float = 3) -> bool:
        """Whether the client has closed its end."""
        self.sock.settimeout(seconds)
        try:
            return self.sock.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True


Script = Callable[[Peer], None]


def answering(peer: Peer) -> None:
    while peer.request() is not None:
        peer.answer()


def streaming(*parts: bytes, end: bool = True) -> Callable[[Peer], None]:
    def script(peer: Peer) -> None:
        while peer.request() is not None:
            peer.head("transfer-encoding: chunked", "content-type: text/event-stream")
            peer.chunks(*parts, end=end)
            if not end:
                return

    return script


@dataclass
class Server:
    """Runs `script` for each connection, in a thread of its own."""

    script: Script = answering
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list, repr=False)
    connections: int = 0
    live: set[int] = field(default_factory=set)
    failures: list[BaseException] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []
        self._socks: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True, name="server")
        self._accepting.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        with contextlib.suppress(OSError):
            socket.create_connection(self._listener.getsockname()).close()  # wakes the accept
        self._accepting.join(5)
        self._listener.close()
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        assert not self.failures, self.failures

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            if self._done.is_set():
                sock.close()
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._socks.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True, name="server")
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        mark = id(sock)
        self.live.add(mark)
        try:
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
                self._socks.append(sock)
            peer = Peer(sock, self)
            try:
                self.script(peer)
            finally:
                peer._file.close()
        except OSError:
            pass  # the client hung up, or does not trust us
        except BaseException as error:
            self.failures.append(error)
        finally:
            self.live.discard(mark)
            with contextlib.suppress(OSError):
                sock.close()


class Proxy(Server):
    """A forward proxy: CONNECT tunnels, and absolute URLs sent on. Every name leads to loopback."""

    def __init__(self, authorization: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(script=self._relay, tls=tls)
        self.authorization = authorization

    def _relay(self, peer: Peer) -> None:
        request = peer.request()
        if request is None:
            return
        if self.authorization and request.headers.get("proxy-authorization") != self.authorization:
            peer.answer(b"who are you?", "proxy-authenticate: Basic", status="407 Proxy Authentication Required")
            return
        if request.method == "CONNECT":
            with socket.create_connection(("127.0.0.1", int(request.target.rpartition(":")[2]))) as upstream:
                peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _pump(peer.sock, upstream)
            return
        host, _, path = request.target.partition("://")[2].partition("/")
        with socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2] or 80))) as upstream:
            lines = [f"POST /{path} HTTP/1.1", *(f"{k}: {v}" for k, v in request.headers.items()), "connection: close"]
            upstream.sendall("\r\n".join([*lines, "", ""]).encode() + request.body)
            _pump(peer.sock, upstream)


def _pump(left: socket.socket, right: socket.socket) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(left, selectors.EVENT_READ, right)
        selector.register(right, selectors.EVENT_READ, left)
        while True:
            for key, _ in selector.select(10):
                source = key.fileobj
                assert isinstance(source, socket.socket)
                data = source.recv(65536)
                if not data:
                    return
                key.data.sendall(data)
            while isinstance(left, ssl.SSLSocket) and left.pending():
                right.sendall(left.recv(left.pending()))


@contextlib.contextmanager
def deaf() -> Iterator[int]:
    """A port of loopback where a connection is never accepted: its backlog is full."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield int(listener.getsockname()[1])
