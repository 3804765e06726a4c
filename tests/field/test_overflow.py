"""Family OV of the field cases: a request that is too long is known as such, and nothing else is taken for it.

What follows an overflow once there is compaction is not tested here yet.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.field.wires import all_valid, both_wires
from tests.stage import Stage, texts

import panto
from panto.testing import Step, fail, overflow, say

# ---- OV-01: wordings


BODIES: dict[str, tuple[str, str, str | None]] = {
    "Anthropic": ("anthropic_messages", "prompt is too long: 210400 tokens > 200000 maximum", None),
    "OpenAI": ("openai_chat", "too long", "context_length_exceeded"),
    "vLLM": (
        "openai_chat",
        "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens",
        "BadRequestError",
    ),
    "OpenRouter": (
        "openai_chat",
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens",
        "400",
    ),
    "shouted": ("openai_chat", "PROMPT IS TOO LONG: 210400 TOKENS > 200000 MAXIMUM", None),
}


def overflowed(stage: Stage, style: str, refusal: Step, **provider: Any) -> panto.ContextOverflowError:
    """The error of a run whose request is refused so; its session goes on."""
    agent, scripted = stage.agent([refusal, say("ok")], style=style, provider=provider)
    ran = stage.run(agent)
    assert type(ran.error) is panto.ContextOverflowError
    assert (ran.error.kind, ran.error.retryable) == (panto.ErrorKind.CONTEXT_OVERFLOW, False)
    assert ran.of(panto.ProviderRetry) == []
    assert len(scripted.requests) == 1
    assert [message.text for message in agent.conversation.messages] == ["go"]
    assert texts(stage.run(agent, None)) == "ok"
    return ran.error


@pytest.mark.parametrize("vendor", BODIES)
def test_ov_01_each_vendors_words_are_an_overflow_and_the_same_request_is_not_sent_again(
    stage: Stage, vendor: str
) -> None:
    style, words, code = BODIES[vendor]
    assert words in str(overflowed(stage, style, fail(400, words, code=code)))


@both_wires
def test_ov_01_an_overflow_told_inside_the_stream_is_one_too(stage: Stage, style: str) -> None:
    overflowed(stage, style, say() + fail(400, "prompt is too long: 210400 tokens > 200000 maximum"))
    overflowed(stage, style, overflow())


@both_wires
def test_ov_01_users_add_patterns_of_their_own(stage: Stage, style: str) -> None:
    words = "der Text ist zu LANG für das Modell"
    agent, _ = stage.agent([fail(400, words)], style=style)
    assert getattr(stage.run(agent).error, "kind", None) is panto.ErrorKind.INVALID_REQUEST
    overflowed(stage, style, fail(400, words), overflow_patterns=["zu lang für"])


# ---- OV-02: throttling


@both_wires
@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (429, "Too many tokens, please wait before trying again.", panto.ErrorKind.RATE_LIMIT),
        (503, "context deadline exceeded", panto.ErrorKind.OVERLOADED),
        (429, "Limit of 20,000 input tokens per minute reached", panto.ErrorKind.RATE_LIMIT),
        (429, "prompt is too long: 210400 tokens > 200000 maximum", panto.ErrorKind.RATE_LIMIT),  # the status decides
        (500, "prompt is too long for your rate limit of 8000 TPM", panto.ErrorKind.SERVER),  # the rest of it decides
    ],
)
def test_ov_02_throttling_is_waited_for_and_leaves_the_history_as_it_is(
    stage: Stage, style: str, status: int, words: str, kind: panto.ErrorKind
) -> None:
    agent, provider = stage.agent([say("one"), fail(status, words), say("two")], style=style)
    stage.run(agent, "first")
    before = list(agent.conversation.messages)
    ran = stage.run(agent, "second")
    assert texts(ran) == "two"
    assert [(event.info.kind, event.info.message) for event in ran.of(panto.ProviderRetry)] == [(kind, words)]
    assert agent.conversation.messages[:2] == before
    assert [message.text for message in agent.conversation.messages] == ["first", "one", "second", "two"]
    assert provider.requests[1].raw == provider.requests[2].raw
    all_valid(provider)


# ---- OV-03: the output budget is a part of the window


@both_wires
def test_ov_03_the_sentence_about_input_and_max_tokens_is_an_overflow(stage: Stage, style: str) -> None:
    words = "input length and `max_tokens` exceed context limit: 150000 + 64000 > 200000, decrease input length"
    overflowed(stage, style, fail(400, words), max_tokens=64_000, context_window=200_000)


CONFIGS = [panto.OpenAIChatConfig, panto.AnthropicMessagesConfig]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("over", [0, 1])
def test_ov_03_max_tokens_of_the_whole_window_is_an_error_before_anything_is_sent(config: Any, over: int) -> None:
    with pytest.raises(panto.ConfigError, match=r"max_tokens.*context window"):
        config(model="m", context_window=8_192, max_tokens=8_192 + over)
    assert config(model="m", context_window=8_192, max_tokens=8_191).max_tokens == 8_191


@pytest.mark.parametrize("config", CONFIGS)
def test_ov_03_a_window_that_is_known_by_the_models_name_counts_where_the_config_says_none(config: Any) -> None:
    with pytest.raises(panto.ConfigError, match=r"max_tokens.*context window"):
        config(model="claude-sonnet-4-5", max_tokens=200_000)
    assert config(model="claude-sonnet-4-5", max_tokens=64_000).max_tokens == 64_000
    assert config(model="claude-sonnet-4-5", max_tokens=200_000, context_window=1_000_000).max_tokens == 200_000
    assert config(model="nobody-knows-it", max_tokens=200_000).max_tokens == 200_000
