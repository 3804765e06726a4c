"""An answer is read the same in any cut, is whole only with an end signal, and no odd field breaks it."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.chat_streams import DONE, Reading, call, chunk, deltas, event

from panto._wire.openai_chat_read import ChatDecoder
from panto.config import StopReason
from panto.conversation import ContentBlockType, OpaqueBlock, TextualBlock, ThinkingBlock, ToolUseBlock
from panto.errors import ErrorKind
from panto.events import BlockComplete, BlockStart, ContentDelta, ToolDetails
from panto.usage import Usage

TEXT, THINKING = ContentBlockType.TEXT, ContentBlockType.THINKING


def test_a_plain_answer_is_one_block() -> None:
    reading = Reading(deltas({"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo"}))
    assert reading.events == [
        BlockStart(0, TEXT),
        ContentDelta(0, TEXT, "Hel"),
        ContentDelta(0, TEXT, "lo"),
        BlockComplete(0, TextualBlock("Hello")),
    ]
    assert reading.answer.stop_reason is StopReason.STOP
    assert reading.answer.stop_raw == "stop"
    assert reading.answer.usage is None


def test_an_answer_of_nothing_has_no_block() -> None:
    reading = Reading(deltas({"role": "assistant", "content": None, "tool_calls": None}, {"content": ""}, {}))
    assert reading.events == []
    assert reading.answer.content == []


def test_each_kind_of_content_is_a_block_of_its_own() -> None:
    reading = Reading(
        deltas(
            {"reasoning_content": "Hm"},
            {"reasoning_content": ".", "content": ""},
            {"content": "A"},
            {"content": "", "reasoning_content": "again"},
            {"content": "B"},
            call("{}", id="c", name="ls"),
            {"content": "C"},
        )
    )
    assert reading.kinds == [
        "ThinkingBlock", "TextualBlock", "ThinkingBlock", "TextualBlock", "ToolUseBlock", "TextualBlock",
    ]  # fmt: skip
    assert (reading.text, reading.thinking) == ("ABC", "Hm.again")


def test_text_is_complete_before_what_follows_it_starts_and_calls_stay_open() -> None:
    reading = Reading(deltas({"content": "On it"}, call("{", "a", "f"), {"content": "more"}, call("}")))
    told = [(type(e).__name__, e.index) for e in reading.events]
    assert told.index(("BlockComplete", 0)) < told.index(("BlockStart", 1))
    assert told[-1] == ("BlockComplete", 1)
    assert reading.made == [("f", "{}")]


def test_reasoning_told_in_two_fields_at_once_is_taken_once() -> None:
    reading = Reading(deltas({"reasoning": "So", "reasoning_content": "So"}, {"reasoning": " it is"}))
    assert reading.thinking == "So it is"


def test_content_may_be_a_list_of_thinking_and_text() -> None:
    reading = Reading(
        deltas(
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "One"}]}]},
            {"content": [{"type": "thinking", "thinking": " two", "closed": True}, {"type": "text", "text": "Three"}]},
            {"content": ["!", {"type": "reference", "reference_ids": [1]}]},
            {"content": ""},
        )
    )
    assert reading.answer.content == [ThinkingBlock("One two"), TextualBlock("Three!")]


def test_a_refusal_is_text_and_says_so() -> None:
    reading = Reading(deltas({"refusal": "I can"}, {"refusal": "not."}))
    assert reading.answer.content == [TextualBlock("I cannot.")]
    assert reading.answer.stop_reason is StopReason.REFUSAL


def test_only_the_first_choice_counts() -> None:
    body = event(chunk({"content": "no"}, index=1)) + event({"choices": [{"delta": {"content": "yes"}}]})
    body += event(chunk({}, "length", index=1)) + event(chunk({}, "stop"))
    reading = Reading(body)
    assert reading.text == "yes"
    assert reading.answer.stop_raw == "stop"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", StopReason.STOP),
        ("eos", StopReason.STOP),
        ("length", StopReason.LENGTH),
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("tool_calls", StopReason.TOOL_USE),
        ("function_call", StopReason.TOOL_USE),
        ("content_filter", StopReason.CONTENT_FILTER),
        ("something_new", StopReason.UNKNOWN),
    ],
)
def test_finish_reasons_are_told_in_one_word_and_kept_raw(word: str, reason: StopReason) -> None:
    answer = Reading(deltas({"content": "x"}, finish=word)).answer
    assert (answer.stop_reason, answer.stop_raw) == (reason, word)


def test_an_unheard_of_reason_with_calls_is_tool_use() -> None:
    assert Reading(deltas(call("{}", "a", "f"), finish="other")).answer.stop_reason is StopReason.TOOL_USE


def test_the_last_finish_reason_that_is_not_empty_counts_and_deltas_after_one_too() -> None:
    body = event(chunk({"content": "a"}, "stop")) + event(chunk({"content": "b"}, "length")) + event(chunk({}, ""))
    reading = Reading(body + event(chunk({"content": "c"})) + DONE)
    assert reading.text == "abc"
    assert reading.answer.stop_raw == "length"


# ------------------------------------------------------------ field cases


def test_sse_01_a_character_cut_in_half_is_whole() -> None:
    body = deltas({"content": "Ærø 🦊 日本"})
    for at in range(len(body)):
        assert Reading([body[:at], body[at:]]).text == "Ærø 🦊 日本"


def test_sse_02_line_separators_of_unicode_are_text() -> None:
    assert Reading(deltas({"content": "a\u2028b\u2029\x85c\x0b\x0c"})).text == "a\u2028b\u2029\x85c\x0b\x0c"


def test_sse_06_a_stream_that_dies_quietly_is_no_answer() -> None:
    reading = Reading(deltas({"content": "Once"}, {"content": " upon"}, finish=None, done=False))
    assert reading.failure is not None
    assert reading.failure.kind is ErrorKind.STREAM_ENDED
    assert reading.failure.retryable
    assert [e.text for e in reading.events if isinstance(e, ContentDelta)] == ["Once", " upon"]
    assert not any(isinstance(e, BlockComplete) for e in reading.events)


def test_sse_06_a_stream_torn_within_an_event_is_no_answer() -> None:
    body = deltas({"content": "Once"}, call('{"a": "', "c", "f"), finish=None, done=False)
    for end in range(len(body)):
        reading = Reading(body[:end])
        assert reading.failure is not None
        assert reading.failure.kind is ErrorKind.STREAM_ENDED, end


def test_sse_07_a_finish_reason_without_done_is_enough() -> None:
    assert Reading(deltas({"content": "x"}, done=False)).answer.stop_reason is StopReason.STOP


def test_sse_07_done_without_a_finish_reason_is_enough() -> None:
    assert Reading(deltas({"content": "x"}, finish=None)).answer.stop_reason is StopReason.UNKNOWN
    calls = Reading(deltas(call('{"a":1}', "c", "f"), finish=None))
    assert calls.answer.stop_reason is StopReason.TOOL_USE


def test_sse_07_done_within_the_arguments_of_a_call_is_an_early_end() -> None:
    reading = Reading(deltas(call('{"a":', "c", "f"), finish=None))
    assert reading.failure is not None
    assert reading.failure.kind is ErrorKind.STREAM_ENDED


def test_sse_08_nothing_is_waited_for_after_done() -> None:
    decoder = ChatDecoder("s", str)
    decoder.feed(deltas({"content": "x"}))
    assert decoder.done
    assert decoder.feed(event(chunk({"content": "late"}))) == []
    decoder.finish()
    assert decoder.answer().content == [TextualBlock("x")]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"error": {"code": 429, "message": "pool is dry"}}, ErrorKind.RATE_LIMIT),
        ({"error": {"code": "server_error", "message": "pool is dry"}}, ErrorKind.SERVER),
        ({"error": "pool is dry", "status": 429}, ErrorKind.RATE_LIMIT),
        ({"object": "error", "message": "pool is dry", "code": 429}, ErrorKind.RATE_LIMIT),
        (chunk({"content": ""}, "error", error={"code": 502, "message": "pool is dry"}), ErrorKind.SERVER),
        ({"choices": [{"index": 0, "error": {"code": 429, "message": "pool is dry"}}]}, ErrorKind.RATE_LIMIT),
        ({"choices": [], "x_groq": {"error": "pool is dry: rate limit"}}, ErrorKind.RATE_LIMIT),
        ([{"error": {"code": 429, "message": "pool is dry"}}], ErrorKind.RATE_LIMIT),
    ],
)
def test_sse_09_an_error_in_the_stream_fails_the_answer(error: object, kind: ErrorKind) -> None:
    for before in (b"", deltas({"content": "a"}, {"content": "b"}, finish=None, done=False)):
        reading = Reading(before + event(error) + event(chunk({"content": "z"})) + DONE)
        assert reading.failure is not None
        assert reading.failure.kind is kind
        assert "pool is dry" in reading.failure.message
        assert "z" not in [e.text for e in reading.events if isinstance(e, ContentDelta)]


def test_sse_09_an_error_after_the_finish_reason_fails_the_answer_still() -> None:
    body = deltas({"content": "a"}, done=False) + event({"error": {"message": "broke", "code": 500}})
    reading = Reading(body + DONE)
    assert reading.failure is not None
    assert reading.failure.message == "broke"


def test_sse_09_an_event_named_error_is_one_whatever_it_holds() -> None:
    for data in (b'{"message": "busy"}', b'{"error": {"message": "busy"}}', b'"busy"', b"busy"):
        reading = Reading(b"event: error\ndata: " + data + b"\n\n")
        assert reading.failure is not None
        assert reading.failure.message == "busy"


def test_a_finish_reason_that_says_error_is_none() -> None:
    reading = Reading(deltas({"content": "half"}, finish="error"))
    assert reading.failure is not None
    assert reading.failure.kind is ErrorKind.SERVER


def test_sse_11_one_very_long_line_is_read() -> None:
    text = "x" * 3_000_000
    body = deltas({"content": text})
    assert Reading(body[at : at + 16_384] for at in range(0, len(body), 16_384)).text == text


def test_sse_12_data_on_several_lines_is_one_event() -> None:
    body = b'id: 7\ndata: {"choices":[{"index":0,\ndata: "delta":{"content":"x"}}]}\n\ndata\n\n' + DONE
    assert Reading(body).text == "x"


def test_tc_13_null_and_odd_shapes_do_no_harm() -> None:
    odd: list[object] = [
        {"choices": [{"delta": {"role": "assistant", "content": None, "tool_calls": None}}]},
        {"choices": None},
        {"choices": [{"index": None, "delta": {"content": "a"}}]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [None, {"index": 0, "delta": {"content": {"text": "b"}}}]},
        {"choices": {"index": 0, "delta": {"content": "c"}}},
        {"choices": [{"index": 0, "delta": "d"}]},
        {"choices": [{"index": "0", "delta": {"content": 5, "tool_calls": [None, "x"], "reasoning_details": {}}}]},
        {"choices": [], "usage": None, "prompt_filter_results": [1]},
        {"queue_position": 3},
        {"message": "you are number 3"},
        "keep-alive",
        7,
        None,
        [],
        {"choices": [{"finish_reason": "stop"}]},
    ]
    reading = Reading(b"".join(map(event, odd)) + DONE)
    assert reading.failure is None
    assert reading.text == "abcd5"
    assert reading.answer.stop_reason is StopReason.STOP


def test_broken_utf8_and_control_characters_do_no_harm() -> None:
    body = b'data: {"choices":[{"index":0,"delta":{"content":"a\xffb\x01"}}]}\n\n' + DONE
    assert Reading(body).text == "a\ufffdb\x01"


def test_em_05_a_surrogate_pair_in_two_deltas_is_joined_and_a_lone_half_replaced() -> None:
    def raw(text: str, field: str = "content") -> bytes:
        return f'data: {{"choices":[{{"index":0,"delta":{{"{field}":"{text}"}}}}]}}\n\n'.encode()

    reading = Reading(raw(r"a\ud83d") + raw(r"\ude00b") + raw(r"c\ud83d") + raw("d") + raw(r"\ude00\ud83d") + DONE)
    assert reading.text == "a\U0001f600bc\ufffdd\ufffd\ufffd"
    switched = Reading(raw(r"\ud83d") + raw("x", "reasoning") + DONE)
    assert switched.answer.content == [TextualBlock("\ufffd"), ThinkingBlock("x")]


def test_em_05_a_surrogate_pair_in_two_fragments_of_arguments_is_joined() -> None:
    def raw(text: str, rest: str = "") -> bytes:
        fragment = f'{{"index":0,{rest}"function":{{"name":"f","arguments":"{text}"}}}}'
        return f'data: {{"choices":[{{"index":0,"delta":{{"tool_calls":[{fragment}]}}}}]}}\n\n'.encode()

    body = raw(r"{\"a\":\"\ud83d", '"id":"c",') + raw(r"\ude00\"}", '"id":"c",') + DONE
    assert Reading(body).made == [("f", '{"a":"\U0001f600"}')]


# ------------------------------------------------------------ what is no stream, and what is torn


def test_what_is_torn_after_the_end_signal_is_dropped() -> None:
    whole = deltas({"content": "x"}, done=False)
    tail = event({"choices": [], "usage": {"prompt_tokens": 1}}) + DONE
    for end in range(len(tail)):
        reading = Reading(whole + tail[:end])
        assert reading.failure is None
        assert reading.text == "x"


def test_an_event_that_is_no_json_in_the_middle_is_a_broken_protocol() -> None:
    body = event(chunk({"content": "a"})) + b"data: {oops\n\n"
    for after in (event(chunk({"content": "b"})), DONE, event({"error": "x"})):
        reading = Reading(body + after)
        assert reading.failure is not None
        assert reading.failure.kind is ErrorKind.PROTOCOL
        assert "{oops" in reading.failure.message
    torn = Reading(body)
    assert torn.failure is not None
    assert torn.failure.kind is ErrorKind.STREAM_ENDED


def test_a_whole_completion_is_an_answer_although_a_stream_was_asked_for() -> None:
    message = {
        "role": "assistant",
        "reasoning_content": "Hm",
        "content": "Hello",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "b", "type": "function", "function": {"name": "f", "arguments": '{"x":2}'}},
        ],
    }
    value = {
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3},
    }
    for indent in (None, 2):
        body = json.dumps(value, indent=indent).encode()
        reading = Reading([b"\n ", *(body[at : at + 7] for at in range(0, len(body), 7))])
        assert reading.kinds == ["ThinkingBlock", "TextualBlock", "ToolUseBlock", "ToolUseBlock"]
        assert reading.made == [("f", '{"x":1}'), ("f", '{"x":2}')]
        assert reading.answer.stop_reason is StopReason.TOOL_USE
        assert reading.answer.usage == Usage(input_tokens=3)
        torn = Reading(body[:-5])
        assert torn.failure is not None
        assert torn.failure.kind is ErrorKind.STREAM_ENDED


def test_a_message_beside_or_after_the_deltas_is_not_read_twice() -> None:
    body = b""
    for so_far, more in (("a", "a"), ("ab", "b")):
        value = chunk({"content": more})
        value["choices"][0]["message"] = {"role": "assistant", "content": so_far}
        body += event(value)
    body += event({"choices": [{"index": 0, "message": {"content": "abc"}, "finish_reason": "stop"}]})
    assert Reading(body).text == "abc"


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b'{"error": {"message": "no such model", "code": 404}}', ErrorKind.NOT_FOUND, "no such model"),
        (b'{"error": "overloaded", "status": 503}', ErrorKind.OVERLOADED, "overloaded"),
        (b'[{"error": {"message": "slow down", "code": 429}}]', ErrorKind.RATE_LIMIT, "slow down"),
        (b"<html><title>Sign in</title></html>", ErrorKind.PROTOCOL, "Sign in"),
        (b"upstream says no", ErrorKind.PROTOCOL, "upstream says no"),
        (b'{"hello": "world"}', ErrorKind.PROTOCOL, ""),
        (b'"hello"', ErrorKind.PROTOCOL, "hello"),
        (b"", ErrorKind.STREAM_ENDED, ""),
        (b": waiting\n\n: waiting\n\n", ErrorKind.STREAM_ENDED, ""),
        (b'{"choices": [{"mess', ErrorKind.STREAM_ENDED, ""),
    ],
)
def test_a_body_that_is_no_stream_is_a_failure_with_its_words(body: bytes, kind: ErrorKind, words: str) -> None:
    for chunks in ([body], [body[at : at + 1] for at in range(len(body))]):
        reading = Reading(chunks)
        assert reading.failure is not None
        assert reading.failure.kind is kind
        assert words in reading.failure.message


def test_a_partial_answer_keeps_the_text_that_was_shown() -> None:
    decoder = ChatDecoder("s", str)
    body = deltas(
        {"reasoning_content": "Hm"}, {"content": "one "}, {"content": "two"}, call("{", "c", "f"), finish=None
    )
    events = decoder.feed(body.removesuffix(DONE))
    assert decoder.partial([]) == [TextualBlock("one two")]
    at = events.index(ContentDelta(1, TEXT, "two"))
    assert decoder.partial(events[at:]) == [TextualBlock("one ")]


def test_names_on_the_wire_become_the_tools_own() -> None:
    reading = Reading(deltas(call("{}", "c", "calendar_create")), names=["calendar.create"])
    assert reading.made == [("calendar.create", "{}")]
    assert ToolDetails(0, "c", "calendar.create") in reading.events


# ------------------------------------------------------------ sealed reasoning


def sealed(reading: Reading) -> dict[str, object]:
    return {block.type: json.loads(block.raw) for block in reading.answer.content if isinstance(block, OpaqueBlock)}


def test_reasoning_details_are_one_opaque_block_at_the_end_with_fragments_joined() -> None:
    def detail(**fields: object) -> dict[str, object]:
        return {"reasoning_details": [{"type": "reasoning.text", "index": 0, **fields}]}

    reading = Reading(
        deltas(
            {**detail(text="I ", format="x"), "reasoning": "I "},
            {**detail(text="think", format="x"), "reasoning": "think"},
            detail(text="", signature="c2ln"),
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "AAA=", "index": 0, "id": "e1"}]},
            {"content": "So."},
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "BBB", "index": 1}]},
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "CCC", "index": 1}]},
            detail(text="Then", index=2, signature="bW9yZQ=="),
        )
    )
    assert reading.kinds == ["ThinkingBlock", "TextualBlock", "OpaqueBlock"]
    assert sealed(reading) == {
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "I think", "format": "x", "signature": "c2ln"},
            {"type": "reasoning.encrypted", "data": "AAA=", "index": 0, "id": "e1"},
            {"type": "reasoning.encrypted", "data": "BBBCCC", "index": 1},
            {"type": "reasoning.text", "index": 2, "text": "Then", "signature": "bW9yZQ=="},
        ]
    }
    starts = [e for e in reading.events if isinstance(e, BlockStart)]
    assert starts[-1].type is ContentBlockType.OPAQUE
    assert reading.events[-2:] == [starts[-1], BlockComplete(2, reading.answer.content[2])]


def test_every_seal_survives_whatever_the_indices() -> None:
    seals = ["QUE=", "QkI=", "Q0M=", "RA"]
    for index in (0, None):
        given = [{"reasoning_details": [{"type": "reasoning.encrypted", "data": s, "index": index}]} for s in seals]
        given += [
            {"reasoning_details": [{"type": "reasoning.text", "text": s, "signature": s, "index": index}]}
            for s in seals
        ]
        raw = json.dumps(sealed(Reading(deltas(*given))))
        assert all(raw.count(f'"{s}"') >= 2 for s in seals)


def test_signatures_of_thoughts_beside_a_call_are_kept_with_its_number() -> None:
    signature = {"google": {"thought_signature": "c2ln"}}
    first, second = call("{}", "a", "f"), call("{}", "b", "g", index=1)
    second["tool_calls"][0]["extra_content"] = signature
    reading = Reading(deltas(first, second, {"content": "x", "extra_content": {"google": 1}}))
    assert sealed(reading) == {
        "extra_content": [
            {"call": 1, "extra_content": signature},
            {"call": None, "extra_content": {"google": 1}},
        ]
    }


def test_an_opaque_string_of_reasoning_is_kept() -> None:
    reading = Reading(deltas({"reasoning_text": "Hm", "reasoning_opaque": "b3BhcXVl"}, {"content": "x"}))
    assert reading.thinking == "Hm"
    assert sealed(reading) == {"reasoning_opaque": "b3BhcXVl"}


# ------------------------------------------------------------ properties

WORDS = st.text(max_size=6)
DELTAS = st.one_of(
    st.builds(lambda t: {"content": t}, WORDS),
    st.builds(lambda t: {"reasoning_content": t, "content": ""}, WORDS),
    st.builds(lambda t: {"content": [{"type": "text", "text": t}]}, WORDS),
    st.builds(
        lambda a, i, d, n: call(a, d, n, i),
        st.sampled_from(["", "{}", "{", '"a":1', "}", None, "日🦊"]),
        st.sampled_from([0, 1, -1, None]),
        st.sampled_from(["", "a", "b", None]),
        st.sampled_from(["", "f", "g", None]),
    ),
    st.builds(lambda t: {"reasoning_details": [{"type": "reasoning.text", "text": t, "index": 0}]}, WORDS),
)
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@settings(max_examples=150, deadline=None)
@given(st.lists(DELTAS, max_size=8), st.data(), LINE_ENDS, st.sampled_from(["stop", "tool_calls", "", None]))
def test_any_cut_gives_the_same_events(
    given_deltas: list[object], data: st.DataObject, line_end: bytes, finish: str | None
) -> None:
    body = deltas(*given_deltas, finish=finish, done=data.draw(st.booleans()))
    body = b": hello\n\n" + body + data.draw(st.sampled_from([b"", b'data: {"choi', event({"error": "x"})]))
    body = body.replace(b"\n", line_end)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)), max_size=12)))
    whole = Reading(body)
    cut = Reading(body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)]))
    assert cut.events == whole.events
    assert cut.failure == whole.failure
    if whole.failure is None:
        assert cut.answer == whole.answer


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=30) | DELTAS.map(lambda d: event(chunk(d))), max_size=6))
def test_no_bytes_make_the_reader_raise(pieces: list[bytes]) -> None:
    reading = Reading(pieces)
    assert reading.failure is not None or reading.answer is not None


def test_tc_11_long_arguments_in_tiny_fragments_take_linear_time() -> None:
    def seconds(count: int) -> float:
        head = event(chunk(call("{", "c", "f")))
        body = head + event(chunk(call('"'))) * count + event(chunk({}, "stop"))
        began = time.perf_counter()
        reading = Reading(body[at : at + 65_536] for at in range(0, len(body), 65_536))
        took = time.perf_counter() - began
        assert isinstance(reading.answer.content[0], ToolUseBlock)
        assert len(reading.answer.content[0].arguments) == count + 1
        return took

    small = min(seconds(2_000) for _ in range(3))
    assert seconds(20_000) < 10 * small * 4 + 0.5
