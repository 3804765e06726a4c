"""Anthropic's token counts as `Usage`, and its stop reasons as `StopReason`.

The law: counts are cumulative, so what is told again replaces what was told before; they are disjoint already
(`input_tokens` holds no cached ones) and thinking is a part of the output: nothing is added or taken away.
https://platform.claude.com/docs/en/build-with-claude/streaming and .../api/handling-stop-reasons, read 2026-12-01.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from panto.config import StopReason
from panto.usage import Usage

__all__ = ["stop_reason_of", "usage_of"]

_STOP: Final[Mapping[str, StopReason]] = {
    "end_turn": StopReason.STOP,
    "stop_sequence": StopReason.STOP,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "tool_use": StopReason.TOOL_USE,
    "pause_turn": StopReason.PAUSE,
    "compaction": StopReason.PAUSE,  # the server compacted and waits for the message to be sent back
    "refusal": StopReason.REFUSAL,
}


def stop_reason_of(word: str | None, *, calls: bool) -> StopReason:
    """What the provider's word means; `calls` decides where it is absent or unheard of."""
    known = _STOP.get(word or "")
    if known is not None:
        return known
    return StopReason.TOOL_USE if calls else StopReason.UNKNOWN


def usage_of(told: Mapping[str, object]) -> Usage | None:
    """The usage that a message ended with; `None` where nothing was told."""
    usage = Usage(
        input_tokens=_count(told.get("input_tokens")),
        output_tokens=_count(told.get("output_tokens")),
        cache_read_tokens=_count(told.get("cache_read_input_tokens")),
        cache_write_tokens=_count(told.get("cache_creation_input_tokens")),
        cache_write_1h_tokens=_count(_in(told, "cache_creation", "ephemeral_1h_input_tokens")),
        reasoning_tokens=_count(_in(told, "output_tokens_details", "thinking_tokens")),
    )
    return None if usage == Usage() else usage


def _in(told: Mapping[str, object], outer: str, inner: str) -> object:
    value = told.get(outer)
    return cast("dict[str, object]", value).get(inner) if isinstance(value, dict) else None


def _count(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else None
