"""Rows in columns that line up, whatever the script.

Law: widths are counted in cells of the terminal; text is cut between characters as a reader sees them, never within a
combining sequence, a flag or a family.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.cells import cell_len, split_graphemes

from .terminal import neutral

__all__ = ["cut", "one_line", "pad", "table", "when"]

LEAST = 6
"""No column is made narrower than this."""


def one_line(text: str) -> str:
    """`text` on one line, white space run together, control characters shown."""
    return neutral(" ".join(text.split()))


def cut(text: str, width: int) -> str:
    """The beginning of `text` that fits `width` cells, with an ellipsis where something is left out.

    >>> cut("漢字漢字", 5)
    '漢字…'
    """
    if cell_len(text) <= width:
        return text
    spans, _ = split_graphemes(text)
    end = used = 0
    for _, stop, cells in spans:
        if used + cells > width - 1:
            break
        end, used = stop, used + cells
    return text[:end] + "…"


def pad(text: str, width: int) -> str:
    """`text` with spaces after it, up to `width` cells."""
    return text + " " * max(0, width - cell_len(text))


def when(stamp: str) -> str:
    """A time of a record, ISO 8601, as a person reads it: local time, to the minute."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return stamp


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, *, whole: int = 0) -> str:
    """Lines of a table; none is wider than `width` cells if the columns can be cut that far. `None`: cut nothing.

    Column number `whole` is never cut: it is what a user types back.
    """
    lines = [[one_line(cell) for cell in row] for row in (head, *rows)]
    widths = [max(cell_len(line[at]) for line in lines) for at in range(len(head))]
    if width is not None:
        while sum(widths) + 2 * (len(widths) - 1) > width:
            widest = max((at for at in range(len(widths)) if at != whole), key=lambda at: (widths[at], at))
            if widths[widest] <= LEAST:
                break
            widths[widest] -= 1
    return "".join(
        "  ".join(pad(cut(cell, widths[at]), widths[at]) for at, cell in enumerate(line)).rstrip() + "\n"
        for line in lines
    )
