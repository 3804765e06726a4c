"""Requests to Anthropic's Messages: the bytes that go out, and what is left out of them."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panto._secret import Secret
from panto._wire.anthropic_messages import MessagesWire
from panto._wire.names import NameTable
from panto._wire.protocol import HTTPRequest, Sendable, Wire
from panto.config import AnthropicMessagesConfig, ReasoningEffort
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

KEY = Secret("sk-canary")
NAMES = ("grep", "files.read", "now")
TOOLS = [ToolDecl(name, f"Does {name}.", {"type": "object", "properties": {}}) for name in NAMES]
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
ONE = {"disable_parallel_tool_use": True}
PDF = base64.b64encode(b"%PDF-1.7 and so on").decode()


def wire(**config: Any) -> MessagesWire:
    config.setdefault("model", "claude-sonnet-4-5")
    return MessagesWire(AnthropicMessagesConfig(**config), NameTable([("", name) for name in NAMES]))


def user(*blocks: ContentBlock | str) -> Sendable:
    return Sendable("user", tuple(TextualBlock(b) if isinstance(b, str) else b for b in blocks))


def assistant(*blocks: ContentBlock | str) -> Sendable:
    return Sendable("assistant", tuple(TextualBlock(b) if isinstance(b, str) else b for b in blocks))


def call(id: str, arguments: str = "{}", name: str = "grep") -> ToolUseBlock:
    return ToolUseBlock(id, name, arguments)


def result(id: str, *parts: TextPart | StoredMediaPart, is_error: bool = False) -> ToolResultBlock:
    return ToolResultBlock(id, parts or (TextPart("found"),), is_error)


def ask(
    it: Wire, *messages: Sendable, system: str = "", tools: list[ToolDecl] | None = None, first: bool = True
) -> HTTPRequest:
    blocks = [SystemBlock(system)] if system else []
    return it.request(blocks, TOOLS if tools is None else tools, messages or [user("Hello")], first=first, key=KEY)


def body(it: Wire, *messages: Sendable, **more: Any) -> dict[str, Any]:
    return json.loads(ask(it, *messages, **more).body)  # type: ignore[no-any-return]


def sent(*messages: Sendable, **config: Any) -> list[dict[str, Any]]:
    return body(wire(prompt_cache=False, **config), *messages)["messages"]  # type: ignore[no-any-return]


def without_markers(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_markers(v) for k, v in value.items() if k != "cache_control"}
    return [without_markers(v) for v in value] if isinstance(value, list) else value


def marked(value: Any, path: str = "") -> list[str]:
    """Where the cache markers are."""
    if isinstance(value, dict):
        here = [path] if "cache_control" in value else []
        return here + [p for k, v in value.items() for p in marked(v, f"{path}/{k}")]
    return [p for i, v in enumerate(value) for p in marked(v, f"{path}/{i}")] if isinstance(value, list) else []


# ---------------------------------------------------------------- where to, and with what headers


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/messages"),
        ("https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1/messages"),
        ("http://127.0.0.1:8080/anthropic", "http://127.0.0.1:8080/anthropic/v1/messages"),
    ],
)
def test_the_path_is_added_and_v1_never_doubled(base_url: str, url: str) -> None:
    assert ask(wire(base_url=base_url)).url == url


def test_a_secret_in_the_base_url_stays_out_of_the_url_and_is_kept_for_the_transport() -> None:
    request = ask(wire(base_url="https://me:pw@example.com/v1?tenant=t"))
    assert request.url == "https://example.com/v1/messages"
    assert request.secret_url is not None
    assert request.secret_url() == "https://me:pw@example.com/v1/messages?tenant=t"


def test_the_key_goes_as_x_api_key_or_as_a_bearer_token_where_the_host_or_the_config_says_so() -> None:
    def auth(**config: Any) -> dict[str, object]:
        headers = ask(wire(**config)).headers
        return {
            k: v() if isinstance(v, Secret) else v for k, v in headers.items() if k in ("x-api-key", "authorization")
        }

    assert auth() == {"x-api-key": "sk-canary"}
    assert auth(auth="bearer") == {"authorization": "Bearer sk-canary"}
    assert auth(base_url="https://openrouter.ai/api") == {"authorization": "Bearer sk-canary"}
    assert auth(base_url="https://openrouter.ai/api", auth="x-api-key") == {"x-api-key": "sk-canary"}
    assert auth(base_url="https://notopenrouter.ai/api") == {"x-api-key": "sk-canary"}


def test_without_a_key_no_key_header_is_sent() -> None:
    headers = wire().request([], [], [user("Hi")], first=True, key=None).headers
    assert not {"x-api-key", "authorization"} & set(headers)


def test_version_betas_and_own_headers_are_sent_and_the_own_ones_win() -> None:
    headers = ask(wire(betas=("a-1", "b-2"), headers={"Anthropic-Beta": "c-3, a-1", "X-Team": "t"})).headers
    shown = {k: v() if isinstance(v, Secret) else v for k, v in headers.items()}
    assert shown["anthropic-version"] == "2023-06-01"
    assert shown["anthropic-beta"] == "a-1,b-2,c-3"
    assert shown["x-team"] == "t"
    other = ask(wire(headers={"Anthropic-Version": "2026-10-21"})).headers["anthropic-version"]
    assert isinstance(other, Secret)
    assert other() == "2026-10-21"


def test_no_key_shows_in_the_request() -> None:
    assert "canary" not in repr(ask(wire(auth="bearer", headers={"X-Token": "canary-2"})))


def test_a_failed_call_is_classified_with_the_configs_own_overflow_wordings() -> None:
    said = b'{"type":"error","error":{"type":"invalid_request_error","message":"the scroll is full"}}'
    assert wire().failure(400, {}, said, 0.0).kind is ErrorKind.INVALID_REQUEST
    assert wire(overflow_patterns=["scroll is full"]).failure(400, {}, said, 0.0).kind is ErrorKind.CONTEXT_OVERFLOW


# ---------------------------------------------------------------- options


def test_max_tokens_is_always_sent_and_defaults_to_the_smaller_of_32000_and_the_models_limit() -> None:
    for model, limit in [
        ("claude-3-haiku-20240307", 4096),
        ("claude-3-5-haiku-latest", 8192),
        ("claude-opus-5", 32000),
    ]:
        assert body(wire(model=model))["max_tokens"] == limit
    assert body(wire(model="some-local-model"))["max_tokens"] == 32000
    assert body(wire(max_tokens=99))["max_tokens"] == 99


def test_options_are_sent_in_the_wires_own_words_and_only_when_given() -> None:
    plain = body(wire())
    assert set(plain) == {"model", "max_tokens", "tools", "messages", "stream"}
    assert plain["stream"] is True
    given = body(wire(stop=["END", "  "], temperature=0.2, top_p=0.9, seed=7))
    assert given["stop_sequences"] == ["END"]
    assert (given["temperature"], given["top_p"]) == (0.2, 0.9)
    assert "seed" not in given


def test_extra_body_wins() -> None:
    it = wire(extra_body={"max_tokens": 5, "metadata": {"user_id": "u"}, "stream": True})
    assert body(it)["max_tokens"] == 5
    assert body(it)["metadata"] == {"user_id": "u"}


def test_an_output_format_in_extra_body_keeps_the_effort() -> None:
    it = wire(
        model="claude-opus-4-6", reasoning="high", extra_body={"output_config": {"format": {"type": "json_schema"}}}
    )
    assert body(it)["output_config"] == {"effort": "high", "format": {"type": "json_schema"}}


@pytest.mark.parametrize(
    ("choice", "parallel", "first", "later"),
    [
        (None, None, None, None),
        (None, False, {"type": "auto", **ONE}, {"type": "auto", **ONE}),
        ("auto", None, {"type": "auto"}, {"type": "auto"}),
        ("none", False, {"type": "none"}, {"type": "none"}),
        ("required", None, {"type": "any"}, None),
        ("required", False, {"type": "any", **ONE}, {"type": "auto", **ONE}),
        ("files.read", None, {"type": "tool", "name": "files_read"}, None),
    ],
)  # fmt: skip
def test_tool_choice_is_translated_and_forces_the_first_call_of_a_run_only(
    choice: str | None, parallel: bool | None, first: object, later: object
) -> None:
    it = wire(tool_choice=choice, parallel_tool_calls=parallel)
    assert body(it, first=True).get("tool_choice") == first
    assert body(it, first=False).get("tool_choice") == later


def test_tool_choice_is_not_sent_without_tools() -> None:
    assert "tool_choice" not in body(wire(tool_choice="required"), tools=[])


def test_a_model_that_refuses_forced_calls_gets_auto_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    it = wire(model="claude-opus-5-5", tool_choice="required")
    with caplog.at_level(logging.WARNING, "panto"):
        assert "tool_choice" not in body(it)
        body(it)
    assert len(caplog.records) == 1


# ---------------------------------------------------------------- thinking


def test_a_model_that_thinks_by_budget_gets_one_below_max_tokens() -> None:
    thinking = body(wire(reasoning="high"))["thinking"]
    assert thinking == {"type": "enabled", "budget_tokens": 16384}
    assert body(wire(reasoning="max", max_tokens=4000))["thinking"]["budget_tokens"] == 3000
    assert body(wire(reasoning="minimal", max_tokens=1100))["thinking"]["budget_tokens"] == 1024


def test_where_no_budget_fits_thinking_is_off_and_a_warning_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "panto"):
        assert body(wire(reasoning="low", max_tokens=1024))["thinking"] == {"type": "disabled"}
    assert "no room" in caplog.text


def test_an_adaptive_model_gets_the_adaptive_form_and_an_effort_it_knows() -> None:
    for asked, effort in [("minimal", "low"), ("medium", "medium"), ("xhigh", "high"), ("max", "max")]:
        request = body(wire(model="claude-opus-4-6", reasoning=asked))
        assert (request["thinking"], request["output_config"]) == ({"type": "adaptive"}, {"effort": effort})
    newer = body(wire(model="claude-opus-4-8", reasoning="xhigh"))
    assert newer["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert newer["output_config"] == {"effort": "xhigh"}


@pytest.mark.parametrize(
    ("model", "thinking", "output"),
    [
        ("claude-sonnet-4-5", {"type": "disabled"}, None),
        ("claude-3-opus-latest", None, None),
        ("claude-opus-4-7", None, None),
        ("claude-opus-5", {"type": "disabled"}, None),
        ("claude-sonnet-5-5", {"type": "between_tools"}, None),
        ("claude-fable-5-2", None, {"effort": "low"}),
        ("some-local-model", {"type": "disabled"}, None),
    ],
)
def test_off_turns_thinking_off_in_the_way_the_model_understands(model: str, thinking: object, output: object) -> None:
    # Over a host of its own, which is not told of `block_binding`: see the test of that.
    request = body(wire(model=model, reasoning="off", base_url="https://gateway.example.com"))
    assert (request.get("thinking"), request.get("output_config")) == (thinking, output)


def test_the_default_effort_sends_nothing() -> None:
    for model in ("claude-sonnet-4-5", "claude-opus-5", "claude-fable-5", "m"):
        assert not {"thinking", "output_config"} & set(body(wire(model=model)))


def test_sampling_that_excludes_thinking_is_not_sent_while_the_model_thinks(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "panto"):
        request = body(wire(reasoning="low", temperature=0.3, top_p=0.96))
        assert "temperature" not in request
        assert request["top_p"] == 0.96
        assert "top_p" not in body(wire(reasoning="low", top_p=0.5))
    assert "temperature" in caplog.text
    assert body(wire(reasoning="off", temperature=0.3))["temperature"] == 0.3


def test_sampling_is_not_sent_to_a_model_that_refuses_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "panto"):
        assert "temperature" not in body(wire(model="claude-opus-5", temperature=0.0))
    assert "temperature" in caplog.text


def test_a_forced_call_turns_a_thinking_budget_off_for_that_request_only() -> None:
    it = wire(reasoning="high", tool_choice="required")
    forced, free = body(it, first=True), body(it, first=False)
    assert (forced["thinking"], forced["tool_choice"]) == ({"type": "disabled"}, {"type": "any"})
    assert free["thinking"]["type"] == "enabled"


def test_adaptive_thinking_and_a_forced_call_go_together() -> None:
    request = body(wire(model="claude-opus-4-6", reasoning="high", tool_choice="required"))
    assert (request["thinking"], request["tool_choice"]) == ({"type": "adaptive"}, {"type": "any"})


def test_rt_08_a_pending_tool_turn_without_thinking_goes_out_with_thinking_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    it = wire(reasoning="high")
    pending = [user("Look"), assistant("On it", call("c1")), user(result("c1"))]
    with caplog.at_level(logging.WARNING, "panto"):
        assert body(it, *pending)["thinking"] == {"type": "disabled"}
    assert "thinking is off" in caplog.text
    done = [*pending, assistant("Done"), user("And now?")]
    assert body(it, *done)["thinking"]["type"] == "enabled"


def test_rt_08_a_tool_loop_that_began_with_thinking_goes_on_with_it() -> None:
    thought = ThinkingBlock("hm", "sig")
    loop = [user("Look"), assistant(thought, call("c1")), user(result("c1")), assistant(call("c2")), user(result("c2"))]
    assert body(wire(reasoning="high"), *loop)["thinking"]["type"] == "enabled"
    redacted = [user("Look"), assistant(ThinkingBlock(redacted="ZZ"), call("c1")), user(result("c1"))]
    assert body(wire(reasoning="high"), *redacted)["thinking"]["type"] == "enabled"
    unsigned = [user("Look"), assistant(ThinkingBlock("hm"), call("c1")), user(result("c1"))]
    assert body(wire(reasoning="high"), *unsigned)["thinking"] == {"type": "disabled"}


# ---------------------------------------------------------------- messages


def test_rt_01_thinking_goes_back_first_with_text_and_signature_as_they_came() -> None:
    history = [user("Look"), assistant(ThinkingBlock("two words", "c2ln"), call("c1")), user(result("c1"))]
    assert sent(*history)[1]["content"][0] == {"type": "thinking", "thinking": "two words", "signature": "c2ln"}


def test_thinking_that_is_empty_but_signed_goes_back() -> None:
    assert sent(user("Hi"), assistant(ThinkingBlock("", "s"), "Yes"), user("Ok"))[1]["content"][0] == {
        "type": "thinking", "thinking": "", "signature": "s"
    }  # fmt: skip


def test_rt_02_thinking_that_nobody_signed_is_not_sent() -> None:
    assert sent(user("Hi"), assistant(ThinkingBlock("hm"), "Yes"), user("Ok"))[1]["content"] == [
        {"type": "text", "text": "Yes"}
    ]


def test_rt_03_redacted_thinking_comes_back_in_its_place_and_unchanged() -> None:
    blocks: list[ContentBlock] = [
        ThinkingBlock(redacted="ZZ"),
        ThinkingBlock("a", "s1"),
        ThinkingBlock(redacted="YY"),
        call("c1"),
    ]
    content = sent(user("Hi"), assistant(*blocks), user(result("c1")))[1]["content"]
    assert [b["type"] for b in content] == ["redacted_thinking", "thinking", "redacted_thinking", "tool_use"]
    assert [b.get("data") for b in content] == ["ZZ", None, "YY", None]


def test_rt_07_blocks_are_sent_in_received_order_and_never_merged() -> None:
    blocks: list[ContentBlock] = [
        ThinkingBlock("A", "s1"), TextualBlock("one"), TextualBlock("two"), call("c1"),
        ThinkingBlock("B", "s2"), call("c2"),
    ]  # fmt: skip
    content = sent(user("Hi"), assistant(*blocks), user(result("c1"), result("c2")))[1]["content"]
    assert [b["type"] for b in content] == ["thinking", "text", "text", "tool_use", "thinking", "tool_use"]
    assert [b["text"] for b in content if b["type"] == "text"] == ["one", "two"]


def test_dt_05_results_of_one_message_are_one_user_message_in_call_order() -> None:
    history = [user("Go"), assistant(call("c1"), call("c2")), user(result("c1"), result("c2", is_error=True), "Go on")]
    last = sent(*history)[-1]
    assert last["role"] == "user"
    assert last["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "found"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "found", "is_error": True},
        {"type": "text", "text": "Go on"},
    ]


def test_em_01_blank_texts_are_left_out() -> None:
    content = sent(user("Hi"), assistant("", call("c1"), " \n"), user(result("c1"), " "))
    assert [[b["type"] for b in m["content"]] for m in content] == [["text"], ["tool_use"], ["tool_result"]]


def test_em_02_texts_of_a_user_that_follow_each_other_are_a_blank_line_apart() -> None:
    content = sent(user("One", "Two", MediaBlock("image/png", PNG), "Three", CompactionSummaryBlock("Four")))[0][
        "content"
    ]
    assert [b.get("text") for b in content] == ["One", "\n\nTwo", None, "Three", "\n\nFour"]


def test_tc_05_a_call_without_arguments_is_sent_with_an_empty_object() -> None:
    calls = [call("c1", ""), call("c2", " \n"), call("c3", "{}")]
    content = sent(user("Go"), assistant(*calls), user(*(result(c.id) for c in calls)))[1]["content"]
    assert [b["input"] for b in content] == [{}, {}, {}]


def test_arguments_are_sent_byte_for_byte_when_they_are_an_object_and_as_an_empty_one_when_not() -> None:
    raw = '{"b":1.50, "a":[1e3,"\\u00e9"]}'
    message = assistant(call("c1", raw), call("c2", "[1]"), call("c3", '{"cut": "mid'), call("c4", "null"))
    request = ask(wire(), user("Go"), message, user(*(result(f"c{n}") for n in range(1, 5))))
    assert f'"input":{raw}'.encode() in request.body
    assert [b["input"] for b in json.loads(request.body)["messages"][1]["content"][1:]] == [{}, {}, {}]


def test_opaque_blocks_go_back_as_they_came() -> None:
    raw = '{"type":"server_tool_use", "id":"s1","name":"web_search","input":{"q":1.0}}'
    request = ask(wire(), user("Go"), assistant(OpaqueBlock("server_tool_use", raw), "Found"), user("Ok"))
    assert raw.encode() in request.body
    assert json.loads(request.body)["messages"][1]["content"][0]["id"] == "s1"


def test_an_opaque_block_that_is_no_json_object_is_left_out() -> None:
    assert (
        len(
            sent(user("Go"), assistant(OpaqueBlock("x", "{oops"), OpaqueBlock("y", "[]"), "Hi"), user("Ok"))[1][
                "content"
            ]
        )
        == 1
    )


def test_images_and_documents_are_sent_by_what_their_bytes_are() -> None:
    text = base64.b64encode(b"plain words").decode()
    content = sent(
        user(MediaBlock("image/jpeg", PNG), MediaBlock("application/pdf", PDF), MediaBlock("text/csv", text), "Look")
    )
    sources = [b.get("source") for b in content[0]["content"]]
    assert [b["type"] for b in content[0]["content"]] == ["image", "document", "document", "text"]
    assert sources[0] == {"type": "base64", "media_type": "image/png", "data": PNG}
    assert sources[1] == {"type": "base64", "media_type": "application/pdf", "data": PDF}
    assert sources[2] == {"type": "text", "media_type": "text/plain", "data": "plain words"}


def test_media_that_the_provider_does_not_take_becomes_a_word_about_it() -> None:
    content = sent(user(MediaBlock("audio/wav", "UklGRg=="), "Listen"))[0]["content"]
    assert content[0]["type"] == "text"
    assert "audio/wav" in content[0]["text"]


def test_results_hold_images_and_never_blank_text() -> None:
    history = [
        user("Go"),
        assistant(call("c1"), call("c2"), call("c3")),
        user(
            result("c1", TextPart("see"), StoredMediaPart("image/png", PNG), TextPart(" ")),
            result("c2", TextPart("")),
            result("c3", TextPart(""), is_error=True),
        ),
    ]
    first, second, third = sent(*history)[-1]["content"]
    assert [p["type"] for p in first["content"]] == ["text", "image"]
    assert "content" not in second
    assert third["content"].strip()  # an error without words is refused


def test_tn_01_tools_go_out_with_their_wire_names_in_the_order_of_registration() -> None:
    request = body(wire(), user("Go"), assistant(call("c1", name="files.read")), user(result("c1")))
    assert [t["name"] for t in request["tools"]] == ["grep", "files_read", "now"]
    assert request["messages"][1]["content"][0]["name"] == "files_read"


def test_a_schema_without_a_type_is_that_of_an_object() -> None:
    tools = body(wire(), tools=[ToolDecl("grep", "", {"properties": {}})])["tools"]
    assert without_markers(tools) == [{"name": "grep", "input_schema": {"type": "object", "properties": {}}}]


def test_calls_of_a_history_without_tools_are_still_declared_and_cannot_be_made() -> None:
    request = body(wire(), user("Go"), assistant(call("c1", name="gone.tool")), user(result("c1")), tools=[])
    assert [t["name"] for t in request["tools"]] == ["gone_tool"]
    assert request["tool_choice"] == {"type": "none"}
    other = body(wire(model="m"), user("Go"), assistant(call("c1", name="gone.tool")), user(result("c1")), tools=[])
    assert not {"tools", "tool_choice"} & set(other)


def test_em_05_lone_surrogates_never_raise_and_pairs_are_joined() -> None:
    bad = "caf\udce9 \ud83d\ude00"
    tools = [ToolDecl("grep", bad, {"type": "object", "properties": {"p": {"description": bad}}})]
    history = [
        user(bad),
        assistant(bad, call("c1", '{"p": "\\ud83d"}'), call("c2", f'{{"p": "{bad}"}}')),
        user(result("c1", TextPart(bad))),
    ]
    request = body(wire(stop=[bad]), *history, system=bad, tools=tools)
    good = "caf\ufffd \U0001f600"
    assert request["system"][0]["text"] == good
    assert request["tools"][0]["description"] == good
    assert request["messages"][0]["content"][0]["text"] == good
    assert [b["input"] for b in request["messages"][1]["content"][1:]] == [{"p": "\ufffd"}, {"p": good}]
    assert request["stop_sequences"] == [good]


def test_the_system_prompt_is_a_list_of_text_blocks_without_blank_ones() -> None:
    blocks = [SystemBlock("Be brief."), SystemBlock(" "), SystemBlock("Be kind.")]
    request = wire(prompt_cache=False).request(blocks, [], [user("Hi")], first=True, key=None)
    assert json.loads(request.body)["system"] == [
        {"type": "text", "text": "Be brief."},
        {"type": "text", "text": "Be kind."},
    ]


# ---------------------------------------------------------------- prompt cache


def test_breakpoints_stand_on_system_tools_the_tail_and_the_tail_before_and_are_at_most_four() -> None:
    history = [
        user("Go"),
        assistant(call("c1")),
        user(result("c1")),
        assistant(call("c2")),
        user(result("c2"), "Go on"),
    ]
    places = marked(body(wire(), *history, system="Be brief."))
    assert places == ["/system/0", "/tools/2", "/messages/2/content/0", "/messages/4/content/1"]


def test_without_prompt_cache_there_are_no_markers() -> None:
    history = [user("Go"), assistant(call("c1")), user(result("c1"))]
    assert marked(body(wire(prompt_cache=False), *history, system="Be brief.")) == []


def test_thinking_and_opaque_blocks_get_no_marker() -> None:
    paused = [user("Go"), assistant("Searching", OpaqueBlock("server_tool_use", '{"type":"server_tool_use"}'))]
    assert marked(body(wire(), *paused)["messages"]) == ["/0/content/0"]
    thought = [user("Go"), assistant("Hm", ThinkingBlock("a", "s"))]
    assert marked(body(wire(), *thought)["messages"]) == ["/0/content/0"]


def test_a_message_is_encoded_once_and_its_bytes_hold_no_marker() -> None:
    it, message = wire(), user("Go")
    ask(it, message)
    kept = message.encoded
    assert kept is not None
    assert b"cache_control" not in kept
    ask(it, message, assistant("Yes"), user("Good"))
    assert message.encoded is kept


_texts = st.text(st.characters(exclude_categories=()), max_size=8)
_block: st.SearchStrategy[ContentBlock] = st.one_of(
    st.builds(TextualBlock, _texts),
    st.builds(ThinkingBlock, _texts, st.none() | _texts, st.none() | _texts),
    st.builds(
        ToolUseBlock, st.just("c"), st.sampled_from(NAMES), st.sampled_from(["", "{}", '{"a": 1}', "[", "\ud800"])
    ),
    st.builds(
        ToolResultBlock, st.just("c"), st.lists(st.builds(TextPart, _texts), max_size=2).map(tuple), st.booleans()
    ),
    st.builds(OpaqueBlock, _texts, st.sampled_from(["{}", '{"type": "x"}', "nope", "[1]"])),
    st.builds(MediaBlock, st.sampled_from(["image/png", "text/plain", "x"]), st.sampled_from([PNG, PDF, "", "!"])),
)
_messages = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.lists(_block, max_size=4)), min_size=2, max_size=6
)


@given(_messages, st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_request_is_json_with_at_most_four_markers_and_begins_with_the_one_before_it(
    spec: list[tuple[str, list[ContentBlock]]], cache: bool
) -> None:
    it = wire(prompt_cache=cache)
    messages = [Sendable(role, tuple(blocks)) for role, blocks in spec]
    before = body(it, *messages[:-1], system="S")
    after = body(it, *messages, system="S")
    assert len(marked(after)) <= (4 if cache else 0)
    plain_before, plain_after = without_markers(before), without_markers(after)
    # An answer to go on from loses the white space at its end for that one request.
    same = len(messages) - (2 if messages[-2].role == "assistant" else 1)
    assert plain_after["messages"][:same] == plain_before["messages"][:same]
    assert (plain_after["system"], plain_after["tools"]) == (plain_before["system"], plain_before["tools"])


def test_every_effort_makes_a_request_for_every_kind_of_model() -> None:
    for effort in ReasoningEffort:
        for model in (
            "claude-3-haiku",
            "claude-sonnet-4",
            "claude-opus-4-6",
            "claude-sonnet-5-5",
            "claude-mythos-preview",
            "x",
        ):
            request = body(wire(model=model, reasoning=effort))
            budget = (request.get("thinking") or {}).get("budget_tokens", 1024)
            assert 1024 <= budget < request["max_tokens"]


@pytest.mark.parametrize("model", ["claude-fable-5-1", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"])
def test_models_that_bind_thinking_to_its_history_are_told_to_drop_what_an_edit_unbound(model: str) -> None:
    at_home = wire(model=model, base_url="https://api.anthropic.com")
    sent = at_home.request((), (), [], first=True, key=None)
    thinking = json.loads(sent.body)["thinking"]
    assert thinking["type"] == "adaptive"
    assert thinking["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert "thinking-binding-controls-2026-08-01" in str(sent.headers["anthropic-beta"])
    elsewhere = wire(model=model, base_url="https://gateway.example.com")
    other = elsewhere.request((), (), [], first=True, key=None)
    assert "thinking" not in json.loads(other.body)
    assert "anthropic-beta" not in other.headers


def test_an_answer_to_go_on_from_is_sent_without_the_white_space_at_its_end() -> None:
    last, asked = assistant("and so \n"), user("go")
    assert sent(asked, last)[-1]["content"] == [{"type": "text", "text": "and so"}]
    later = sent(asked, last, user("more"))
    assert later[1]["content"] == [{"type": "text", "text": "and so \n"}]
