"""What hosts say of tokens on the chat wire, as `Usage`.

Law: on this wire `prompt_tokens` holds the cached tokens and `completion_tokens` the reasoning; `Usage` has the former
apart and the latter within. What was not told stays `None`, also singly, and nothing is ever negative.
"""

from __future__ import annotations

from typing import Final, cast

from panto.usage import Usage

# Where each counter is looked for, as paths. The largest that is told counts: routers fill one place and zero another.
_CACHE_READ: Final = (
    ("prompt_tokens_details", "cached_tokens"),  # OpenAI, and most others
    ("input_tokens_details", "cached_tokens"),  # OpenAI's Responses, behind gateways
)
_CACHE_READ_ELSEWHERE: Final = (
    ("prompt_cache_hit_tokens",),  # DeepSeek, https://api-docs.deepseek.com/guides/kv_cache (2026-12)
    ("cached_tokens",),  # Moonshot
    ("num_cached_tokens",),  # vLLM and Mistral; may count blocks that are longer than the prompt
)
_CACHE_WRITE: Final = (
    ("prompt_tokens_details", "cache_write_tokens"),  # OpenRouter
    ("prompt_tokens_details", "cache_creation_tokens"),  # LiteLLM
)
# Anthropic's own counters, which Databricks, Vercel and LiteLLM pass on.
_ANTHROPIC_READ: Final = (("cache_read_input_tokens",),)
_ANTHROPIC_WRITE: Final = (("cache_creation_input_tokens",),)
_CACHE_WRITE_1H: Final = (("cache_creation", "ephemeral_1h_input_tokens"),)
_REASONING: Final = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("reasoning_tokens",),  # Perplexity, Z.ai
)
_PROMPT: Final = (("prompt_tokens",), ("input_tokens",))
_COMPLETION: Final = (("completion_tokens",), ("output_tokens",))
_TOTAL: Final = (("total_tokens",),)
_AUDIO: Final = (("prompt_tokens_details", "audio_tokens"), ("prompt_audio_seconds",))  # the latter: Mistral


def read_usage(told: dict[str, object]) -> Usage | None:
    """The counters in a `usage` object, or `None` where it tells none.

    >>> told = {"prompt_tokens": 20, "prompt_tokens_details": {"cached_tokens": 16}}
    >>> usage = read_usage(told)
    >>> (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    (4, 16, None)
    """
    prompt, completion, total = (_told(told, where) for where in (_PROMPT, _COMPLETION, _TOTAL))
    reasoning = _told(told, _REASONING)
    read, write = _cache(told, prompt)
    if prompt is not None and total is not None and completion is not None and _told(told, _AUDIO):
        # Mistral counts audio in the total alone.
        prompt = max(prompt, total - completion - _outside(prompt, completion, total, reasoning))
    fresh, output = prompt, completion
    if prompt is not None and not _beside(told, prompt):
        fresh = max(0, prompt - (read or 0) - (write or 0))
    if completion is not None and reasoning:
        output = completion + _outside(prompt, completion, total, reasoning)
    usage = Usage(
        input_tokens=fresh,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_1h_tokens=_told(told, _CACHE_WRITE_1H),
        reasoning_tokens=reasoning,
    )
    return None if usage == Usage() else usage


def _cache(told: dict[str, object], prompt: int | None) -> tuple[int | None, int | None]:
    """Tokens read from the cache, and written to it."""
    elsewhere = _told(told, _CACHE_READ_ELSEWHERE)
    if elsewhere is not None and prompt is not None and elsewhere > prompt:
        elsewhere = None
    reads = (_told(told, _CACHE_READ), elsewhere, _told(told, _ANTHROPIC_READ))
    writes = (_told(told, _CACHE_WRITE), _told(told, _ANTHROPIC_WRITE))
    read = max((count for count in reads if count is not None), default=None)
    return read, max((count for count in writes if count is not None), default=None)


def _beside(told: dict[str, object], prompt: int) -> bool:
    """Whether a gateway counts as Anthropic does: `prompt_tokens` without what went through the cache."""
    return (_told(told, _ANTHROPIC_READ) or 0) + (_told(told, _ANTHROPIC_WRITE) or 0) > prompt


def _outside(prompt: int | None, completion: int, total: int | None, reasoning: int | None) -> int:
    """The reasoning tokens that `completion_tokens` does not hold: xAI's total says so; Vercel has more than fit in."""
    if not reasoning:
        return 0
    beside = prompt is not None and total == prompt + completion + reasoning
    return reasoning if beside or reasoning > completion else 0


def _told(usage: dict[str, object], where: tuple[tuple[str, ...], ...]) -> int | None:
    found = [count for path in where if (count := _count(usage, path)) is not None]
    return max(found, default=None)


def _count(usage: dict[str, object], path: tuple[str, ...]) -> int | None:
    inner = usage.get(path[0])
    value = (
        inner if len(path) == 1 else cast(dict[str, object], inner).get(path[1]) if isinstance(inner, dict) else None
    )
    if isinstance(value, float) and value == value and abs(value) < 1e15:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return max(0, value)
