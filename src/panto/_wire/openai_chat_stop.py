"""The words with which hosts end an answer on the chat wire, as stop reasons and as failures.

Law: a word that is in neither table is `unknown`, or `tool_use` beside calls; the word itself is kept as `stop_raw`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from panto.config import StopReason
from panto.errors import ErrorKind

STOP: Final[Mapping[str, StopReason]] = {
    "stop": StopReason.STOP,
    "eos": StopReason.STOP,  # Together
    "end_turn": StopReason.STOP,
    "stop_sequence": StopReason.STOP,
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "model_length": StopReason.LENGTH,  # Mistral
    "model_context_window_exceeded": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "content_filter": StopReason.CONTENT_FILTER,
    "safety": StopReason.CONTENT_FILTER,  # Google
    "sensitive": StopReason.CONTENT_FILTER,  # Z.ai
    "refusal": StopReason.REFUSAL,
}
"""Finish reasons, in lower case, of an answer."""

FAILED: Final[Mapping[str, ErrorKind]] = {
    "error": ErrorKind.SERVER,  # OpenRouter, Mistral
    "network_error": ErrorKind.SERVER,  # Z.ai
    "insufficient_system_resource": ErrorKind.OVERLOADED,  # DeepSeek
}
"""Finish reasons, in lower case, that mean that the host gave up: there is no answer then."""
