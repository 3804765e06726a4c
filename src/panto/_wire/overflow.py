"""What "the conversation does not fit the context window" looks like, vendor by vendor.

The law: overflow makes the loop compact the conversation, which cannot be undone, so a doubtful sentence is not
overflow. Codes are trusted; sentences count only where neither the status nor a guard speaks for a rate limit. There is
no common form: statuses 400, 403, 413, 422 and 500 are met, and many hosts send only a sentence.

Rows are added here when a vendor's wording becomes known, with its source; users add theirs in the provider config
(`overflow_patterns`, regular expressions, searched without regard to case).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple


class Wording(NamedTuple):
    """A row: the vendor, a pattern of its sentence (without regard to case), where the sentence was seen, and it."""

    vendor: str
    pattern: str
    source: str
    example: str


OVERFLOW_CODES: Final = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Groq, Cerebras: https://github.com/AsyncFuncAI/deepwiki-open/issues/144
        "context_window_exceeded",  # LiteLLM's word for it, passed on by proxies
        "model_context_window_exceeded",  # Z.ai; a stop reason of Anthropic too
        "exceed_context_size_error",  # llama.cpp server, recorded 2026
        "model_max_prompt_tokens_exceeded",  # GitHub Copilot, https://github.com/microsoft/vscode-copilot-release/issues/6700
        "too_many_prompt_tokens",  # Perplexity
    }
)
"""Values of `code` or `type` that mean overflow, whatever the sentence beside them."""

OVERFLOW_WORDINGS: Final = (
    Wording(
        "Anthropic",
        r"prompt is too long",
        "https://github.com/docker/docker-agent/issues/569",
        "prompt is too long: 209303 tokens > 200000 maximum",
    ),
    Wording(
        "Anthropic, output budget",
        r"input length and `?max_tokens`? exceed context limit",
        "https://github.com/anthropics/claude-code/issues/4951",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or "
        "`max_tokens` and try again",
    ),
    Wording(
        "OpenAI, DeepSeek, vLLM, OpenRouter",
        r"maximum context length (?:is|of) [\d,]+",
        "https://github.com/chathub-dev/chathub/issues/126; https://github.com/ogx-ai/ogx/issues/4534; "
        "https://github.com/refly-ai/refly/issues/1177",
        "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens",
    ),
    Wording(
        "OpenAI",
        r"exceeds the context window",
        "https://github.com/VectorlyApp/bluebox/issues/66",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    Wording(
        "vLLM, newer; Together",
        r"input \([\d,]+ tokens\) is longer than the model'?s context length",
        "https://github.com/getkimchi/kimchi/issues/794",
        "The input (1492905 tokens) is longer than the model's context length (1048576 tokens).",
    ),
    Wording(
        "vLLM, older",
        r"prompt \(total length [\d,]+\) is too long to fit into the model",
        "https://github.com/vllm-project/vllm/issues/12165",
        "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
    ),
    Wording(
        "Groq, Cerebras",
        r"reduce the length of the messages",
        "https://github.com/thepersonalaicompany/amurex-backend/issues/51; https://github.com/cline/cline/issues/5140",
        "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
    ),
    Wording(
        "Gemini",
        r"input token count.{0,40} exceeds the maximum number of tokens",
        "https://github.com/google-gemini/gemini-cli/issues/6678",
        "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
    ),
    Wording(
        "Amazon Bedrock",
        r"input is too long for requested model",
        "https://github.com/continuedev/continue/issues/9592",
        "Input is too long for requested model.",
    ),
    Wording(
        "MiniMax",
        r"context window exceeds limit",
        "https://github.com/NousResearch/hermes-agent/pull/14743",
        "invalid params, context window exceeds limit (2013)",
    ),
    Wording(
        "Alibaba",
        r"range of input length should be",
        "https://github.com/agentscope-ai/QwenPaw/issues/6255",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]",
    ),
    Wording(
        "GitHub Copilot",
        r"prompt token count of [\d,]+ exceeds the limit of",
        "https://github.com/microsoft/vscode-copilot-release/issues/6700",
        "prompt token count of 65446 exceeds the limit of 64000",
    ),
    Wording(
        "llama.cpp",
        r"exceeds the available context size",
        "recorded answer of llama-server, 2026",
        "request (2009 tokens) exceeds the available context size (512 tokens), try increasing it",
    ),
    Wording(
        "LM Studio",
        r"greater than the context length",
        "https://github.com/Gitlawb/openclaude/issues/353",
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= "
        "n_ctx: 4096).",
    ),
    Wording(
        "text-generation-inference",
        r"`?inputs`? tokens \+ `?max_new_tokens`? must be <=",
        "https://github.com/bytedance/UI-TARS-desktop/issues/626",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 65537. Given: 79993 `inputs` tokens "
        "and 1024 `max_new_tokens`",
    ),
    Wording(
        "Mistral",
        r"too large for model with [\d,]+ maximum context length",
        "https://github.com/jupyterlite/ai/issues/291",
        "Prompt contains 152960 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
    ),
    Wording(
        "Moonshot (Kimi)",
        r"exceeded model token limit",
        "https://github.com/MoonshotAI/kimi-cli/issues/2011",
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
    ),
    Wording(
        "xAI",
        r"maximum prompt length is [\d,]+",
        "https://github.com/cline/cline/issues/3120",
        "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
    ),
    Wording(
        "Z.ai",
        r"prompt exceeds max length",
        "https://github.com/zeroclaw-labs/zeroclaw/issues/4124, code 1261",
        "Prompt exceeds max length",
    ),
    Wording(
        "Perplexity",
        r"total length of all messages is too long",
        "recorded answer of api.perplexity.ai, type too_many_prompt_tokens",
        "The total length of all messages is too long.",
    ),
    Wording(
        "Ollama",
        r"prompt too long; exceeded (?:max )?context length|input length exceeds (?:the )?context length",
        "bodies quoted in several public projects, 2026-12; no document of the vendor found",
        "prompt too long; exceeded max context length by 4096 tokens",
    ),
    Wording(
        "LiteLLM proxy",
        r"ContextWindowExceededError|context[_ ]length[_ ]exceeded",
        "https://github.com/getkimchi/kimchi/issues/794",
        "litellm.ContextWindowExceededError: the request is too long",
    ),
)
"""The sentences. A pattern is as wide as the vendor's own variation and no wider."""

NOT_OVERFLOW: Final = (
    r"tokens? per (?:min|minute|hour|day)\b|\b[TR]P[MD]\b",
    r"rate.?limit|too many requests|throttl",
    r"too many tokens, please wait|please wait before|(?:try again|retry) (?:later|shortly|in \d)",
    r"context (?:deadline exceeded|cancell?ed)",
    r"\bquota\b",
)
"""Sentences that look alike: rate limits that count tokens, and Go's "context deadline exceeded"."""

NEVER_OVERFLOW_STATUS: Final = frozenset({401, 402, 404, 408, 409, 429, 503, 504, 529})
"""Statuses under which no sentence means overflow: throttling, overload and money talk of tokens too."""

_OVERFLOW: Final = re.compile("|".join(f"(?:{row.pattern})" for row in OVERFLOW_WORDINGS), re.IGNORECASE)
_GUARD: Final = re.compile("|".join(NOT_OVERFLOW), re.IGNORECASE)


def says_overflow(status: int | None, text: str, patterns: Sequence[str] = ()) -> bool:
    """Whether the sentence means that the request does not fit the context window.

    Args:
        status: The HTTP status of the failure, None where it is not known.
        text: The provider's words.
        patterns: More regular expressions that mean overflow, from the config. They cannot overrule the guards.

    Raises:
        re.error: A pattern is no regular expression.
    """
    if status in NEVER_OVERFLOW_STATUS or _GUARD.search(text):
        return False
    return bool(_OVERFLOW.search(text)) or any(_compiled(pattern).search(text) for pattern in patterns)


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
