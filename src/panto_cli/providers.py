"""The providers that the command knows by name, and the variables that make them work.

Law: a row holds public facts only: where a provider is, which wire it speaks, and which variable holds the key. The
default model is one that an account without special rights may use; docs/configuration.md shows this table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import panto

__all__ = ["BUILT_IN", "LOCAL", "BuiltIn"]


class BuiltIn(NamedTuple):
    """A provider that needs no config file.

    name: of the provider, and of the alias for its default model.
    key_env, base_url_env: the variables of the vendor's own SDK or documentation.
    families: how names of its models begin, so that `-m claude-opus-5` finds its way.
    """

    name: str
    key_env: str
    base_url_env: str
    api_style: panto.APIStyle
    base_url: str
    default_model: str
    families: tuple[str, ...] = ()


_CHAT: Final = panto.APIStyle.OPENAI_CHAT

# The order decides which is the default when several keys are there. Read 2026-12-01 at:
# platform.claude.com/docs/en/about-claude/models/overview, developers.openai.com/api/docs/models,
# openrouter.ai/docs/features/model-routing, console.groq.com/docs/models, api-docs.deepseek.com,
# docs.mistral.ai/getting-started/models, docs.x.ai/docs/models, ai.google.dev/gemini-api/docs/openai.
_ROWS: Final = (
    BuiltIn(
        "anthropic",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        panto.APIStyle.ANTHROPIC_MESSAGES,
        "https://api.anthropic.com",
        "claude-sonnet-5",
        ("claude-",),
    ),
    BuiltIn(
        "openai",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        _CHAT,
        "https://api.openai.com/v1",
        "gpt-6.1-terra",
        ("gpt-", "o1", "o3", "o4", "chatgpt-"),
    ),
    BuiltIn(
        "openrouter",
        "OPENROUTER_API_KEY",
        "OPENROUTER_BASE_URL",
        _CHAT,
        "https://openrouter.ai/api/v1",
        "openrouter/auto",
    ),
    BuiltIn(
        "groq",
        "GROQ_API_KEY",
        "GROQ_BASE_URL",
        _CHAT,
        "https://api.groq.com/openai/v1",
        "openai/gpt-oss-120b",
    ),
    BuiltIn(
        "deepseek",
        "DEEPSEEK_API_KEY",
        "DEEPSEEK_BASE_URL",
        _CHAT,
        "https://api.deepseek.com",
        "deepseek-flash",
        ("deepseek-",),
    ),
    BuiltIn(
        "mistral",
        "MISTRAL_API_KEY",
        "MISTRAL_BASE_URL",
        _CHAT,
        "https://api.mistral.ai/v1",
        "mistral-medium-latest",
        ("mistral-", "ministral-", "codestral-", "devstral-"),
    ),
    BuiltIn("xai", "XAI_API_KEY", "XAI_BASE_URL", _CHAT, "https://api.x.ai/v1", "grok-4.7", ("grok-",)),
    BuiltIn(
        "gemini",
        "GEMINI_API_KEY",
        "GEMINI_BASE_URL",
        _CHAT,
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-3.8-flash",
        ("gemini-", "gemma-"),
    ),
)

BUILT_IN: Final[dict[str, BuiltIn]] = {row.name: row for row in _ROWS}
"""The built-in providers by name, in the order in which one of them becomes the default."""

LOCAL: Final = "local"
"""The alias of the embedded local model."""
