"""A chat-completions server on loopback that says what a test wrote down for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Gate:
    """The answer waits here until the test opens it."""

    opened: threading.Event = field(default_factory=threading.Event)
    reached: threading.Event = field(default_factory=threading.Event)

    def open(self) -> None:
        self.opened.set()


@dataclass
class Fail:
    """An HTTP error instead of an answer."""

    status: int
    message: str


@dataclass
class Finish:
    """The end, with this reason; an answer without one ends with `stop`."""

    reason: str


class Cut:
    """The connection is dropped here."""


class Think(str):
    """A piece of reasoning."""


Step = str | Think | Gate | Fail | Finish | Cut


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def said(self) -> list[tuple[str, Any]]:
        """Role and content of each message."""
        return [(message["role"], message["content"]) for message in self.body["messages"]]


class Server:
    """Each request takes the next script; the last one is used again."""

    def __init__(self) -> None:
        self.scripts: list[Sequence[Step]] = [["Hello, ", "world"]]
        self.requests: list[Request] = []
        self._taken = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def script(self, *scripts: Sequence[Step]) -> None:
        self.scripts, self._taken = list(scripts), 0

    def next_script(self) -> Sequence[Step]:
        found = self.scripts[min(self._taken, len(self.scripts) - 1)]
        self._taken += 1
        return found

    def close(self) -> None:
        for script in self.scripts:
            for step in script:
                if isinstance(step, Gate):
                    step.open()
        self._http.shutdown()
        self._http.server_close()


def _handler_of(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append(Request(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            script = server.next_script()
            if isinstance(first := script[0], Fail):
                self._fail(first)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                self._answer(script)
            except OSError:
                self.close_connection = True  # the client went away

        def _answer(self, script: Sequence[Step]) -> None:
            reason = "stop"
            for step in script:
                match step:
                    case Think():
                        self._delta({"reasoning_content": str(step)})
                    case str():
                        self._delta({"content": step})
                    case Gate():
                        step.reached.set()
                        step.opened.wait(30)
                    case Finish():
                        reason = step.reason
                    case Cut():
                        self.close_connection = True
                        return
                    case Fail():
                        raise AssertionError("a failure comes first")
            self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
            self._event(
                {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
            )
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")

        def _delta(self, delta: dict[str, Any]) -> None:
            self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})

        def _event(self, value: dict[str, Any]) -> None:
            self._chunk(b"data: " + json.dumps({"id": "c", "model": "m", **value}).encode() + b"\n\n")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        def _fail(self, step: Fail) -> None:
            data = json.dumps({"error": {"message": step.message, "type": "error"}}).encode()
            self.send_response(step.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
