"""What OpenAI-compatible hosts differ in: one table, chosen by `base_url`, that a config can overrule.

Law: a host that is not in the table gets only what every host understands. Each row says where its knowledge comes
from; "recorded" means answers of that host to requests of that form, seen up to 2026-12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, assert_never
from urllib.parse import urlsplit

import msgspec

from panto.config import JSON, ChatCompat, ReasoningEffort

__all__ = ["Compat", "compat_for", "effort_fields"]

_Effort = Literal["reasoning_effort", "reasoning", "thinking", "enable_thinking", "none"]


class Compat(msgspec.Struct, frozen=True, kw_only=True):
    """How one host wants its requests. The defaults are those of a host that is not known.

    The first eight fields are those of `ChatCompat`; the shape of call ids is in `panto.rules.ids`, which a
    `tool_call_id` of the config overrules. Beyond them:

    effort_words: the host's word for an effort where it is not panto's own; `off` is `none` unless said here.
    effort_beside: whether `reasoning_effort` goes beside `thinking`.
    seed_field: the name of the seed.
    key_header: the header that carries the bare key, in place of `Authorization`.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    effort: _Effort = "reasoning_effort"
    send_reasoning: Literal["never", "tool_loop", "always"] = "never"
    reasoning_field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    stream_usage: bool = True
    parts: bool = True
    tool_call_id: str | None = None
    effort_words: Mapping[ReasoningEffort, str] = {}
    effort_beside: bool = False
    seed_field: str = "seed"
    key_header: str | None = None


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """One row: a host (or any host below it), by path and model where that matters, and what it wants."""

    hosts: tuple[str, ...]
    source: str
    wants: Compat
    path: str = ""
    model: str = ""


_E = ReasoningEffort
_TO_HIGH: Final[Mapping[ReasoningEffort, str]] = {_E.MINIMAL: "low", _E.XHIGH: "high", _E.MAX: "high"}
_ON_OFF: Final[Mapping[ReasoningEffort, str]] = {effort: "high" for effort in _E if effort not in (_E.DEFAULT, _E.OFF)}

HOSTS: Final[tuple[Host, ...]] = (
    Host(
        hosts=("api.openai.com",),
        source="tailcallhq/forgecode#1081: reasoning models refuse max_tokens; recorded (2026-12)",
        wants=Compat(max_tokens_field="max_completion_tokens"),
    ),
    Host(
        hosts=("openai.azure.com", "cognitiveservices.azure.com"),
        path="/openai/deployments",
        source="https://learn.microsoft.com/azure/ai-services/openai/reference: a deployment takes its key in the "
        "header api-key; else as the row below",
        wants=Compat(
            max_tokens_field="max_completion_tokens",
            key_header="api-key",
            effort_words={_E.MAX: "xhigh"},
        ),
    ),
    Host(
        hosts=("openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"),
        source="https://learn.microsoft.com/javascript/api/@azure/ai-projects/reasoningeffort: none to xhigh; recorded "
        "(2026-12)",
        wants=Compat(
            max_tokens_field="max_completion_tokens",
            effort_words={_E.MAX: "xhigh"},
        ),
    ),
    Host(
        hosts=("openrouter.ai",),
        source="https://openrouter.ai/docs/use-cases/reasoning-tokens: reasoning.effort; reasoning goes back as "
        "reasoning_details; recorded (2026-12)",
        wants=Compat(effort="reasoning", reasoning_field="reasoning"),
    ),
    Host(
        hosts=("ai-gateway.vercel.sh",),
        source="https://vercel.com/docs/ai-gateway/sdks-and-apis/openai-chat-completions/reasoning (2026-09): the "
        "object reasoning; reasoning_details; recorded",
        wants=Compat(effort="reasoning", reasoning_field="reasoning"),
    ),
    Host(
        hosts=("api.groq.com",),
        source="groq/groq-python#175: max_completion_tokens; QwenLM/qwen-code#11045: reasoning_content is refused; "
        "recorded (2026-12)",
        wants=Compat(
            max_tokens_field="max_completion_tokens",
            reasoning_field="reasoning",
            effort_words=_TO_HIGH,
        ),
    ),
    Host(
        hosts=("api.deepseek.com",),
        source="https://api-docs.deepseek.com/guides/thinking_mode (2026-12): thinking.type with reasoning_effort "
        "beside it, unknown words mapped by the host; reasoning_content of turns with calls must come back in every "
        "later request, that of other turns is ignored. Lists of parts are refused: BerriAI/litellm#6642, "
        "QwenLM/qwen-code#2318",
        wants=Compat(effort="thinking", effort_beside=True, send_reasoning="always", parts=False),
    ),
    Host(
        hosts=("api.mistral.ai",),
        source="https://docs.mistral.ai/capabilities/reasoning/adjustable (2026-12): reasoning_effort high or none; "
        "random_seed: https://docs.mistral.ai/api; usage comes unasked, and what is not "
        "known is refused with 422 (recorded)",
        wants=Compat(
            effort_words=_ON_OFF,
            stream_usage=False,
            seed_field="random_seed",
        ),
    ),
    Host(
        hosts=("api.x.ai",),
        source="recorded (2026-12): reasoning_effort high, max_completion_tokens; words beyond low, medium and high "
        "were not tried",
        wants=Compat(max_tokens_field="max_completion_tokens", effort_words=_TO_HIGH),
    ),
    Host(
        hosts=("generativelanguage.googleapis.com", "aiplatform.googleapis.com"),
        source="https://ai.google.dev/gemini-api/docs/openai: reasoning_effort none to high; signatures of thoughts in "
        "extra_content of a call (2026-12)",
        wants=Compat(effort_words={_E.XHIGH: "high", _E.MAX: "high"}),
    ),
    Host(
        hosts=("api.cerebras.ai",),
        source="https://inference-docs.cerebras.ai/api-reference/chat-completions: field reasoning; "
        "tashfeenahmed/freellmapi#1070: reasoning_content is refused; recorded (2026-12)",
        wants=Compat(max_tokens_field="max_completion_tokens", reasoning_field="reasoning", effort_words=_TO_HIGH),
    ),
    Host(
        hosts=("moonshot.ai", "moonshot.cn", "api.kimi.com"),
        model="kimi-k3",
        source="https://java.agentscope.io/v2/en/integration/model/kimi (2026-12), of Moonshot's documents: always "
        "thinks, reasoning_effort low, high, max; reasoning_content is kept in the history",
        wants=Compat(
            max_tokens_field="max_completion_tokens",
            send_reasoning="always",
            effort_words={_E.OFF: "low", _E.MINIMAL: "low", _E.MEDIUM: "high", _E.XHIGH: "max"},
        ),
    ),
    Host(
        hosts=("moonshot.ai", "moonshot.cn", "api.kimi.com"),
        source="https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model, as LibreChat's documents tell it "
        "(2026-12): thinking.type; 'reasoning_content is missing in assistant tool call message' where it is left out",
        wants=Compat(max_tokens_field="max_completion_tokens", effort="thinking", send_reasoning="always"),
    ),
    Host(
        hosts=("api.z.ai", "open.bigmodel.cn"),
        source="https://docs.z.ai/guides/capabilities/thinking-mode (2026-12): thinking.type; thinking must be "
        "returned with the results of tools; reasoning_effort since GLM-5.2, ignored by older models; recorded",
        wants=Compat(effort="thinking", effort_beside=True, send_reasoning="always"),
    ),
    Host(
        hosts=("aliyuncs.com",),
        source="https://help.aliyun.com/en/model-studio/deep-thinking (2026-12): enable_thinking; recorded",
        wants=Compat(effort="enable_thinking"),
    ),
    Host(
        hosts=("api.perplexity.ai",),
        source="recorded (2026-12): reasoning_effort, stream_options",
        wants=Compat(effort_words=_TO_HIGH),
    ),
    Host(
        hosts=("databricks.com", "azuredatabricks.net", "databricks.net"),
        source="'unknown field stream_options': continuedev/continue#12936, anomalyco/opencode#4698; usage comes "
        "unasked (recorded, 2026-12)",
        wants=Compat(stream_usage=False),
    ),
    Host(
        hosts=("snowflakecomputing.com",),
        source="recorded (2026-12): the object reasoning, stream_options; max_completion_tokens: "
        "https://docs.snowflake.com/user-guide/snowflake-cortex/cortex-rest-api",
        wants=Compat(max_tokens_field="max_completion_tokens", effort="reasoning", reasoning_field="reasoning"),
    ),
    Host(
        hosts=("githubcopilot.com", "models.github.ai"),
        source="recorded (2026-12): max_tokens, stream_options; reasoning_opaque comes back as it came",
        wants=Compat(),
    ),
    Host(
        hosts=(
            "api.together.xyz",
            "api.together.ai",
            "router.huggingface.co",
            "api.fireworks.ai",
            "integrate.api.nvidia.com",
            "cloud.ibm.com",
            "api.venice.ai",
            "api.avian.io",
            "ollama.com",
        ),
        source="recorded (2026-12) for Together, Hugging Face, watsonx, Venice, Avian and Ollama's cloud; Fireworks "
        "and NVIDIA call themselves OpenAI-compatible, which was not tried",
        wants=Compat(),
    ),
)
"""The first row that fits counts."""

_UNKNOWN: Final = Host(
    hosts=(),
    source="recorded from vLLM, llama.cpp, Ollama, LM Studio, GPUStack, LiteLLM and mistral.rs (2026-12): max_tokens, "
    "system, stream_options and parts are understood; ggml-org/llama.cpp#20215: developer is not",
    wants=Compat(),
)


def host_of(base_url: str, model: str) -> Host:
    """The row for a provider; the one for unknown hosts where there is none."""
    url = urlsplit(base_url)
    name = url.hostname or ""
    for row in HOSTS:
        fits = any(name == host or name.endswith("." + host) for host in row.hosts)
        if fits and url.path.startswith(row.path) and model.rpartition("/")[2].startswith(row.model):
            return row
    return _UNKNOWN


def compat_for(base_url: str, model: str, overrides: ChatCompat) -> Compat:
    """How a host wants its requests: the table, and what a config knows better.

    >>> compat_for("https://api.openai.com/v1", "m", ChatCompat(max_tokens_field="max_tokens")).max_tokens_field
    'max_tokens'
    """
    wants = host_of(base_url, model).wants
    given = {name: value for name in overrides.__struct_fields__ if (value := getattr(overrides, name)) is not None}
    return msgspec.structs.replace(wants, **given)


def effort_fields(compat: Compat, effort: ReasoningEffort) -> dict[str, JSON]:
    """The fields of a request that ask for an effort; none for the default.

    >>> effort_fields(Compat(effort="reasoning"), ReasoningEffort.LOW)
    {'reasoning': {'effort': 'low'}}
    """
    if effort is ReasoningEffort.DEFAULT:
        return {}
    off = effort is ReasoningEffort.OFF
    word = compat.effort_words.get(effort, "none" if off else effort.value)
    match compat.effort:
        case "none":
            return {}
        case "reasoning_effort":
            return {"reasoning_effort": word}
        case "reasoning":
            return {"reasoning": {"effort": word}}
        case "enable_thinking":
            return {"enable_thinking": not off}
        case "thinking":
            if off:
                return {"thinking": {"type": "disabled"}}
            beside: dict[str, JSON] = {"reasoning_effort": word} if compat.effort_beside else {}
            return {"thinking": {"type": "enabled"}, **beside}
    assert_never(compat.effort)
