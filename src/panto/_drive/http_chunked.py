"""HTTP/1.1 chunked framing, taken off as many chunks at once as there are.

Law: nothing that has come is held back, nothing of the framing gets through, and what is not framing as RFC 9112
section 7.1 has it is an error. http.client reads one chunk a call, which costs more than all the rest of a stream.
"""

from __future__ import annotations

from http.client import LineTooLong

_LONGEST = 1 << 16  # a size line with its extensions, a trailer line
_HEX = frozenset(b"0123456789abcdefABCDEF")


class Dechunker:
    """Feed it what the socket brought; it gives the bytes of the body. `done` after the last chunk and its trailers."""

    __slots__ = ("_crlf", "_last", "_left", "_rest", "done")

    def __init__(self) -> None:
        self.done = False
        self._rest = b""  # an unfinished line
        self._left = 0  # bytes of the chunk that are still to come
        self._crlf = False  # the end of that chunk's data is still to come
        self._last = False  # in the trailers

    def feed(self, raw: bytes) -> bytes:
        """The body bytes in `raw`. `ValueError` for what is no chunked framing."""
        data = self._rest + raw if self._rest else raw
        left, end, at = self._left, len(data), 0
        parts: list[bytes] = []
        if left:
            if left >= end:
                self._left = left - end
                self._rest = b""
                return data
            parts.append(data[:left])
            at, left = left, 0
        while not self._last:
            if self._crlf:
                if end - at < 2:
                    if data[at:] not in (b"", b"\r"):
                        raise ValueError("a chunk does not end where its size says")
                    break
                if data[at : at + 2] != b"\r\n":
                    raise ValueError("a chunk does not end where its size says")
                at += 2
                self._crlf = False
            line_end = data.find(b"\n", at)
            if line_end < 0:
                break
            size = _size(data[at:line_end])
            at = line_end + 1
            if not size:
                self._last = True
                break
            self._crlf = True
            parts.append(data[at : at + size])
            at += size
            if at > end:
                left, at = at - end, end
                break
        while self._last and not self.done:
            line_end = data.find(b"\n", at)
            if line_end < 0:
                break
            self.done = data[at:line_end] in (b"", b"\r")
            at = line_end + 1
        self._left = left
        self._rest = data[at:]
        if len(self._rest) > _LONGEST:
            raise LineTooLong("chunk size or trailer")
        return b"".join(parts)


def _size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t\r")
    if not digits or len(digits) > 16 or not _HEX.issuperset(digits):
        raise ValueError("no chunk size where one must be")
    return int(digits, 16)
