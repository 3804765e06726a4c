"""Names that a wrong one may have been meant for.

Law: a guess is offered, never taken.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["near"]


def near(wrong: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.65) -> list[str]:
    """The names of `known` that are like `wrong`, the nearest first.

    >>> near("opennai", ["openai", "groq"])
    ['openai']
    """
    import difflib  # only somebody who made a mistake pays for it

    return difflib.get_close_matches(wrong, list(known), n=most, cutoff=cutoff)
