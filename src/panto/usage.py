"""How many tokens an answer took.

Law: counters are disjoint where they are added, `None` where the provider said nothing, never negative.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["ContextUsage", "Usage"]


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens of one provider answer, or of a whole run.

    `input_tokens`, `cache_read_tokens` and `cache_write_tokens` are disjoint: their sum is what the request held.
    `cache_write_1h_tokens` is the part of `cache_write_tokens` with the longer lifetime, `reasoning_tokens` a part
    of `output_tokens`. `None` means that the provider said nothing, which is not 0.

    >>> Usage(input_tokens=4000, cache_read_tokens=16000, output_tokens=500).context_tokens
    20500
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def context_tokens(self) -> int | None:
        """What the conversation filled of the context window after this answer; `None` if nothing was told."""
        told = [self.input_tokens, self.cache_read_tokens, self.cache_write_tokens, self.output_tokens]
        known = [n for n in told if n is not None]
        return sum(known) if known else None

    @classmethod
    def total(cls, parts: Iterable[Usage | None]) -> Usage:
        """The sum of several usages, `None` counting as 0 unless all are `None`."""
        sums: dict[str, int] = {}
        for part in parts:
            if part is None:
                continue
            for name in cls.__struct_fields__:
                value: int | None = getattr(part, name)
                if value is not None:
                    sums[name] = sums.get(name, 0) + value
        return cls(**sums)


class ContextUsage(msgspec.Struct, frozen=True, gc=False):
    """How full a conversation's context window is, in tokens.

    used: what the next request will hold, about: the provider's last count and an estimate of what came since.
    window: what the model holds, or `None` where that is unknown.
    left: what is left of it, never below 0; `None` where the window is unknown.
    estimated: the part of `used` that nobody has counted.
    """

    used: int
    window: int | None
    left: int | None
    estimated: int
