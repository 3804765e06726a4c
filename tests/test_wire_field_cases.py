"""Field cases of the wires as a user meets them: whole runs, both colours, in process and over loopback.

What a decoder makes of each stream is said in tests/wire; here is what the run shows, keeps and sends.
"""

from __future__ import annotations

import gc
import time
from typing import Any

import msgspec
import pytest
from tests.differential.streams import called, chat, messages, tool, words
from tests.drive.http_servers import Peer, Server
from tests.fuzz.seeds import Event, written

import panto
from panto.testing import FakeClock, ScriptedProvider, Step, call, drop, fail, raw, say

from .faces import Face
from .stage import QUICK, Stage, results, texts

STYLES = ("openai_chat", "anthropic_messages")
BODIES = {
    "openai_chat": chat({"content": "Ærø "}, {"content": "🦊 日本"}),
    "anthropic_messages": messages(words("Ærø ", "🦊 日本")),
}
SAID = "Ærø 🦊 日本"
NONE = panto.RetryConfig(max_retries=0)


def echo(arguments: dict[str, Any]) -> str:
    return f"echo {arguments.get('x')}"


def events(*values: Any) -> bytes:
    listed: list[Event] = [("", value) for value in values]
    return written(listed)


def chunk(delta: Any, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def one_run(stage: Stage, style: str, *script: Step, **more: Any) -> tuple[Any, Any, ScriptedProvider]:
    agent, provider = stage.agent(script, stage.tool("echo", echo), style=style, **more)
    return stage.run(agent), agent, provider


# ---- SSE


@pytest.mark.parametrize("style", STYLES)
def test_sse_01_a_character_cut_in_half_is_whole_in_events_and_history(stage: Stage, style: str) -> None:
    body = BODIES[style]
    fox = body.index("🦊".encode())
    for pieces in (
        [body[: fox + 1], body[fox + 1 : fox + 3], body[fox + 3 :]],
        [body[i : i + 1] for i in range(len(body))],
    ):
        ran, agent, _ = one_run(stage, style, raw(*pieces))
        assert texts(ran) == agent.conversation.messages[-1].text == SAID


@pytest.mark.parametrize("style", STYLES)
def test_sse_02_line_separators_of_unicode_are_text(stage: Stage, style: str) -> None:
    odd = "a\u2028b\u2029c\x85d\x0ce\x0bf"
    body = chat({"content": odd}) if style == "openai_chat" else messages(words(odd))
    assert "\u2028".encode() in body
    assert texts(one_run(stage, style, raw(body))[0]) == odd


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b": ", b":"),
        (b"\n", b"\r\n"),
        (b"\n", b"\r"),
        (b"\n\n", b"\n\n: waiting\n\n:\n\n"),
        (b"\ndata", b"\n: c\nid: 7\ndata"),
    ],
    ids=["sse_03 no space", "sse_04 CRLF", "sse_04 CR", "sse_05 comments", "sse_12 other fields"],
)
def test_sse_03_04_05_and_12_the_same_stream_framed_otherwise_is_the_same_answer(
    stage: Stage, style: str, old: bytes, new: bytes
) -> None:
    body = BODIES[style]
    framed = b": first\n\n" + b"\n\n".join(
        block.replace(b"data: ", b"data:").replace(b"event: ", b"event:") if old == b": " else block
        for block in body.split(b"\n\n")
    )
    if old != b": ":
        framed = framed.replace(old, new)
    assert framed != body
    ran, *_ = one_run(stage, style, raw(framed))
    assert texts(ran) == SAID
    assert isinstance(ran.last, panto.TurnComplete)


@pytest.mark.parametrize("style", STYLES)
def test_sse_06_a_stream_that_dies_quietly_is_an_error_and_half_a_call_is_not_run(stage: Stage, style: str) -> None:
    ran_with: list[Any] = []
    for step in (say("half an", cut_after=1, breaks="end"), call("write", '{"path": "a') + drop("end")):
        agent, _ = stage.agent([step], stage.tool("write", ran_with.append), style=style, retry=NONE)
        ran = stage.run(agent)
        assert isinstance(ran.error, panto.ProviderError)
        assert ran.error.retryable
        assert [m.role.value for m in agent.conversation.messages] == ["user"]
    assert ran_with == []


def test_sse_07_either_end_signal_alone_is_enough_but_not_within_a_call(stage: Stage) -> None:
    said = chunk({"content": "hi"})
    for body in (events(said, chunk({}, "stop")), events(said) + b"data: [DONE]\n\n"):
        ran, *_ = one_run(stage, "openai_chat", raw(body))
        assert (texts(ran), ran.error) == ("hi", None)
    half = events(chunk({"tool_calls": [called(0, '{"x": ', "c", "echo")]})) + b"data: [DONE]\n\n"
    ran, agent, _ = one_run(stage, "openai_chat", raw(half), retry=NONE)
    assert isinstance(ran.error, panto.ProviderError)
    assert ran.error.kind is panto.ErrorKind.STREAM_ENDED
    assert results(agent.conversation) == []


@pytest.mark.parametrize("style", STYLES)
def test_sse_08_a_socket_kept_open_after_the_end_marker_is_not_waited_for(face: Face, style: str) -> None:
    closed: list[bool] = []

    def hold(peer: Peer) -> None:
        assert peer.request() is not None
        peer.head("transfer-encoding: chunked", "content-type: text/event-stream")
        peer.chunks(BODIES[style], end=False)
        closed.append(peer.gone(10))

    with Server(hold) as server:
        base = server.url + ("/v1" if style == "openai_chat" else "")
        kind = panto.OpenAIChatConfig if style == "openai_chat" else panto.AnthropicMessagesConfig
        agent = face.agent(panto.Config(provider=kind(model="m", api_key="k", base_url=base), retry=NONE))
        began = time.monotonic()
        ran = face.run(agent, "go")
        took = time.monotonic() - began
    assert texts(ran) == SAID
    assert isinstance(ran.last, panto.TurnComplete)
    assert took < 5  # of the 10 for which the server holds on
    assert closed == [True]  # closed by us, not awaited


ERRORS: list[tuple[Any, str, int]] = [
    ({"error": {"code": 429, "message": "pool is dry"}}, "rate_limit", 429),
    ({"error": {"code": "server_error", "message": "pool is dry"}}, "server", 200),
    ({"error": "pool is dry"}, "", 200),
]


@pytest.mark.parametrize(("told", "kind", "status"), ERRORS)
def test_sse_09_an_error_inside_a_200_stream_is_raised_and_nothing_of_it_is_kept(
    stage: Stage, told: Any, kind: str, status: int
) -> None:
    shown = [chunk({"content": text}) for text in ("a", "b", "c")]
    for before in ([], shown):
        ran, agent, _ = one_run(stage, "openai_chat", raw(events(*before, told, "[DONE]")), retry=NONE)
        assert isinstance(ran.error, panto.ProviderError)
        assert "pool is dry" in str(ran.error)
        assert ran.error.status == status
        assert not kind or ran.error.kind.value == kind
        assert [m.role.value for m in agent.conversation.messages] == ["user"]
        if before:
            assert ran.error.partial.text == "abc"  # type: ignore[attr-defined]


def test_sse_10_an_error_event_is_retried_and_voids_what_was_shown(stage: Stage) -> None:
    busy = fail(529, "busy", type="overloaded_error")
    for first, voided in ((say() + busy, False), (say("Partial") + busy, True)):
        ran, agent, _ = one_run(stage, "anthropic_messages", first, say("whole"))
        [retry] = ran.of(panto.ProviderRetry)
        assert (retry.info.kind, retry.info.voided) == (panto.ErrorKind.OVERLOADED, voided)
        assert agent.conversation.messages[-1].text == "whole"


@pytest.mark.parametrize("style", STYLES)
def test_sse_11_one_delta_of_3_mib_is_read(stage: Stage, style: str) -> None:
    long = "x" * (3 * 1024 * 1024)
    body = chat({"content": long}) if style == "openai_chat" else messages(words(long))
    pieces = [body[at : at + 16_384] for at in range(0, len(body), 16_384)]
    ran, agent, _ = one_run(stage, style, raw(*pieces))
    assert agent.conversation.messages[-1].text == long
    assert len(ran.of(panto.ContentDelta)) == 1


# ---- tool calls


CALLS: dict[str, tuple[list[Any], list[tuple[str, dict[str, Any]]]]] = {
    "tc_01 no index": (
        [{"tool_calls": [{"id": "c1", "function": {"name": "echo", "arguments": '{"x":'}}]},
         {"tool_calls": [{"function": {"arguments": '"."}'}}]}],
        [("echo", {"x": "."})],
    ),
    "tc_02 every index is 0": (
        [{"tool_calls": [called(0, f'{{"x":"{city}"}}', id, "echo")]}
         for id, city in (("q1", "Oslo"), ("q2", "Lima"), ("q3", "Pune"))],
        [("echo", {"x": "Oslo"}), ("echo", {"x": "Lima"}), ("echo", {"x": "Pune"})],
    ),
    "tc_03 id and name in every chunk": (
        [{"tool_calls": [called(0, piece, "t9", "echo")]} for piece in ("{", '"x"', ':"a"', "}")],
        [("echo", {"x": "a"})],
    ),
    "tc_04 null first": (
        [{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "echo", "arguments": None}}]},
         {"tool_calls": [called(0, '{"x":')]}, {"tool_calls": [called(0, '"Rome"}')]}],
        [("echo", {"x": "Rome"})],
    ),
    "tc_06 a placeholder first": (
        [{"tool_calls": [called(0, "{}", "c", "echo")]}, {"tool_calls": [called(0, '{"x":')]},
         {"tool_calls": [called(0, '"y"}')]}],
        [("echo", {"x": "y"})],
    ),
    "tc_13 nulls around it": (
        [{"role": "assistant", "content": None, "tool_calls": None},
         {"tool_calls": [called(0, '{"x":1}', "c", "echo")]},
         {"content": None, "function_call": None}],
        [("echo", {"x": 1})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_tc_01_to_06_and_13_the_call_that_was_meant_is_run_once_and_goes_back_valid(stage: Stage, name: str) -> None:
    deltas, meant = CALLS[name]
    ran, agent, provider = one_run(stage, "openai_chat", raw(chat(*deltas, finish="tool_calls")), say("ok"))
    assert [(e.call.name, e.call.arguments) for e in ran.of(panto.ToolDispatchStart)] == meant
    assert [r.is_error for r in results(agent.conversation)] == [False] * len(meant)
    assert texts(ran) == "ok"
    answered = provider.requests[1].messages
    ids = [c["id"] for c in answered[1]["tool_calls"]]  # type: ignore[union-attr,index,call-overload]
    assert ids == [m["tool_call_id"] for m in answered[2:]]
    assert len(set(ids)) == len(meant)  # type: ignore[arg-type]
    assert answered[1]["content"] is None  # TC-12


@pytest.mark.parametrize("keys", [{"id": ""}, {}], ids=["empty", "missing"])
def test_tc_07_calls_without_ids_get_their_own_everywhere(stage: Stage, keys: dict[str, str]) -> None:
    first, second = (
        {"tool_calls": [{"index": at, **keys, "function": {"name": "echo", "arguments": f'{{"x":{at}}}'}}]}
        for at in (0, 1)
    )
    ran, agent, provider = one_run(stage, "openai_chat", raw(chat(first, second, finish="tool_calls")), say("ok"))
    ids = [e.id for e in ran.of(panto.ToolDetails)]
    assert len(set(ids)) == 2
    assert all(id and len(id) <= 40 and id.replace("_", "").replace("-", "").isalnum() and id.isascii() for id in ids)
    assert [r.id for r in results(agent.conversation)] == ids
    assert [c.id for c in agent.conversation.messages[1].tool_calls] == ids
    assert [m["tool_call_id"] for m in provider.requests[1].messages[2:]] == ids


def test_two_calls_with_one_id_on_the_messages_wire_are_two_with_their_own_results(stage: Stage) -> None:
    body = messages(tool("t", "echo", '{"x":1}'), tool("t", "echo", '{"x":2}'), stop="tool_use")
    _, agent, provider = one_run(stage, "anthropic_messages", raw(body), say("ok"))
    assert [r.text for r in results(agent.conversation)] == ["echo 1", "echo 2"]
    sent = provider.requests[1].messages
    asked = [part["id"] for part in sent[1]["content"]]  # type: ignore[union-attr,index,call-overload]
    assert asked == [part["tool_use_id"] for part in sent[2]["content"]]  # type: ignore[union-attr,index,call-overload]
    assert len(set(asked)) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("style", STYLES)
def test_tc_11_arguments_in_200_000_deltas_of_one_character_take_linear_time(face: Face, style: str) -> None:
    def seconds(count: int) -> float:
        pieces = ['{"x":"', *"y" * count, '"}']
        stage = Stage(face, "memory")
        agent, _ = stage.agent([in_large_reads(call("echo", pieces)), say("ok")], stage.tool("echo", echo), style=style)
        gc.collect()
        began = time.process_time()
        stage.run(agent)
        took = time.process_time() - began
        assert results(agent.conversation)[0].text[:8] == "echo yyy"
        assert len(agent.conversation.messages[1].tool_calls[0].arguments) == count + 8
        return took

    for _ in range(3):  # a ratio; the machine may be busy with other things
        quarter, whole = seconds(50_000), seconds(200_000)
        if whole < 10 * quarter:
            return
    raise AssertionError(f"4 times the deltas took {whole / quarter:.1f} times as long")


def in_large_reads(step: Any) -> Any:
    return msgspec.structs.replace(step, cut=65_536)


def test_a_call_whose_arguments_are_nested_too_deep_to_read_harms_neither_run_nor_session(stage: Stage) -> None:
    for depth in (100, 980, 5_000):
        nested = '{"x":' + "[" * depth + "]" * depth + "}"
        ran, agent, _ = one_run(stage, "openai_chat", call("echo", nested), say("ok"), say("still here"))
        assert ran.error is None
        assert texts(ran) == "ok"
        assert len(results(agent.conversation)) == 1
        assert texts(stage.run(agent, "and now?")) == "still here"


# ---- usage


def usage_of(stage: Stage, style: str, body: bytes) -> panto.Usage:
    ran, *_ = one_run(stage, style, raw(body))
    [complete] = ran.of(panto.MessageComplete)
    assert ran.last.usage == complete.usage
    assert isinstance(complete.usage, panto.Usage)
    return complete.usage


def test_us_01_and_us_05_cached_tokens_are_apart_and_reasoning_is_a_part(stage: Stage) -> None:
    told = {
        "prompt_tokens": 20_000, "prompt_tokens_details": {"cached_tokens": 16_000},
        "completion_tokens": 266, "completion_tokens_details": {"reasoning_tokens": 261},
    }  # fmt: skip
    usage = usage_of(stage, "openai_chat", chat({"content": "x"}, usage=told))
    assert (usage.input_tokens, usage.cache_read_tokens) == (4_000, 16_000)
    assert (usage.output_tokens, usage.reasoning_tokens) == (266, 261)
    told["prompt_tokens"] = 10
    assert usage_of(stage, "openai_chat", chat({"content": "x"}, usage=told)).input_tokens == 0


def test_us_02_and_us_04_anthropics_counts_are_disjoint_and_cumulative(stage: Stage) -> None:
    begun = {
        "input_tokens": 12, "cache_read_input_tokens": 90_000, "cache_creation_input_tokens": 3_000, "output_tokens": 1,
    }  # fmt: skip
    body = messages(words("x"), usage=begun, ending={"output_tokens": 7})
    more = b'event: message_delta\ndata: {"type":"message_delta","delta":{},"usage":{"output_tokens":40}}\n\n'
    body = body.replace(b"event: message_stop", more + b"event: message_stop")
    usage = usage_of(stage, "anthropic_messages", body)
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (12, 90_000, 3_000)
    assert usage.output_tokens == 40


@pytest.mark.parametrize("choices", [{"choices": []}, {}, {"choices": None}])
def test_us_03_usage_in_a_chunk_without_choices_is_taken(stage: Stage, choices: dict[str, Any]) -> None:
    last = {**choices, "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    body = events(chunk({"content": "hi"}), chunk({}, "stop"), last, "[DONE]")
    usage = usage_of(stage, "openai_chat", body)
    assert (usage.input_tokens, usage.output_tokens) == (3, 2)


def test_us_06_a_server_that_refuses_stream_options_works_with_them_off(stage: Stage) -> None:
    def strict(request: Any) -> Step:
        if "stream_options" in request.body:
            return fail(400, "unknown field stream_options")
        return say("ok", usage=None)

    ran, *_ = one_run(stage, "openai_chat", strict)
    assert "stream_options" in str(ran.error)
    compat = panto.ChatCompat(stream_usage=False)
    ran, _, provider = one_run(stage, "openai_chat", strict, provider={"compat": compat})
    assert texts(ran) == "ok"
    assert ran.last.usage == panto.Usage()  # nothing is known
    assert len(provider.requests) == 1


# ---- configuration


@pytest.mark.parametrize("style", STYLES)
def test_cf_01_slashes_and_blanks_around_a_base_url_change_nothing(stage: Stage, style: str) -> None:
    urls: set[str] = set()
    for around in ("{}", "{}/", "{}//", " {} "):
        agent, provider = stage.agent([say("ok")], style=style)
        config = agent._engine.config.provider
        changed = msgspec.structs.replace(config, base_url=around.format(config.base_url))
        agent.set_config(panto.Config(provider=changed, retry=QUICK))
        assert texts(stage.run(agent)) == "ok"
        urls.add(provider.requests[0].url.partition("/v1")[2])
    assert urls == {"/chat/completions" if style == "openai_chat" else "/messages"}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("key", ["", " ", None])
def test_cf_03_an_empty_key_is_no_key_and_a_keyless_server_gets_no_header(
    stage: Stage, style: str, key: str | None
) -> None:
    agent, provider = stage.agent([say("ok")], style=style, provider={"api_key": key})
    assert texts(stage.run(agent)) == "ok"
    assert not {"authorization", "x-api-key"} & set(provider.requests[0].headers)


def test_cf_04_blanks_around_a_key_are_stripped(stage: Stage) -> None:
    for key in ("sk-test\n", " sk-test"):
        agent, provider = stage.agent([say("ok")], provider={"api_key": key})
        stage.run(agent)
        assert provider.requests[0].headers["authorization"] == "Bearer sk-test"


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_cf_07_a_server_that_knows_one_name_of_the_output_limit_gets_that_one(stage: Stage, field: str) -> None:
    known = {"model", "messages", "stream", "stream_options", field}

    def strict(request: Any) -> Step:
        odd = sorted(set(request.body) - known)
        return fail(400, f"unknown fields {odd}") if odd else say("ok")

    options: dict[str, Any] = {"max_tokens": 100, "compat": panto.ChatCompat(max_tokens_field=field)}
    ran, _, provider = one_run_plain(stage, strict, options)
    assert texts(ran) == "ok"
    assert provider.requests[0].body[field] == 100
    ran, *_ = one_run_plain(stage, strict, {})
    assert texts(ran) == "ok"  # nothing optional is sent unless it was asked for


def one_run_plain(stage: Stage, step: Step, options: dict[str, Any]) -> tuple[Any, Any, ScriptedProvider]:
    agent, provider = stage.agent([step], provider=options)
    return stage.run(agent), agent, provider


# ---- time, on a clock that is not real


WAITS: list[tuple[dict[str, str], float | None]] = [
    ({"retry-after": "3"}, 3.0),
    ({"retry-after": "0.4"}, 0.4),
    ({"retry-after-ms": "800"}, 0.8),
    ({"retry-after": "1", "retry-after-ms": "0"}, 1.0),
    ({"retry-after": "0x10"}, None),
    ({"retry-after": "-1"}, None),
    ({"retry-after": ""}, None),
]


@pytest.mark.parametrize(("headers", "wait"), WAITS)
def test_ry_02_the_wait_is_what_the_provider_asks_for(face: Face, headers: dict[str, str], wait: float | None) -> None:
    clock = FakeClock()
    provider = ScriptedProvider([fail(429, "slow down", headers=headers), say("ok")], clock=clock)
    config = panto.Config(provider=provider.config(), retry=panto.RetryConfig(initial_delay=0.5))
    ran = face.run(face.agent(config, transport=provider), "go")
    assert texts(ran) == "ok"
    [slept] = clock.sleeps
    assert 0 <= slept <= 1 if wait is None else slept == pytest.approx(wait)
    assert ran.of(panto.ProviderRetry)[0].info.delay == slept


@pytest.mark.parametrize("style", STYLES)
def test_ry_06_a_stream_that_goes_silent_is_a_timeout_that_is_tried_again(face: Face, style: str) -> None:
    for silent in (say("one") + drop("silence"), drop("silence")):
        clock = FakeClock()
        provider = ScriptedProvider([silent, say("ok")], clock=clock)
        config = panto.Config(provider=provider.config(style, timeouts=panto.Timeouts(idle=120.0)))
        began = clock.time()
        ran = face.run(face.agent(config, transport=provider), "go")
        assert texts(ran).endswith("ok")
        [retry] = ran.of(panto.ProviderRetry)
        assert retry.info.kind is panto.ErrorKind.TIMEOUT
        assert clock.time() - began >= 120
