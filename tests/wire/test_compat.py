"""The table of hosts: which row a provider gets, and that a config can overrule each thing in it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from panto._wire.compat import HOSTS, Compat, compat_for, effort_fields, host_of
from panto._wire.names import NameTable
from panto._wire.openai_chat import ChatWire
from panto.config import APIStyle, ChatCompat, OpenAIChatConfig, ReasoningEffort, WireIdentity
from panto.rules.ids import id_shape

NO_OVERRIDES = ChatCompat()


def compat(base_url: str, model: str = "m") -> Compat:
    return compat_for(base_url, model, NO_OVERRIDES)


def test_every_row_says_where_its_knowledge_comes_from() -> None:
    for row in HOSTS:
        assert row.hosts
        assert re.search(r"https://|recorded|\w+/[\w.-]+#\d+", row.source), row.hosts
        assert row.wants.tool_call_id is None  # shapes of ids are in panto.rules.ids


def test_every_row_can_be_reached() -> None:
    for row in HOSTS:
        for host in row.hosts:
            assert host_of(f"https://{host}{row.path}/v1", f"{row.model}-x") is row


def test_a_host_is_told_by_its_whole_name_or_what_it_lies_below() -> None:
    assert compat("https://adb-1.azuredatabricks.net/serving-endpoints").stream_usage is False
    identity = WireIdentity(APIStyle.OPENAI_CHAT, "https://eu.api.mistral.ai/v1", "m")
    assert id_shape(identity).longest == 9
    assert compat("https://api.mistral.ai.example.com/v1") == Compat()
    assert compat("https://notapi.mistral.ai/v1") == Compat()
    assert compat("https://example.com/api.mistral.ai") == Compat()


@pytest.mark.parametrize(
    "base_url", ["http://127.0.0.1:8080/v1", "http://[::1]:11434/v1", "http://localhost/v1", "https://gateway.example"]
)
def test_a_host_that_is_not_known_gets_what_every_host_understands(base_url: str) -> None:
    got = compat(base_url)
    assert got == Compat()
    assert (got.max_tokens_field, got.system_role, got.send_reasoning) == ("max_tokens", "system", "never")
    assert got.stream_usage
    assert got.parts


def test_the_path_tells_a_deployment_of_azure_from_its_newer_address() -> None:
    assert compat("https://r.openai.azure.com/openai/deployments/d").key_header == "api-key"
    assert compat("https://r.openai.azure.com/openai/v1").key_header is None
    assert compat("https://r.openai.azure.com/openai/v1").max_tokens_field == "max_completion_tokens"


def test_the_model_tells_where_a_host_wants_two_things() -> None:
    host = "https://api.moonshot.ai/v1"
    assert effort_fields(compat(host, "kimi-k3"), ReasoningEffort.MEDIUM) == {"reasoning_effort": "high"}
    assert effort_fields(compat(host, "kimi-k2.6"), ReasoningEffort.OFF) == {"thinking": {"type": "disabled"}}


def test_rt_05_only_hosts_known_to_want_reasoning_back_get_it() -> None:
    wanting = {host for row in HOSTS for host in row.hosts if row.wants.send_reasoning != "never"}
    assert wanting == {
        "api.deepseek.com", "moonshot.ai", "moonshot.cn", "api.kimi.com", "api.z.ai", "open.bigmodel.cn",
    }  # fmt: skip


OVERRIDES: dict[str, Any] = {
    "max_tokens_field": "max_completion_tokens",
    "system_role": "developer",
    "effort": "none",
    "send_reasoning": "tool_loop",
    "reasoning_field": "reasoning",
    "stream_usage": False,
    "parts": False,
    "tool_call_id": "[a-z]{3}",
}


def test_a_config_overrules_each_thing_and_nothing_else() -> None:
    assert set(OVERRIDES) == set(ChatCompat.__struct_fields__)
    for name, value in OVERRIDES.items():
        got = compat_for("http://h/v1", "m", ChatCompat(**{name: value}))
        assert got == msgspec.structs.replace(Compat(), **{name: value})
    config = OpenAIChatConfig(model="m", base_url="http://h/v1", compat=ChatCompat(tool_call_id="[a-z]{300}"))
    assert ChatWire(config, NameTable([])).target.id_max >= 300


@pytest.mark.parametrize(
    ("base_url", "effort", "fields"),
    [
        ("https://api.openai.com/v1", "default", {}),
        ("https://api.openai.com/v1", "minimal", {"reasoning_effort": "minimal"}),
        ("https://api.openai.com/v1", "off", {"reasoning_effort": "none"}),
        ("https://openrouter.ai/api/v1", "max", {"reasoning": {"effort": "max"}}),
        ("https://openrouter.ai/api/v1", "off", {"reasoning": {"effort": "none"}}),
        ("https://api.groq.com/openai/v1", "xhigh", {"reasoning_effort": "high"}),
        ("https://api.mistral.ai/v1", "low", {"reasoning_effort": "high"}),
        ("https://api.mistral.ai/v1", "off", {"reasoning_effort": "none"}),
        ("https://api.deepseek.com", "max", {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        ("https://api.deepseek.com", "off", {"thinking": {"type": "disabled"}}),
        ("https://api.moonshot.ai/v1", "high", {"thinking": {"type": "enabled"}}),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "low", {"enable_thinking": True}),
        ("https://dashscope.aliyuncs.com/compatible-mode/v1", "off", {"enable_thinking": False}),
        ("http://127.0.0.1/v1", "high", {"reasoning_effort": "high"}),
    ],
)
def test_effort_is_asked_for_as_the_host_wants_it(base_url: str, effort: str, fields: dict[str, Any]) -> None:
    assert effort_fields(compat(base_url), ReasoningEffort(effort)) == fields


def test_effort_can_be_left_out_altogether() -> None:
    silent = compat_for("http://h/v1", "m", ChatCompat(effort="none"))
    assert all(effort_fields(silent, effort) == {} for effort in ReasoningEffort)
