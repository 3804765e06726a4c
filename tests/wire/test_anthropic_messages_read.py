"""What a stream of Anthropic's Messages is read as: blocks, events, usage, stop reason, failure."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panto._wire.anthropic_messages_read import MessagesDecoder
from panto._wire.names import NameTable
from panto._wire.protocol import Answer, Decoder, StreamEvent
from panto.config import StopReason
from panto.conversation import (
    ContentBlock,
    ContentBlockType,
    OpaqueBlock,
    TextualBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from panto.errors import ErrorKind
from panto.events import BlockComplete, BlockStart, ContentDelta, ToolDetails
from panto.usage import Usage

Event = dict[str, Any]

TEXT, THINKING, TOOL, OPAQUE = (
    ContentBlockType.TEXT,
    ContentBlockType.THINKING,
    ContentBlockType.TOOL_USE,
    ContentBlockType.OPAQUE,
)


def begin(**usage: Any) -> Event:
    return {
        "type": "message_start",
        "message": {"id": "m1", "role": "assistant", "content": [], "usage": usage or None},
    }


def start(index: int, **block: Any) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, type: str, **fields: Any) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}


def text(index: int, *pieces: str) -> list[Event]:
    return [start(index, type="text", text=""), *(delta(index, "text_delta", text=p) for p in pieces), stop(index)]


def tool(index: int, *pieces: str, id: str | None = "t1", name: str = "grep", **more: Any) -> list[Event]:
    opening = start(index, type="tool_use", id=id, name=name, **{"input": {}, **more})
    return [opening, *(delta(index, "input_json_delta", partial_json=p) for p in pieces), stop(index)]


def stop(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None = "end_turn", usage: Event | None = None, **more: Any) -> list[Event]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage},
        {"type": "message_stop"},
    ]


def sse(*events: Event | str | list[Event], named: bool = True) -> bytes:
    out = b""
    for event in [e for part in events for e in (part if isinstance(part, list) else [part])]:
        if named and isinstance(event, dict):
            out += b"event: " + str(event["type"]).encode() + b"\n"
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        out += b"data: " + data.encode("utf-8", "surrogatepass") + b"\n\n"
    return out


def read(*chunks: bytes, names: NameTable | None = None) -> tuple[MessagesDecoder, list[StreamEvent]]:
    decoder = MessagesDecoder("seed", names or NameTable([]))
    events: list[StreamEvent] = []
    for chunk in chunks:
        if not decoder.done and decoder.failure is None:
            events += decoder.feed(chunk)
    return decoder, events + decoder.finish()


def answer(*events: Event | str | list[Event], named: bool = True) -> Answer:
    decoder, _ = read(sse(*events, named=named))
    assert decoder.failure is None
    return decoder.answer()


def content(*events: Event | str | list[Event]) -> list[ContentBlock]:
    return answer(*events).content


def kind(*chunks: bytes) -> ErrorKind | None:
    decoder, _ = read(*chunks)
    return None if decoder.failure is None else decoder.failure.kind


# ---------------------------------------------------------------- blocks and their events


def test_text_comes_as_start_deltas_and_the_whole_block() -> None:
    _, events = read(sse(begin(), text(0, "Hel", "", "lo"), end()))
    assert events == [
        BlockStart(0, TEXT),
        ContentDelta(0, TEXT, "Hel"),
        ContentDelta(0, TEXT, "lo"),
        BlockComplete(0, TextualBlock("Hello")),
    ]


def test_text_that_stands_in_the_block_start_is_not_lost() -> None:
    assert content(begin(), start(0, type="text", text="Hel"), delta(0, "text_delta", text="lo"), stop(0), end()) == [
        TextualBlock("Hello")
    ]


def test_a_text_block_that_shows_nothing_is_no_block() -> None:
    assert content(begin(), text(0), text(1, ""), text(2, "Hi"), end()) == [TextualBlock("Hi")]


def test_rt_01_thinking_keeps_its_signature() -> None:
    decoder, events = read(
        sse(
            begin(),
            start(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="a "),
            delta(0, "thinking_delta", thinking="b"),
            delta(0, "signature_delta", signature="c2ln"),
            stop(0),
            tool(1, '{"p":1}'),
            end("tool_use"),
        )
    )
    assert decoder.answer().content == [ThinkingBlock("a b", "c2ln"), ToolUseBlock("t1", "grep", '{"p":1}')]
    assert events[1:3] == [ContentDelta(0, THINKING, "a "), ContentDelta(0, THINKING, "b")]


def test_thinking_that_is_empty_but_signed_is_a_block() -> None:
    signed = [start(0, type="thinking", thinking=""), delta(0, "signature_delta", signature="s"), stop(0)]
    assert content(begin(), signed, text(1, "Hi"), end()) == [ThinkingBlock("", "s"), TextualBlock("Hi")]
    assert content(begin(), start(0, type="thinking", thinking="", signature="s"), stop(0), end()) == [
        ThinkingBlock("", "s")
    ]


def test_rt_02_thinking_of_a_server_that_never_signs_has_no_signature() -> None:
    thought = [start(0, type="thinking", thinking="", signature=""), delta(0, "thinking_delta", thinking="hm"), stop(0)]
    assert content(begin(), thought, text(1, "Hi"), end())[0] == ThinkingBlock("hm", None)


def test_rt_03_redacted_thinking_is_kept_in_its_place() -> None:
    blocks = content(
        begin(), start(0, type="redacted_thinking", data="ZZ"), stop(0), text(1, "Hi"),
        start(2, type="redacted_thinking", data="YY"), stop(2), end(),
    )  # fmt: skip
    assert blocks == [ThinkingBlock(redacted="ZZ"), TextualBlock("Hi"), ThinkingBlock(redacted="YY")]


def test_a_call_tells_its_tool_before_its_arguments() -> None:
    _, events = read(sse(begin(), tool(0, "", '{"q":', '"x"}'), end("tool_use")))
    assert events == [
        BlockStart(0, TOOL),
        ToolDetails(0, "t1", "grep"),
        ContentDelta(0, TOOL, '{"q":'),
        ContentDelta(0, TOOL, '"x"}'),
        BlockComplete(0, ToolUseBlock("t1", "grep", '{"q":"x"}')),
    ]


@pytest.mark.parametrize("pieces", [(), ("",), (" ", "\n")])
def test_tc_05_a_call_without_argument_text_has_no_arguments(pieces: tuple[str, ...]) -> None:
    assert content(begin(), tool(0, *pieces), end("tool_use")) == [ToolUseBlock("t1", "grep", "")]


def test_tc_06_a_placeholder_before_the_real_arguments_is_dropped() -> None:
    decoder, events = read(sse(begin(), tool(0, "{}", '{"q":', '"x"}'), end("tool_use")))
    assert decoder.answer().content == [ToolUseBlock("t1", "grep", '{"q":"x"}')]
    assert "".join(e.text for e in events if isinstance(e, ContentDelta)) == '{"q":"x"}'
    assert content(begin(), tool(0, "{}"), end("tool_use")) == [ToolUseBlock("t1", "grep", "{}")]


def test_arguments_in_the_block_start_count_when_none_are_streamed() -> None:
    decoder, events = read(sse(begin(), tool(0, input={"q": "ø"}), end("tool_use")))
    (block,) = decoder.answer().content
    assert isinstance(block, ToolUseBlock)
    assert json.loads(block.arguments) == {"q": "ø"}
    assert [e.text for e in events if isinstance(e, ContentDelta)] == [block.arguments]
    assert content(begin(), tool(0, '{"q":2}', input={"q": 1}), end())[0] == ToolUseBlock("t1", "grep", '{"q":2}')


def test_tc_07_a_call_without_an_id_gets_a_short_one_of_its_own() -> None:
    blocks = content(begin(), tool(0, id=""), tool(1, id=None), tool(2), end("tool_use"))
    ids = [block.id for block in blocks if isinstance(block, ToolUseBlock)]
    assert len(set(ids)) == 3
    assert ids[2] == "t1"
    assert all(0 < len(id) <= 40 and id.replace("_", "").isalnum() for id in ids)


def test_tn_01_a_call_of_an_encoded_tool_comes_back_under_its_own_name() -> None:
    decoder, _ = read(sse(begin(), tool(0, name="files_read"), end()), names=NameTable([("", "files.read")]))
    assert [b.name for b in decoder.answer().content if isinstance(b, ToolUseBlock)] == ["files.read"]


def test_rt_07_blocks_keep_their_order() -> None:
    def thought(index: int, words: str) -> list[Event]:
        return [start(index, type="thinking", thinking=words, signature=f"s{index}"), stop(index)]

    blocks = content(begin(), thought(0, "A"), text(1, "t"), tool(2, id="a"), thought(3, "B"), tool(4, id="b"), end())
    assert [type(b) for b in blocks] == [ThinkingBlock, TextualBlock, ToolUseBlock, ThinkingBlock, ToolUseBlock]


def test_blocks_that_overlap_are_kept_apart() -> None:
    events: list[Event] = [
        start(0, type="thinking", thinking=""), delta(0, "thinking_delta", thinking="a"),
        start(1, type="text", text=""), delta(1, "text_delta", text="x"),
        delta(0, "thinking_delta", thinking="b"), stop(0), delta(1, "text_delta", text="y"), stop(1),
    ]  # fmt: skip
    assert content(begin(), events, end()) == [ThinkingBlock("ab"), TextualBlock("xy")]


def test_an_index_used_again_starts_a_new_block() -> None:
    first, second = text(0, "a")[:-1], text(0, "b")
    assert content(begin(), first, second, end()) == [TextualBlock("a"), TextualBlock("b")]


def test_deltas_without_a_block_start_make_a_block() -> None:
    assert content(begin(), delta(0, "text_delta", text="Hi"), stop(0), end()) == [TextualBlock("Hi")]


def test_arguments_without_a_call_are_a_protocol_error() -> None:
    assert kind(sse(begin(), delta(0, "input_json_delta", partial_json='{"a"'), end())) is ErrorKind.PROTOCOL


# ---------------------------------------------------------------- opaque blocks


def test_an_unknown_block_is_kept_byte_for_byte() -> None:
    raw = '{"type":"web_search_tool_result", "tool_use_id":"s1","content":[{"n":1.0,"t":"\\u00e9"}]}'
    stream = sse(begin(), f'{{"type":"content_block_start","index":0,"content_block":{raw}}}', stop(0), end())
    decoder, events = read(stream)
    assert decoder.answer().content == [OpaqueBlock("web_search_tool_result", raw)]
    assert events == [BlockStart(0, OPAQUE), BlockComplete(0, OpaqueBlock("web_search_tool_result", raw))]


def test_a_streamed_input_is_parsed_and_in_place() -> None:
    call = [start(0, type="server_tool_use", id="s1", name="web_search", input={}), stop(0)]
    call[1:1] = [delta(0, "input_json_delta", partial_json=p) for p in ("", '{"query": ', '"x"}')]
    (block,) = content(begin(), call, end())
    assert isinstance(block, OpaqueBlock)
    assert json.loads(block.raw) == {
        "type": "server_tool_use",
        "id": "s1",
        "name": "web_search",
        "input": {"query": "x"},
    }


def test_an_input_in_the_block_start_stays_when_none_is_streamed() -> None:
    call = [start(0, type="server_tool_use", input={"u": 1}), delta(0, "input_json_delta", partial_json=""), stop(0)]
    (block,) = content(begin(), call, end())
    assert isinstance(block, OpaqueBlock)
    assert json.loads(block.raw)["input"] == {"u": 1}


def test_deltas_of_unknown_kinds_grow_their_block() -> None:
    events = [
        start(0, type="compaction", content=None, encrypted_content=None),
        delta(0, "compaction_delta", content="Earlier ", encrypted_content="x1"),
        delta(0, "compaction_delta", content="words.", encrypted_content=None),
        stop(0),
    ]
    (block,) = content(begin(), events, end())
    assert isinstance(block, OpaqueBlock)
    assert json.loads(block.raw) == {"type": "compaction", "content": "Earlier words.", "encrypted_content": "x1"}


def test_citations_leave_the_text_as_it_is() -> None:
    events = [start(0, type="text", text="", citations=[]), delta(0, "text_delta", text="So")]
    events += [delta(0, "citations_delta", citation={"cited_text": "x"}), delta(0, "text_delta", text="."), stop(0)]
    assert content(begin(), events, end()) == [TextualBlock("So.")]


# ---------------------------------------------------------------- usage and stop reasons


def test_us_02_cached_tokens_are_beside_the_input_and_nothing_is_subtracted() -> None:
    told: dict[str, Any] = {
        "input_tokens": 12,
        "cache_read_input_tokens": 90000,
        "cache_creation_input_tokens": 3000,
        "output_tokens": 1,
    }
    told |= {"cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000}}
    usage = answer(begin(**told), text(0, "Hi"), end(usage={"output_tokens": 40})).usage
    assert usage is not None
    assert usage == Usage(12, 40, 90000, 3000, 2000)
    assert usage.context_tokens == 93052


def test_us_04_output_counts_are_cumulative() -> None:
    again = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 7}}
    assert answer(begin(input_tokens=25, output_tokens=1), again, end(usage={"output_tokens": 15})).usage == Usage(
        25, 15
    )


def test_us_05_thinking_tokens_are_a_part_of_the_output() -> None:
    told = {"output_tokens": 266, "output_tokens_details": {"thinking_tokens": 261}}
    assert answer(begin(input_tokens=1), end(usage=told)).usage == Usage(1, 266, reasoning_tokens=261)


def test_input_that_is_revised_at_the_end_replaces_the_first_count() -> None:
    assert answer(
        begin(input_tokens=600, output_tokens=1), end(usage={"input_tokens": 28, "output_tokens": 9})
    ).usage == Usage(28, 9)


def test_usage_that_nobody_told_is_none() -> None:
    assert answer(begin(), text(0, "Hi"), end()).usage is None
    odd = answer(begin(input_tokens=None, output_tokens="7"), end(usage={"output_tokens": -1})).usage
    assert odd == Usage(output_tokens=0)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", StopReason.STOP), ("stop_sequence", StopReason.STOP), ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH), ("tool_use", StopReason.TOOL_USE),
        ("pause_turn", StopReason.PAUSE), ("refusal", StopReason.REFUSAL), ("unheard_of", StopReason.UNKNOWN),
    ],
)  # fmt: skip
def test_stop_reasons_are_translated_and_the_providers_word_is_kept(word: str, reason: StopReason) -> None:
    got = answer(begin(), text(0, "Hi"), end(word))
    assert (got.stop_reason, got.stop_raw) == (reason, word)


def test_tc_08_calls_under_an_unheard_of_word_are_tool_use() -> None:
    assert answer(begin(), tool(0), end("unheard_of")).stop_reason is StopReason.TOOL_USE


def test_a_stop_sequence_and_the_details_of_a_refusal_are_kept() -> None:
    decoder, _ = read(sse(begin(), end("stop_sequence", stop_sequence="END")))
    assert decoder.stop_sequence == "END"
    decoder, _ = read(
        sse(begin(), text(0, "No."), end("refusal", stop_details={"type": "refusal", "category": "cyber"}))
    )
    assert decoder.stop_details == {"type": "refusal", "category": "cyber"}
    assert decoder.answer().content == [TextualBlock("No.")]


def test_tc_09_a_message_without_blocks_is_an_answer_without_blocks() -> None:
    got = answer(begin(), end("tool_use"))
    assert (got.content, got.stop_reason) == ([], StopReason.TOOL_USE)


def test_tc_10_a_call_cut_by_the_limit_keeps_what_came() -> None:
    cut = tool(0, '{"path":"a","te')[:-1]
    got = answer(begin(), cut, end("max_tokens"))
    assert got.content == [ToolUseBlock("t1", "grep", '{"path":"a","te')]
    assert got.stop_reason is StopReason.LENGTH


# ---------------------------------------------------------------- the end, and what is no end


def test_sse_06_a_stream_that_just_ends_is_no_answer() -> None:
    for events in ([], [begin()], [begin(), *text(0, "Hi")], [begin(), *tool(0, '{"a":')[:-1]]):
        decoder, seen = read(sse(events))
        assert decoder.failure is not None
        assert decoder.failure.kind is ErrorKind.STREAM_ENDED
        assert decoder.failure.retryable
        assert not any(isinstance(e, BlockComplete) and isinstance(e.block, ToolUseBlock) for e in seen)


def test_sse_07_either_end_signal_is_enough() -> None:
    assert answer(begin(), text(0, "Hi"), end()[:1]).stop_reason is StopReason.STOP
    assert answer(begin(), text(0, "Hi"), {"type": "message_stop"}).stop_reason is StopReason.UNKNOWN
    assert answer(begin(), text(0, "Hi"), end()[:1], "[DONE]").content == [TextualBlock("Hi")]


def test_done_alone_is_no_end_signal() -> None:
    assert kind(sse(begin(), text(0, "Hi"), "[DONE]")) is ErrorKind.STREAM_ENDED


def test_sse_08_after_the_end_marker_nothing_more_need_be_read() -> None:
    for last in (end()[1], "[DONE]"):
        decoder = MessagesDecoder("seed", NameTable([]))
        done = []
        for part in (sse(begin(), text(0, "Hi"), end()[:1]), sse(last)):
            decoder.feed(part)
            done.append(decoder.done)
        assert done == [False, True]
        assert decoder.feed(sse(text(1, "more"))) == []


def test_blocks_that_are_not_stopped_are_whole_at_the_end() -> None:
    decoder, events = read(sse(begin(), text(0, "Hi")[:-1], tool(1, "{}")[:-1], end()))
    assert decoder.answer().content == [TextualBlock("Hi"), ToolUseBlock("t1", "grep", "{}")]
    assert sum(isinstance(e, BlockComplete) for e in events) == 2


def test_what_is_torn_after_the_end_signal_is_dropped() -> None:
    good = sse(begin(), text(0, "Hi"), end()[:1])
    for tail in (b'event: message_stop\ndata: {"ty', b"data: {oops}\n\n", sse(end()[1])[:-2]):
        decoder, _ = read(good + tail)
        assert decoder.failure is None
        assert decoder.answer().content == [TextualBlock("Hi")]


def test_what_is_torn_before_the_end_signal_fails_the_answer() -> None:
    assert kind(sse(begin(), text(0, "Hi")) + b'data: {"type":"content_blo') is ErrorKind.STREAM_ENDED
    assert kind(sse(begin(), text(0, "Hi")) + b"data: {oops}\n\n" + sse(end())) is ErrorKind.PROTOCOL


def test_pings_comments_and_unheard_of_events_mean_nothing() -> None:
    noise = b': wait\n\nevent: ping\ndata: {"type": "ping"}\n\ndata: {"type":"news","a":[1]}\n\n'
    noise += b"data: 7\n\nevent: ping\ndata: x\n\n"
    decoder, _ = read(noise + sse(begin()) + noise + sse(text(0, "Hi")) + noise + sse(end()))
    assert decoder.answer().content == [TextualBlock("Hi")]


def test_events_without_names_and_indices_are_read_by_their_type() -> None:
    events: list[Event] = [begin(), *text(0, "Hi"), *tool(1, '{"a":', "1}"), *end("tool_use")]
    for event in events:
        event.pop("index", None)
    assert answer(events, named=False).content == [TextualBlock("Hi"), ToolUseBlock("t1", "grep", '{"a":1}')]


# ---------------------------------------------------------------- errors


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


@pytest.mark.parametrize("before", [[], [begin(), *text(0, "Partial")[:-1]]])
def test_sse_10_an_error_event_fails_the_answer(before: list[Event]) -> None:
    decoder, _ = read(sse(before, OVERLOADED))
    assert decoder.failure is not None
    assert (decoder.failure.kind, decoder.failure.message) == (ErrorKind.OVERLOADED, "busy")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'event: error\ndata: {"code":500,"message":"boom","type":"server_error"}\n\n', ErrorKind.SERVER),
        (b'data: {"error":{"code":429,"message":"pool is dry","type":"rate_limit_error"}}\n\n', ErrorKind.RATE_LIMIT),
        (b'data: {"error":"overloaded_error"}\n\n', ErrorKind.SERVER),
        (b'event: error\ndata: "boom"\n\n', ErrorKind.SERVER),
        (b'event: error\ndata: {"message":"boom"}\n\n', ErrorKind.SERVER),
    ],
)
def test_sse_09_errors_of_every_shape_in_a_stream_fail_the_answer(data: bytes, expected: ErrorKind) -> None:
    assert kind(sse(begin(), text(0, "Hi")) + data + sse("[DONE]")) is expected


def test_an_error_after_the_stop_reason_still_fails_the_answer() -> None:
    assert kind(sse(begin(), text(0, "Hi"), end()[:1], OVERLOADED)) is ErrorKind.OVERLOADED


def test_an_error_body_under_status_200_is_that_error() -> None:
    for gap in (b"", b"\n  "):
        decoder, events = read(gap, b'{"error":{"type":"authentication_er', b'ror","message":"bad key"}}')
        assert events == []
        assert decoder.failure is not None
        assert (decoder.failure.kind, decoder.failure.message) == (ErrorKind.AUTH, "bad key")


def test_a_whole_message_for_a_streaming_request_is_read() -> None:
    message = {
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "ZZ"},
            {"type": "text", "text": "On it"}, {"type": "tool_use", "id": "t1", "name": "grep", "input": {"a": 1}},
            {"type": "tool_use", "id": "t2", "name": "grep", "input": {}}, {"type": "x", "y": 1},
        ],
    }  # fmt: skip
    decoder, events = read(json.dumps(message).encode())
    assert decoder.failure is None
    got = decoder.answer()
    assert got.content == [
        ThinkingBlock("hm", "s"), ThinkingBlock(redacted="ZZ"), TextualBlock("On it"),
        ToolUseBlock("t1", "grep", '{"a": 1}'), ToolUseBlock("t2", "grep", ""),
        OpaqueBlock("x", '{"type": "x", "y": 1}'),
    ]  # fmt: skip
    assert (got.usage, got.stop_reason) == (Usage(3, 4), StopReason.TOOL_USE)
    assert [e.block for e in events if isinstance(e, BlockComplete)] == got.content


def test_a_body_that_is_no_stream_and_no_message_is_a_protocol_error() -> None:
    assert kind(b"<html><title>Welcome</title></html>") is ErrorKind.PROTOCOL
    assert kind(b'{"hello": 1}') is ErrorKind.PROTOCOL
    assert kind(b'{"type":"message","content":[{"type":"te') is ErrorKind.STREAM_ENDED
    assert kind(b"") is ErrorKind.STREAM_ENDED


# ---------------------------------------------------------------- what was shown of an answer that failed


def test_partial_keeps_shown_text_and_leaves_out_what_is_not_whole() -> None:
    decoder, _ = read(
        sse(
            begin(),
            [start(0, type="thinking", thinking="a", signature="s"), stop(0)],
            [start(1, type="thinking", thinking="b"), stop(1)],
            text(2, "Hel", "lo")[:-1],
            tool(3, "{}"),
            tool(4, '{"a"')[:-1],
        )
    )
    assert decoder.partial([]) == [ThinkingBlock("a", "s"), TextualBlock("Hello")]


def test_partial_leaves_out_what_nobody_has_seen() -> None:
    decoder = MessagesDecoder("seed", NameTable([]))
    events = decoder.feed(sse(begin(), text(0, "Hel", "lo"), text(1, "more")))
    assert decoder.partial(events[2:]) == [TextualBlock("Hel")]
    assert decoder.partial(events) == []


# ---------------------------------------------------------------- bytes


STREAM = sse(
    begin(input_tokens=3, output_tokens=1),
    [start(0, type="thinking", thinking=""), delta(0, "thinking_delta", thinking="Ærø 🦊")],
    delta(0, "signature_delta", signature="s"),
    [stop(0), *text(1, "a\u2028b\u0085c", " 日本", "\r\n")],
    '{"type": "ping"}',
    start(2, type="server_tool_use", id="s", name="w", input={}),
    [delta(2, "input_json_delta", partial_json=piece) for piece in ('{"q":', "1}")],
    stop(2),
    tool(3, "{}", '{"🦊":', '"x"}'),
    end("tool_use", {"output_tokens": 9}),
)  # fmt: skip


def test_sse_01_characters_cut_in_half_come_out_whole() -> None:
    decoder, events = read(*(STREAM[at : at + 1] for at in range(len(STREAM))))
    assert (decoder.answer(), events) == (read(STREAM)[0].answer(), read(STREAM)[1])
    assert decoder.answer().content[1] == TextualBlock("a\u2028b\u0085c 日本\r\n")


@given(st.lists(st.integers(0, len(STREAM)), max_size=8), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_cut_and_any_line_end_gives_the_same_events(cuts: list[int], newline: bytes, bom: bool) -> None:
    body = (b"\xef\xbb\xbf" if bom else b"") + STREAM.replace(b"\n", newline)
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    decoder, events = read(*(body[a:b] for a, b in pairwise(places)))
    whole, expected = read(STREAM)
    assert decoder.failure is None
    assert (events, decoder.answer()) == (expected, whole.answer())


def test_text_with_lone_surrogates_or_bad_utf8_is_mended() -> None:
    bad = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\ud83db \\ud83d\\ude00"}}'
    assert content(begin(), start(0, type="text", text=""), bad, end()) == [TextualBlock("a\ufffdb 😀")]
    broken = sse(begin(), text(0, "a?b"), end()).replace(b"?", b"\xff")
    assert read(broken)[0].answer().content == [TextualBlock("a\ufffdb")]


def test_tc_11_long_arguments_take_linear_time() -> None:
    piece = sse(delta(0, "input_json_delta", partial_json="x"))
    opening, closing = (
        sse(begin(), tool(0, '{"a":"')[:2]),
        sse(delta(0, "input_json_delta", partial_json='"}'), stop(0), end()),
    )
    began = time.process_time()
    decoder, _ = read(opening, *([piece * 100] * 500), closing)
    assert time.process_time() - began < 5
    (block,) = decoder.answer().content
    assert isinstance(block, ToolUseBlock)
    assert len(block.arguments) == 50_008


def test_sse_11_one_very_long_line_is_read() -> None:
    stream = sse(begin(), text(0, "x" * 3_000_000), end())
    decoder, _ = read(*(stream[at : at + 16384] for at in range(0, len(stream), 16384)))
    assert decoder.answer().content == [TextualBlock("x" * 3_000_000)]


_scraps = st.one_of(
    st.sampled_from(STREAM.split(b"\n\n")).map(lambda block: block + b"\n\n"),
    st.binary(max_size=30),
    st.sampled_from([b'data: {"type":"error"}\n\n', b"data: [DONE]\n\n", b"data: null\n\n", b"data: [[\n\n"]),
    st.sampled_from([b"{", b"<", b"\r", b": x\n"]),
    st.dictionaries(
        st.sampled_from(["type", "index", "delta", "content_block", "usage", "message", "error"]),
        st.sampled_from(["content_block_start", "content_block_delta", "message_delta", 0, -1, None, [], {}, True,
                         {"type": "text"}, {"type": "tool_use", "input": 3}, {"type": 7}, {"text": 1},
                         {"stop_reason": 4}]),
    ).map(lambda event: sse(event, named=False)),
)  # fmt: skip


@given(st.lists(_scraps, max_size=20))
@settings(max_examples=300, deadline=None)
def test_no_bytes_crash_the_decoder_and_its_events_fit_its_answer(scraps: list[bytes]) -> None:
    decoder, events = read(*scraps)
    starts = [e.index for e in events if isinstance(e, BlockStart)]
    assert starts == list(range(len(starts)))
    shown: dict[int, str] = dict.fromkeys(starts, "")
    for event in events:
        if isinstance(event, ContentDelta):
            assert event.text
            shown[event.index] += event.text
    if decoder.failure is None:
        blocks = decoder.answer().content
        assert [
            e.block for e in sorted((e for e in events if isinstance(e, BlockComplete)), key=lambda e: e.index)
        ] == blocks
        for index, block in enumerate(blocks):
            if isinstance(block, TextualBlock) or (isinstance(block, ThinkingBlock) and block.redacted is None):
                assert shown[index] == block.text
            elif isinstance(block, ToolUseBlock):
                assert shown[index] == block.arguments
    assert isinstance(decoder.partial([]), list)


def test_the_decoder_is_one() -> None:
    decoder: Decoder = MessagesDecoder("seed", NameTable([]))
    assert not decoder.done
