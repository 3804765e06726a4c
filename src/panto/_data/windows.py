"""Context windows and output limits of models, by the start of their names.

The law: a fact here has a date and a source; a model that is not listed has no entry, and nobody guesses one.

Source: "Models overview" and the page of each model, https://platform.claude.com/docs/en/about-claude/models/overview,
and for models that are gone from it the deprecations page beside it; read 2026-12-01. Both numbers are those without
beta headers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["UPDATED", "Window", "window_of"]

UPDATED: Final = "2026-12-01"
"""When the table was last compared with its sources."""


class Window(NamedTuple):
    """Tokens that a model holds in all, and that one answer may have."""

    context: int
    output: int


_200K: Final = 200_000
_1M: Final = 1_000_000

_WINDOWS: Final[dict[str, Window]] = {
    # The longest start wins, so that a dated snapshot is found and a later version is not taken for an earlier one.
    "claude-2": Window(100_000, 4_096),
    "claude-2-1": Window(_200K, 4_096),
    "claude-instant": Window(100_000, 4_096),
    "claude-3-haiku": Window(_200K, 4_096),
    "claude-3-sonnet": Window(_200K, 4_096),
    "claude-3-opus": Window(_200K, 4_096),
    "claude-3-5": Window(_200K, 8_192),
    "claude-3-7": Window(_200K, 64_000),
    "claude-opus-4": Window(_200K, 32_000),  # Opus 4 and 4.1
    "claude-4-opus": Window(_200K, 32_000),
    "claude-sonnet-4": Window(_200K, 64_000),  # Sonnet 4 and 4.5
    "claude-4-sonnet": Window(_200K, 64_000),
    "claude-haiku-4-5": Window(_200K, 64_000),
    "claude-opus-4-5": Window(_200K, 64_000),
    "claude-opus-4-6": Window(_1M, 128_000),
    "claude-sonnet-4-6": Window(_1M, 64_000),
    "claude-opus-4-7": Window(_1M, 128_000),
    "claude-opus-4-8": Window(_1M, 128_000),
    "claude-opus-5": Window(_1M, 128_000),
    "claude-sonnet-5": Window(_1M, 128_000),
    "claude-haiku-5": Window(_1M, 128_000),
    "claude-fable-5": Window(_1M, 128_000),
    "claude-mythos-5": Window(_1M, 128_000),
}


def window_of(model: str) -> Window | None:
    """The window of a model, whatever a router or a cloud puts before its name; `None` where it is not known.

    >>> window_of("anthropic/claude-opus-4.1").output
    32000
    >>> window_of("us.anthropic.claude-3-5-haiku-20241022-v1:0").output
    8192
    >>> window_of("gpt-unheard-of") is None
    True
    """
    name = model.lower().replace(".", "-")
    name = name[max(name.find("claude-"), 0) :]
    best = max((start for start in _WINDOWS if name.startswith(start)), key=len, default=None)
    return None if best is None else _WINDOWS[best]
