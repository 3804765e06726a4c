"""The encoded messages at the beginning of a request, joined once for as long as they stay the same.

Law: a request costs what it adds. The messages that were sent before are found again by identity, in one comparison,
and their bytes are copied as one piece; nothing is done for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .protocol import Sendable

TAIL = 4
"""The last messages stay apart: they may still grow, and cache markers go into them."""


class Prefix:
    """What one wire remembers of its last request."""

    __slots__ = ("_bytes", "_items", "work")

    def __init__(self) -> None:
        self._items: list[Sendable] = []
        self._bytes: list[bytes] = []
        self.work = 0

    def pieces(
        self, items: Sequence[Sendable], encode: Callable[[Sendable], bytes]
    ) -> tuple[list[bytes], Sequence[Sendable], list[bytes]]:
        """The bytes of the beginning, in one piece or none, then the items of the tail and the bytes of each.

        `encode` is asked once for each item, which keeps its bytes; an item of no bytes is left out.
        """
        known = len(self._items)
        if known > max(0, len(items) - TAIL) or items[:known] != self._items:
            self._items, self._bytes, known = [], [], 0
        grown = list(items[known : max(known, len(items) - TAIL)])
        if grown:
            joined = b",".join([*self._bytes, *(data for item in grown if (data := self._encoded(item, encode)))])
            self._bytes = [joined] if joined else []
            self._items += grown
        tail = items[len(self._items) :]
        return self._bytes, tail, [self._encoded(item, encode) for item in tail]

    def _encoded(self, item: Sendable, encode: Callable[[Sendable], bytes]) -> bytes:
        self.work += 1
        if item.encoded is None:
            item.encoded = encode(item)
        return item.encoded
