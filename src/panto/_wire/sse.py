"""Server-sent events, from bytes to (event name, data), whatever the cuts.

The law: the events depend on the bytes alone, never on how a network cut them. Lines end with LF, CRLF or CR and
nothing else, and the text is never decoded here, so U+2028 or a character cut in half can do no harm. The format is
that of the HTML standard (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream,
read 2026-12-01) with two differences that the model providers make necessary: an event whose data is empty is not
reported, and an event that lacks its blank line at the end of the body is (`finish`). `id` and `retry` are ignored.

The parser is on the path of every chunk of every answer. One regular expression takes a whole network read apart in C;
only where a count of the lines tells that something else is in it, it is read line by line.
"""

from __future__ import annotations

import re
from typing import Final

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
"""The default upper bound of one event, in bytes. Real ones stay under a few MiB (an image, a long tool argument)."""

_PLAIN: Final = re.compile(rb"^(?:event: (.+)\n)?data: (.+)\n\n", re.MULTILINE).findall
"""Finds the events of the two forms that providers use nearly always; that there is more shows in the line count."""

_BOM: Final = b"\xef\xbb\xbf"


class SSEOverflow(ValueError):
    """One event of the stream grew past the limit. `limit` is that limit in bytes; the stream cannot be read on."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"an event of the stream is longer than {limit:,} bytes")
        self.limit = limit


class SSEParser:
    """An incremental parser of one response body.

    Feed it every chunk as it comes, then call `finish` once when the body has ended. Work and memory are linear in the
    bytes fed: what is not yet a whole event is kept in pieces and joined once.

    `max_event_bytes` is the longest event that is accepted, its field names and comments counted in; a longer one
    raises `SSEOverflow`, after which the parser must not be used.

    >>> parser = SSEParser()
    >>> parser.feed(b'event: ping\\ndata: {"a"')
    []
    >>> parser.feed(b":1}\\n\\ndata: [DONE]")
    [(b'ping', b'{"a":1}')]
    >>> parser.finish()
    [(b'', b'[DONE]')]
    """

    __slots__ = ("_after_cr", "_at_start", "_ends_line", "_head", "_limit", "_pieces", "_size")

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._at_start = True  # nothing but a part of a byte order mark was seen
        self._head = b""  # that part
        self._after_cr = False  # the last byte was a CR: an LF that comes next belongs to it
        self._pieces: list[bytes] = []  # the block that is not complete, line ends normalised
        self._size = 0  # bytes in pieces
        self._ends_line = False  # pieces end with an LF: one more completes the block

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Take the next chunk and return the events it completes, as (event name, data), in order.

        The name is `b""` where the event has none; several data lines are joined by LF.

        Raises:
            SSEOverflow: An event is longer than the limit.
        """
        if self._at_start:
            data = self._skip_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == 10:
                data = data[1:]
        if b"\r" in data:
            # A CR ends its line at once (waiting for an LF would hold back the event); the LF is skipped when it comes.
            self._after_cr = data[-1] == 13
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not data:
            return []

        before: list[tuple[bytes, bytes]] = []
        if self._ends_line and data[0] == 10:
            before = self._events(self._take() + b"\n")
            data = data[1:]
        end = data.rfind(b"\n\n") + 2
        if end == 1:
            self._keep(data)
            return before
        whole = data[:end]
        if self._pieces:
            whole = self._take() + whole
        if end < len(data):
            self._keep(data[end:])
        events = self._events(whole)
        return before + events if before else events

    def finish(self) -> list[tuple[bytes, bytes]]:
        """Say that the body has ended; return the event that lacked its blank line, if there is one.

        It may be torn: whether its data is whole is for the reader of the data to find out.
        """
        block = self._head + self._take()
        self._head = b""
        return self._events(block + b"\n\n")

    def _skip_bom(self, data: bytes) -> bytes:
        data = self._head + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._head = data
            return b""
        self._head = b""
        self._at_start = False
        return data.removeprefix(_BOM)

    def _keep(self, piece: bytes) -> None:
        """Keep a piece of the block that is not complete."""
        self._size += len(piece)
        if self._size > self._limit + 1:  # one more for an LF that may end the last line
            raise SSEOverflow(self._limit)
        self._pieces.append(piece)
        self._ends_line = piece.endswith(b"\n")

    def _take(self) -> bytes:
        pieces = self._pieces
        whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._size = 0
        self._ends_line = False
        return whole

    def _events(self, whole: bytes) -> list[tuple[bytes, bytes]]:
        """The events of whole blocks, the last blank line included."""
        if len(whole) > self._limit and max(map(len, whole.split(b"\n\n"))) > self._limit:
            raise SSEOverflow(self._limit)
        events: list[tuple[bytes, bytes]] = _PLAIN(whole)
        lines = whole.count(b"\n") - 2 * len(events)  # that are neither data nor blank: the names, or something else
        if lines and lines != len([name for name, _ in events if name]):
            events = [event for block in whole.split(b"\n\n") if block and (event := _read_block(block)) is not None]
        return events


def _read_block(block: bytes) -> tuple[bytes, bytes] | None:
    """Read the lines between two blank lines by the letter of the standard."""
    name = b""
    lines: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            lines.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    data = b"\n".join(lines)
    return (name, data) if data else None
