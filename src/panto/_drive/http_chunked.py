"""HTTP/1.1 chunked framing, taken off as many chunks at once as there are.

Law: nothing that has come is held back, nothing of the framing gets through, and what is not framing as RFC 9112
section 7.1 has it is an error. http.client reads one chunk a call, which costs more than all the rest of a stream.
"""

from __future__ import annotations

from http.client import LineTooLong

_LONGEST = 1 << 16  # a size line with its extensions, a trailer line
_MISFIT = "a chunk does not end where its size says"
_HEX = frozenset(b"0123456789abcdefABCDEF")


class Dechunker:
    """Feed it what the socket brought; it gives the bytes of the body. `done` after the last chunk and its trailers."""

    __slots__ = ("_inside", "_last", "_left", "_rest", "done")

    def __init__(self) -> None:
        self.done = False
        self._rest = b""  # an unfinished line
        self._left = 0  # bytes of the chunk that are still to come
        self._inside = False  # in a chunk, whose line end is still to come
        self._last = False  # in the trailers

    def feed(self, raw: bytes) -> bytes:
        """The body bytes in `raw`. `ValueError` for what is no chunked framing."""
        if self._left >= len(raw):
            self._left -= len(raw)
            return raw
        data = self._rest + raw
        at, end, known = self._left, len(data), _known
        parts = [data[:at]] if at else []
        self._left = 0
        while not self._last:
            # Between two chunks stands "CRLF size CRLF", before the first one "size CRLF".
            start = data.find(b"\n", at + 2 if self._inside else at) + 1
            if not start:
                if self._inside and data[at : at + 2] not in (b"", b"\r", b"\r\n"):
                    raise ValueError(_MISFIT)
                break
            line = data[at:start]
            size = known.get(line) if self._inside else None
            if size is None:
                size = _size(line, self._inside)
            at = start + size
            if not size:
                self._last = True
                break
            self._inside = True
            parts.append(data[start:at])
            if at > end:
                self._left, at = at - end, end
                break
        while self._last and not self.done:
            start = data.find(b"\n", at) + 1
            if not start:
                break
            self.done = data[at:start] in (b"\n", b"\r\n")
            at = start
        self._rest = data[at:]
        if len(self._rest) > _LONGEST:
            raise LineTooLong("chunk size or trailer")
        return b"".join(parts)


_known: dict[bytes, int] = {}  # what stood between chunks, as a stream has few sizes; a lookup is cheaper than checks


def _size(line: bytes, inside: bool) -> int:
    if inside and not line.startswith(b"\r\n"):
        raise ValueError(_MISFIT)
    digits = line[2 * inside :].partition(b";")[0].strip(b" \t\r\n")
    if not digits or len(digits) > 16 or not _HEX.issuperset(digits):
        raise ValueError("no chunk size where one must be")
    size = int(digits, 16)
    if inside and len(line) < 10 and len(_known) < 4096:
        _known[line] = size
    return size
