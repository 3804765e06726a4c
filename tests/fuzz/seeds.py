"""Valid streams to start from, as lists of events: what real hosts send, in small, on each wire.

An event is (name, JSON value or text); `written` makes bytes of them. Mutations work on the events or on the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

Event: TypeAlias = tuple[str, Any]
"""The name of an event, `""` for none, and its data."""


def written(events: Iterable[Event], line_end: bytes = b"\n") -> bytes:
    """The bytes of a stream."""
    out: list[bytes] = []
    for name, value in events:
        data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        head = f"event: {name}\n" if name else ""
        out.append(f"{head}data: {data}\n\n".encode("utf-8", "surrogatepass").replace(b"\n", line_end))
    return b"".join(out)


# ---------------------------------------------------------------- chat


def _chunk(delta: object = None, finish: object = None, **more: object) -> Event:
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return "", {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}


def _call(index: int, arguments: str | None, id: str | None = None, name: str | None = None) -> dict[str, object]:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    told = {k: v for k, v in (("index", index), ("id", id), ("type", "function" if id else None)) if v is not None}
    return {**told, "function": function}


_USAGE: Event = (
    "",
    {
        "choices": [],
        "usage": {
            "prompt_tokens": 20,
            "completion_tokens": 9,
            "total_tokens": 29,
            "prompt_tokens_details": {"cached_tokens": 16, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 4},
        },
    },
)
_DONE: Event = ("", "[DONE]")

CHAT: dict[str, list[Event]] = {
    "text": [
        _chunk({"role": "assistant", "content": ""}),
        _chunk({"content": "Ærø 🦊 "}),
        _chunk({"content": "日本\u2028x"}),
        _chunk({}, "stop"),
        _USAGE,
        _DONE,
    ],
    "calls": [
        _chunk({"role": "assistant", "content": None, "tool_calls": [_call(0, "", "q1", "grep")]}),
        _chunk({"tool_calls": [_call(0, '{"p":')]}),
        _chunk({"tool_calls": [_call(0, '"a🦊"}'), _call(1, '{"x": 1}', "q2", "read")]}),
        _chunk({"tool_calls": [_call(2, None, "q3", "now")]}),
        _chunk({}, "tool_calls"),
        _DONE,
    ],
    "reasoning": [
        _chunk({"reasoning_content": "Hm"}),
        _chunk({"reasoning_content": ", so."}),
        _chunk({"content": "Four."}),
        _chunk({"tool_calls": [_call(0, "{}", "t", "grep")]}, "tool_calls"),
        _USAGE,
        _DONE,
    ],
    "router": [
        _chunk({"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "a"}]}),
        _chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "b", "signature": "c2ln"}]}),
        _chunk({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "eHg="}]}),
        _chunk({"content": "ok", "extra_content": {"google": {"thought_signature": "Zz"}}}),
        _chunk({"reasoning_opaque": "oo"}, "stop"),
        ("", {"choices": [], "x_groq": {"usage": {"prompt_tokens": 1, "completion_tokens": 2}}}),
        _DONE,
    ],
    "parts": [
        _chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
        _chunk({"content": [{"type": "text", "text": "so"}, {"type": "refusal", "refusal": "no"}]}),
        _chunk({"refusal": " I will not.", "content": None}),
        _chunk({"function_call": {"name": "old", "arguments": '{"a":1}'}}),
        _chunk({}, "function_call"),
        _DONE,
    ],
    "whole": [("", {"choices": [{"index": 0, "message": {"role": "assistant", "content": "all"},
                                 "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}), _DONE],
    "error": [_chunk({"content": "Part"}), ("", {"error": {"code": 429, "message": "pool is dry"}}), _DONE],
    "named error": [_chunk({"content": "Part"}), ("error", {"message": "overloaded", "type": "server_error"})],
}  # fmt: skip

CHAT_PLAIN = [
    {"id": "c", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi",
     "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}]},
    {"error": {"message": "no", "code": "server_error"}},
    [{"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}}],
]  # fmt: skip
"""Bodies that are no event stream."""


# ---------------------------------------------------------------- Messages


def _message(*events: dict[str, Any]) -> list[Event]:
    return [(event["type"], event) for event in events]


def _start(index: int, **block: object) -> dict[str, object]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, type: str, **fields: object) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}


def _stop(index: int) -> dict[str, object]:
    return {"type": "content_block_stop", "index": index}


_BEGIN: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "m1",
        "role": "assistant",
        "content": [],
        "usage": {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 7,
                  "cache_creation_input_tokens": 3, "cache_creation": {"ephemeral_1h_input_tokens": 2}},
    },
}  # fmt: skip


def _ending(reason: str, **more: object) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, **more}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 15}}, {"type": "message_stop"}]


MESSAGES: dict[str, list[Event]] = {
    "text": _message(
        _BEGIN,
        _start(0, type="text", text=""),
        {"type": "ping"},
        _delta(0, "text_delta", text="Ærø 🦊 "),
        _delta(0, "text_delta", text="日本\u2028x"),
        _stop(0),
        *_ending("end_turn"),
    ),
    "calls": _message(
        _BEGIN,
        _start(0, type="tool_use", id="t1", name="grep", input={}),
        _delta(0, "input_json_delta", partial_json=""),
        _delta(0, "input_json_delta", partial_json='{"p":'),
        _delta(0, "input_json_delta", partial_json=' "a🦊"}'),
        _stop(0),
        _start(1, type="tool_use", id="t2", name="now", input={}),
        _stop(1),
        _start(2, type="tool_use", id="t3", name="read", input={"x": 1}),
        _stop(2),
        *_ending("tool_use"),
    ),
    "thinking": _message(
        _BEGIN,
        _start(0, type="thinking", thinking="", signature=""),
        _delta(0, "thinking_delta", thinking="Hm"),
        _delta(0, "signature_delta", signature="c2ln"),
        _stop(0),
        _start(1, type="redacted_thinking", data="ZZ=="),
        _stop(1),
        _start(2, type="text", text="so"),
        _stop(2),
        *_ending("max_tokens", stop_sequence=None),
    ),
    "overlap": _message(
        _BEGIN,
        _start(0, type="text", text=""),
        _start(1, type="tool_use", id="t1", name="grep", input={}),
        _delta(0, "text_delta", text="a"),
        _delta(1, "input_json_delta", partial_json='{"q":1}'),
        _delta(0, "text_delta", text="b"),
        _stop(1),
        _stop(0),
        *_ending("tool_use"),
    ),
    "server": _message(
        _BEGIN,
        _start(0, type="server_tool_use", id="s1", name="web_search", input={}),
        _delta(0, "input_json_delta", partial_json='{"query": "x"}'),
        _stop(0),
        _start(1, type="web_search_tool_result", tool_use_id="s1", content=[{"type": "web_search_result", "url": "u"}]),
        _stop(1),
        _start(2, type="text", text="", citations=[]),
        _delta(2, "citations_delta", citation={"type": "page", "cited_text": "x"}),
        _delta(2, "text_delta", text="found"),
        _stop(2),
        _start(3, type="compaction", content=""),
        _delta(3, "compaction_delta", content="sum"),
        _delta(3, "compaction_delta", content="mary"),
        _stop(3),
        *_ending("pause_turn"),
    ),
    "refusal": _message(
        _BEGIN,
        _start(0, type="text", text="No"),
        _stop(0),
        *_ending("refusal", stop_details={"category": "x", "explanation": "y"}),
    ),
    "error": _message(
        _BEGIN,
        _start(0, type="text", text="Part"),
        {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    ),
}

MESSAGES_PLAIN = [
    {"type": "message", "content": [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t", "name": "f",
     "input": {"a": 1}}], "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 4}},
    {"type": "error", "error": {"type": "api_error", "message": "no"}},
]  # fmt: skip
