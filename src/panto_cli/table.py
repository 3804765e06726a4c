"""Rows in columns that line up, whatever the script.

Law: widths are counted in cells of the terminal; text is cut between characters as a reader sees them, never within a
combining sequence, a flag or a family.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from rich.cells import cell_len, split_graphemes

from .terminal import neutral

__all__ = ["cut", "one_line", "pad", "table", "when"]

LEAST = 12
"""No column is made narrower than this, in cells."""

GAP = 2
"""Cells between columns."""


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


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None,
    *,
    flexible: Collection[int] = (),
    drop: Sequence[int] = (),
) -> str:
    """Lines of a table.

    Args:
        head: The names of the columns.
        rows: Their cells.
        width: How many cells a line may have; `None`: whatever it needs.
        flexible: Numbers of the columns that may be cut; all others are shown whole.
        drop: Numbers of the columns that are left out, one after the other, where that is not enough.
    """
    lines = [[one_line(cell) for cell in row] for row in (head, *rows)]
    natural = [max(cell_len(line[at]) for line in lines) for at in range(len(head))]
    shown = list(range(len(head)))
    widths = _fit(natural, shown, width, flexible)
    for leave_out in drop:
        if width is None or sum(widths.values()) + GAP * (len(shown) - 1) <= width:
            break
        shown.remove(leave_out)
        widths = _fit(natural, shown, width, flexible)
    gap = " " * GAP
    return "".join(
        gap.join(pad(cut(line[at], widths[at]), widths[at]) for at in shown).rstrip() + "\n" for line in lines
    )


def _fit(natural: Sequence[int], shown: Sequence[int], width: int | None, flexible: Collection[int]) -> dict[int, int]:
    """The widths of the columns shown; the widest flexible one gives first, none below `LEAST`."""
    widths = {at: natural[at] for at in shown}
    can_give = [at for at in shown if at in flexible]
    while width is not None and sum(widths.values()) + GAP * (len(shown) - 1) > width:
        widest = max(can_give, key=lambda at: (widths[at], at), default=None)
        if widest is None or widths[widest] <= LEAST:
            break
        widths[widest] -= 1
    return widths
