"""A request says what was configured and nothing more, keeps its bytes, and cannot fail to be encoded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panto._secret import Secret
from panto._wire.names import NameTable
from panto._wire.openai_chat import ChatWire
from panto._wire.protocol import HTTPRequest, Sendable, Wire
from panto.config import ChatCompat, OpenAIChatConfig, ReasoningEffort
from panto.conversation import (
    CompactionSummaryBlock,
    ContentBlock,
    MediaBlock,
    OpaqueBlock,
    StoredMediaPart,
    SystemBlock,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from panto.errors import ErrorKind
from panto.tools import ToolDecl

TOOLS = [
    ToolDecl("zeta.run", "Runs.", {"type": "object", "properties": {"a": {"type": "string"}}}),
    ToolDecl("alpha", "First.", {}),
]
PNG = MediaBlock("image/png", "iVBORw0=")


def wire(**fields: Any) -> ChatWire:
    fields = {"model": "m", "base_url": "http://127.0.0.1:9/v1"} | fields
    return ChatWire(OpenAIChatConfig(**fields), NameTable([("", tool.name) for tool in TOOLS]))


def ask(
    made: ChatWire,
    *messages: Sendable,
    system: Sequence[str] = (),
    tools: Sequence[ToolDecl] = (),
    first: bool = True,
    key: str | None = None,
) -> HTTPRequest:
    secret = None if key is None else Secret(key)
    return made.request([SystemBlock(text) for text in system], tools, messages, first=first, key=secret)


def body(made: ChatWire, *messages: Sendable, **more: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(ask(made, *messages, **more).body)
    return value


def user(*blocks: ContentBlock | str) -> Sendable:
    return Sendable("user", tuple(TextualBlock(b) if isinstance(b, str) else b for b in blocks))


def assistant(*blocks: ContentBlock | str) -> Sendable:
    return Sendable("assistant", tuple(TextualBlock(b) if isinstance(b, str) else b for b in blocks))


def sent(made: ChatWire, *messages: Sendable) -> list[dict[str, Any]]:
    messages_sent: list[dict[str, Any]] = body(made, *messages)["messages"]
    return messages_sent


# ------------------------------------------------------------ options


def test_it_is_a_wire() -> None:
    made: Wire = wire()
    assert made.target.identity.base_url == "http://127.0.0.1:9/v1"


def test_nothing_optional_is_sent_that_was_not_configured() -> None:
    assert body(wire(), user("hi")) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_every_option_has_its_field() -> None:
    made = wire(
        max_tokens=7, temperature=0.5, top_p=0.9, stop=["x"], seed=3, parallel_tool_calls=False, tool_choice="auto",
        reasoning=ReasoningEffort.LOW,
    )  # fmt: skip
    got = body(made, user("hi"), tools=TOOLS)
    del got["messages"], got["tools"]
    assert got == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["x"],
        "seed": 3,
        "reasoning_effort": "low",
        "tool_choice": "auto",
        "parallel_tool_calls": False,
    }


def test_zero_is_a_value() -> None:
    got = body(wire(temperature=0.0, seed=0), user("hi"))
    assert (got["temperature"], got["seed"]) == (0.0, 0)


def test_what_speaks_of_tools_is_sent_with_tools_only() -> None:
    got = body(wire(tool_choice="required", parallel_tool_calls=True), user("hi"))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(got)


def test_a_forcing_choice_holds_for_the_first_call_only() -> None:
    for choice, forced in (
        ("required", "required"),
        ("zeta.run", {"type": "function", "function": {"name": "zeta_run"}}),
    ):
        made = wire(tool_choice=choice)
        assert body(made, user("hi"), tools=TOOLS)["tool_choice"] == forced
        assert "tool_choice" not in body(made, user("hi"), tools=TOOLS, first=False)
    assert body(wire(tool_choice="none"), user("hi"), tools=TOOLS, first=False)["tool_choice"] == "none"


def test_tools_go_out_under_their_wire_names_in_the_order_given() -> None:
    assert body(wire(), user("hi"), tools=TOOLS)["tools"] == [
        {
            "type": "function",
            "function": {"name": "zeta_run", "description": "Runs.", "parameters": TOOLS[0].schema},
        },
        {
            "type": "function",
            "function": {"name": "alpha", "description": "First.", "parameters": {"type": "object", "properties": {}}},
        },
    ]


def test_extra_body_wins_over_everything() -> None:
    got = body(wire(extra_body={"stream_options": None, "model": "n", "top_k": 5}, temperature=1), user("hi"))
    assert (got["stream_options"], got["model"], got["top_k"], got["temperature"]) == (None, "n", 5, 1)


def test_us_06_stream_options_can_be_switched_off() -> None:
    assert "stream_options" not in body(wire(compat=ChatCompat(stream_usage=False)), user("hi"))


def test_cf_07_the_name_of_the_output_limit_follows_host_and_config() -> None:
    assert "max_completion_tokens" in body(wire(max_tokens=5, base_url="https://api.openai.com/v1"), user("hi"))
    assert "max_tokens" in body(wire(max_tokens=5), user("hi"))
    asked = wire(max_tokens=5, compat=ChatCompat(max_tokens_field="max_completion_tokens"))
    assert body(asked, user("hi"))["max_completion_tokens"] == 5


# ------------------------------------------------------------ where it goes


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://h/v1", "http://h/v1/chat/completions"),
        (" http://h/v1// ", "http://h/v1/chat/completions"),
        ("http://h", "http://h/chat/completions"),
        ("https://h/openai/deployments/x", "https://h/openai/deployments/x/chat/completions"),
        ("https://h/v1beta/openai/", "https://h/v1beta/openai/chat/completions"),
        ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
    ],
)
def test_cf_01_and_cf_02_the_path_is_added_once(base_url: str, url: str) -> None:
    request = ask(wire(base_url=base_url), user("hi"))
    assert (request.url, request.secret_url) == (url, None)


def test_what_is_secret_in_the_url_stays_a_secret_and_the_query_stays_at_its_end() -> None:
    request = ask(wire(base_url="https://u:p4ss@h:8443/v1/?api-version=3"), user("hi"))
    assert request.url == "https://h:8443/v1/chat/completions"
    assert request.secret_url is not None
    assert request.secret_url() == "https://u:p4ss@h:8443/v1/chat/completions?api-version=3"
    assert "p4ss" not in repr(request)


def test_the_key_is_a_bearer_token_and_a_secret() -> None:
    request = ask(wire(), user("hi"), key="sk-canary")
    header = request.headers["authorization"]
    assert isinstance(header, Secret)
    assert header() == "Bearer sk-canary"
    assert "canary" not in repr(request)


def test_cf_03_without_a_key_there_is_no_authorization() -> None:
    assert "authorization" not in ask(wire(), user("hi")).headers


def test_a_deployment_of_azure_takes_the_bare_key() -> None:
    made = wire(base_url="https://r.openai.azure.com/openai/deployments/d?api-version=1")
    headers = ask(made, user("hi"), key="k").headers
    assert headers["api-key"] == Secret("k")
    assert "authorization" not in headers


def test_own_headers_win_and_are_secrets() -> None:
    made = wire(headers={"Authorization": "Token t-1", "X-Team": "blue"})
    headers = ask(made, user("hi"), key="k").headers
    assert headers["authorization"] == Secret("Token t-1")
    assert headers["x-team"] == Secret("blue")
    assert headers["content-type"] == "application/json"


# ------------------------------------------------------------ messages


def test_em_03_there_is_one_system_message_and_it_is_first() -> None:
    got = body(wire(), user("hi"), system=["one", " \n", "two"])["messages"]
    assert got[0] == {"role": "system", "content": "one\n\ntwo"}
    assert [message["role"] for message in got] == ["system", "user"]
    assert body(wire(), user("hi"), system=["  "])["messages"][0]["role"] == "user"


def test_em_04_developer_is_used_by_explicit_choice_only() -> None:
    assert body(wire(base_url="https://api.openai.com/v1"), system=["x"])["messages"][0]["role"] == "system"
    asked = wire(compat=ChatCompat(system_role="developer"))
    assert body(asked, system=["x"])["messages"][0]["role"] == "developer"


def test_em_02_merged_texts_are_parts_with_a_blank_line_between() -> None:
    assert sent(wire(), user("one", "two", PNG, "three")) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "one"},
                {"type": "text", "text": "\n\ntwo"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}},
                {"type": "text", "text": "three"},
            ],
        }
    ]


def test_a_host_without_parts_gets_one_string() -> None:
    made = wire(compat=ChatCompat(parts=False))
    [message] = sent(made, user("one", "two", PNG))
    assert message["content"].startswith("one\n\ntwo\n\n(an attachment of type image/png was left out")


def test_media_go_as_the_parts_they_are() -> None:
    blocks = [
        MediaBlock("application/pdf", "JVBERg=="),
        MediaBlock("audio/wav", "UklGRg=="),
        MediaBlock("text/plain; charset=utf-8", "aMOp"),
        MediaBlock("text/plain", "AAA"),
        MediaBlock("text/plain", ""),
    ]
    assert sent(wire(), user(*blocks))[0]["content"] == [
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "text", "text": "hé"},
        {"type": "text", "text": "\n\n(an attachment was left out: it is no base64)"},
        {"type": "text", "text": "\n\n(an empty document)"},
    ]


def test_a_summary_goes_as_words_of_the_user() -> None:
    assert sent(wire(), user(CompactionSummaryBlock("so far"))) == [{"role": "user", "content": "so far"}]


def test_tc_12_content_is_null_beside_calls_and_a_string_otherwise() -> None:
    call = ToolUseBlock("c1", "zeta.run", '{"a": 1}')
    alone, beside, plain = sent(wire(), assistant(call), assistant("On ", call, "it"), assistant("a", "b"))
    assert alone == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "zeta_run", "arguments": '{"a": 1}'}}],
    }
    assert beside["content"] == "On it"
    assert plain == {"role": "assistant", "content": "ab"}
    assert sent(wire(), assistant()) == []


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("", "{}"),
        ("  ", "{}"),
        ("null", "{}"),
        ("[1]", "{}"),
        ('{"a":', "{}"),
        ('{"a" :  1.50}', '{"a" :  1.50}'),
        ('{"a":"caf\\udce9"}', '{"a":"caf\ufffd"}'),
        ('{"a":"caf\udce9"}', '{"a":"caf\ufffd"}'),
        ('{"a":"\\ud83d\\ude00"}', '{"a":"\\ud83d\\ude00"}'),
        ('{"a":NaN}', '{"a":null}'),
        ("[" * 100_000, "{}"),
    ],
)
def test_tc_05_arguments_go_back_as_an_object_and_as_they_came(arguments: str, wanted: str) -> None:
    [message] = sent(wire(), assistant(ToolUseBlock("c", "alpha", arguments)))
    assert message["tool_calls"][0]["function"]["arguments"] == wanted


def test_dt_05_results_are_messages_of_their_own_in_order() -> None:
    results = [ToolResultBlock(f"c{n}", (TextPart(f"r{n}"), TextPart("!"))) for n in (1, 2)]
    assert sent(wire(), user(*results, "and now?")) == [
        {"role": "tool", "tool_call_id": "c1", "content": "r1!"},
        {"role": "tool", "tool_call_id": "c2", "content": "r2!"},
        {"role": "user", "content": "and now?"},
    ]


def test_an_error_result_says_so_and_an_empty_one_too() -> None:
    failed, empty = ToolResultBlock("c", (TextPart("no file"),), True), ToolResultBlock("d", ())
    contents = [message["content"] for message in sent(wire(), user(failed, empty))]
    assert contents == ["Error: no file", "(no output)"]


def test_images_in_results_follow_in_a_message_of_the_user() -> None:
    image = StoredMediaPart("image/png", "iVBORw0=")
    first = ToolResultBlock("c1", (TextPart("a cat"), image))
    second = ToolResultBlock("c2", (image,))
    got = sent(wire(), user(first, second, "well?"))
    assert [message["role"] for message in got] == ["tool", "tool", "user"]
    assert [message["content"] for message in got[:2]] == ["a cat", "(see the attachment in the next message)"]
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}}
    assert got[2]["content"] == [
        {"type": "text", "text": "Attached to the result of the tool call c1:"},
        url,
        {"type": "text", "text": "Attached to the result of the tool call c2:"},
        url,
        {"type": "text", "text": "well?"},
    ]


def test_rt_04_reasoning_goes_back_to_a_host_that_wants_it_in_its_field() -> None:
    message = assistant(ThinkingBlock("Hm"), ToolUseBlock("c", "alpha", "{}"))
    [got] = sent(wire(base_url="https://api.deepseek.com"), message)
    assert got["reasoning_content"] == "Hm"
    asked = wire(compat=ChatCompat(send_reasoning="always", reasoning_field="reasoning"))
    [got] = sent(asked, assistant(ThinkingBlock("Hm"), "So"))
    assert got == {"role": "assistant", "content": "So", "reasoning": "Hm"}


def test_rt_05_an_unknown_host_gets_no_reasoning() -> None:
    assert sent(wire(), assistant(ThinkingBlock("Hm"), "So")) == [{"role": "assistant", "content": "So"}]
    assert sent(wire(), assistant(ThinkingBlock("Hm"))) == []


def test_sealed_reasoning_goes_back_as_it_came() -> None:
    details = [{"type": "reasoning.text", "text": "é\u2028", "signature": "c2ln+/="}]
    blocks = [
        "So",
        ToolUseBlock("a", "alpha", "{}"),
        ToolUseBlock("b", "alpha", "{}"),
        OpaqueBlock("extra_content", '[{"call":1,"extra_content":{"g":1}},{"call":null,"extra_content":2}]'),
        OpaqueBlock("reasoning_opaque", '"b3A="'),
        OpaqueBlock("reasoning_details", json.dumps(details)),
    ]
    [got] = sent(wire(), assistant(*blocks))
    assert got["reasoning_details"] == details
    assert got["reasoning_opaque"] == "b3A="
    assert [call.get("extra_content") for call in got["tool_calls"]] == [None, {"g": 1}]
    assert got["extra_content"] == 2
    assert sent(wire(), assistant(OpaqueBlock("reasoning_details", "[1]"))) == [
        {"role": "assistant", "content": "", "reasoning_details": [1]}
    ]


def test_opaque_blocks_that_cannot_be_sent_are_left_out() -> None:
    odd = [
        OpaqueBlock("reasoning_details", "{torn"),
        OpaqueBlock("web_search", '{"q":1}'),
        OpaqueBlock("extra_content", '[{"call":7,"extra_content":1},5]'),
        OpaqueBlock("extra_content", "3"),
    ]
    assert sent(wire(), assistant("So", *odd)) == [{"role": "assistant", "content": "So"}]


# ------------------------------------------------------------ bytes


def test_each_message_is_encoded_once() -> None:
    made, message = wire(), user("hi")
    ask(made, message)
    assert message.encoded == b'{"role":"user","content":"hi"}'
    message.encoded = b'{"role":"user","content":"kept"}'
    assert sent(made, message) == [{"role": "user", "content": "kept"}]


BLOCKS = st.one_of(
    st.builds(TextualBlock, st.text(st.characters(), max_size=8)),
    st.builds(MediaBlock, st.sampled_from(["image/png", "application/pdf", "text/a"]), st.sampled_from(["AAAA", ""])),
    st.builds(ToolUseBlock, st.text(st.characters(), max_size=4), st.sampled_from(["alpha", "gone.tool", "\ud83d"]),
              st.sampled_from(["", "{}", '{"a":1}', "x", '{"a":"\\ud800"}'])),
    st.builds(lambda i, t, e: ToolResultBlock(i, (TextPart(t),), e), st.text(max_size=3), st.text(st.characters()),
              st.booleans()),
    st.builds(ThinkingBlock, st.text(max_size=5)),
    st.builds(OpaqueBlock, st.sampled_from(["reasoning_details", "extra_content", "other"]),
              st.sampled_from(["[]", '[{"data":"x"}]', "{", "null"])),
)  # fmt: skip
MESSAGES = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.lists(BLOCKS, max_size=4)), max_size=6)


@settings(deadline=None)
@given(MESSAGES, st.booleans())
def test_a_request_begins_with_the_bytes_of_the_one_before_it(
    given_messages: list[tuple[str, list[ContentBlock]]], parts: bool
) -> None:
    made = wire(compat=ChatCompat(parts=parts))
    messages = [Sendable(role, tuple(blocks)) for role, blocks in given_messages]
    before = b""
    for count in range(len(messages) + 1):
        request = ask(made, *messages[:count], system=["sys"], tools=TOOLS, first=count == 0).body
        fresh = [Sendable(message.role, message.blocks) for message in messages[:count]]
        assert ask(made, *fresh, system=["sys"], tools=TOOLS, first=count == 0).body == request
        json.loads(request)
        start = request[: request.rindex(b'],"stream":true')]
        assert start.startswith(before)
        before = start


@settings(deadline=None)
@given(st.text(st.characters(categories=["Cs", "L", "P"])), st.integers())
def test_em_05_no_text_name_or_schema_makes_the_encoding_fail(text: str, number: int) -> None:
    tool = ToolDecl(text or "x", text, MappingProxyType({"type": "object", text: [text, {"n": number}]}))
    made = ChatWire(
        OpenAIChatConfig(model="m" + text, base_url="http://h/v1", stop=[text], extra_body={text: text, "n": number}),
        NameTable([("", tool.name)]),
    )
    messages = [
        user(text),
        assistant(text, ToolUseBlock(text, text, text)),
        user(ToolResultBlock(text, (TextPart(text),))),
    ]
    got = body(made, *messages, system=[text], tools=[tool])
    assert not any("\ud800" <= char <= "\udfff" for char in json.dumps(got, ensure_ascii=False))


def test_em_05_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    got = body(wire(), user("caf\udce9 \ud83d\ude00"), system=["\ud83d!"])
    assert [message["content"] for message in got["messages"]] == ["\ufffd!", "caf\ufffd \U0001f600"]


# ------------------------------------------------------------ what else a wire is


def test_the_target_says_what_the_host_takes() -> None:
    mistral = wire(base_url="https://api.mistral.ai/v1").target
    assert (mistral.id_pattern, mistral.id_max, mistral.replay_reasoning) == ("[a-zA-Z0-9]{9}", 9, "never")
    assert wire(base_url="https://api.deepseek.com/v1").target.replay_reasoning == "always"
    assert wire(foreign_reasoning="text").target.foreign_reasoning == "text"


def test_its_decoder_knows_the_names_and_the_overflow_words_of_the_config() -> None:
    made = wire(overflow_patterns=["way too long"])
    decoder = made.decoder("s")
    decoder.feed(b'data: {"error": {"message": "that is way too long", "code": 400}}\n\n')
    assert decoder.failure is not None
    assert decoder.failure.kind is ErrorKind.CONTEXT_OVERFLOW
    refused = made.failure(400, {}, b'{"error": {"message": "way too long"}}', 0.0)
    assert refused.kind is ErrorKind.CONTEXT_OVERFLOW
    calls = made.decoder("s")
    named = '{"index":0,"id":"c","function":{"name":"zeta_run","arguments":"{}"}}'
    calls.feed(
        f'data: {{"choices":[{{"delta":{{"tool_calls":[{named}]}},"finish_reason":"tool_calls"}}]}}\n\n'.encode()
    )
    calls.finish()
    assert calls.answer().content == [ToolUseBlock("c", "zeta.run", "{}")]
