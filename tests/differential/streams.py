"""Streams as the vendors send them, in our own words: complete enough for the vendors' own clients to read.

Each is a body of one answer; what is said of it is said by two readers who must agree.
"""

from __future__ import annotations

from typing import Any

from tests.fuzz.seeds import Event, written

# ---------------------------------------------------------------- chat


def chat(*deltas: dict[str, Any], finish: str | None = "stop", usage: dict[str, Any] | None = None) -> bytes:
    """A stream of these deltas."""

    def chunk(choices: list[Any], **more: object) -> Event:
        envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "m-1"}
        return "", {**envelope, "choices": choices, **more}

    def choice(delta: dict[str, Any], reason: str | None) -> list[Any]:
        return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]

    events = [chunk(choice({"role": "assistant", "content": ""}, None))]
    events += [chunk(choice(delta, None)) for delta in deltas]
    events.append(chunk(choice({}, finish)))
    if usage is not None:
        events.append(chunk([], usage=usage))
    return written([*events, ("", "[DONE]")])


def called(index: int, arguments: str, id: str | None = None, name: str | None = None) -> dict[str, Any]:
    """A piece of a call; the first has id and name."""
    if id is None:
        return {"index": index, "function": {"arguments": arguments}}
    return {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


CHAT_USAGE = {
    "prompt_tokens": 2_006,
    "completion_tokens": 300,
    "total_tokens": 2_306,
    "prompt_tokens_details": {"cached_tokens": 1_920, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 192, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0
    },
}  # fmt: skip

CHAT = {
    "text": chat({"content": "Hel"}, {"content": "lo"}, {"content": "."}),
    "unicode": chat({"content": "Ærø "}, {"content": "🦊\u2028日本\r\n\ttab"}, {"content": "\x7f\u0000 end  "}),
    "usage details": chat({"content": "hi"}, usage=CHAT_USAGE),
    "usage without details": chat({"content": "hi"}, usage={"prompt_tokens": 3, "completion_tokens": 0,
                                                            "total_tokens": 3}),
    "one call": chat(
        {"tool_calls": [called(0, "", "c1", "grep")]},
        {"tool_calls": [called(0, '{"pattern": "a')]},
        {"tool_calls": [called(0, '\\"b", "in": ["x", null, 1.5]}')]},
        finish="tool_calls",
    ),
    "parallel calls": chat(
        {"content": "Looking."},
        {"tool_calls": [called(0, "", "c1", "grep"), called(1, "", "c2", "read")]},
        {"tool_calls": [called(1, '{"path":')]},
        {"tool_calls": [called(0, '{"pattern":"🦊"}')]},
        {"tool_calls": [called(1, '"a.txt"}'), called(2, "{}", "c3", "now")]},
        finish="tool_calls",
        usage=CHAT_USAGE,
    ),
    "cut by the limit": chat({"content": "and so"}, finish="length"),
    "filtered": chat({"content": "and"}, finish="content_filter"),
    "refusal": chat({"refusal": "I will "}, {"refusal": "not."}),
    "long": chat(*[{"content": f"word {n} "} for n in range(500)]),
}  # fmt: skip


# ---------------------------------------------------------------- Messages


def messages(
    *blocks: tuple[dict[str, Any], list[dict[str, Any]]],
    stop: str = "end_turn",
    usage: dict[str, Any] | None = None,
    ending: dict[str, Any] | None = None,
    **delta: Any,
) -> bytes:
    """A stream of blocks, each given as its start and its deltas."""
    begin = {
        "type": "message_start",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": [],
            "stop_reason": None, "stop_sequence": None,
            "usage": usage or {"input_tokens": 25, "output_tokens": 1},
        },
    }  # fmt: skip
    events: list[dict[str, Any]] = [begin, {"type": "ping"}]
    for index, (start, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": piece} for piece in deltas]
        events.append({"type": "content_block_stop", "index": index})
    told = {"stop_reason": stop, "stop_sequence": None, **delta}
    events += [
        {"type": "message_delta", "delta": told, "usage": ending or {"output_tokens": 15}},
        {"type": "message_stop"},
    ]
    return written([(event["type"], event) for event in events])


def words(*pieces: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]


def thoughts(*pieces: str, signature: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    return {"type": "thinking", "thinking": "", "signature": ""}, [
        *deltas,
        {"type": "signature_delta", "signature": signature},
    ]


def tool(id: str, name: str, *pieces: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return {"type": "tool_use", "id": id, "name": name, "input": {}}, deltas


MESSAGES_USAGE = {
    "input_tokens": 12,
    "output_tokens": 1,
    "cache_read_input_tokens": 90_000,
    "cache_creation_input_tokens": 3_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 1_000, "ephemeral_1h_input_tokens": 2_000},
}

MESSAGES = {
    "text": messages(words("Hel", "lo", ".")),
    "unicode": messages(words("Ærø ", "🦊\u2028日本\r\n\ttab", "\x7f\u0000 end  ")),
    "usage details": messages(words("hi"), usage=MESSAGES_USAGE, ending={"output_tokens": 40}),
    "usage revised": messages(words("hi"), ending={"input_tokens": 31, "output_tokens": 40}),
    "one call": messages(tool("t1", "grep", "", '{"pattern": "a', '\\"b", "in": ["x", null, 1.5]}'), stop="tool_use"),
    "parallel calls": messages(
        words("Looking."),
        tool("t1", "grep", '{"pattern":', '"🦊"}'),
        tool("t2", "now"),
        tool("t3", "read", '{"path":"a.txt"}'),
        stop="tool_use",
    ),
    "thinking": messages(thoughts("Hm", ", so.", signature="c2ln"), words("Four.")),
    "hidden thinking": messages(
        thoughts(signature="c2ln"), ({"type": "redacted_thinking", "data": "ZZ=="}, []), words("Four.")
    ),
    "interleaved": messages(
        thoughts("a", signature="QQ=="),
        tool("t1", "grep", '{"pattern":"x"}'),
        thoughts("b", signature="Qg=="),
        tool("t2", "grep", '{"pattern":"y"}'),
        stop="tool_use",
    ),
    "cut by the limit": messages(words("and so"), stop="max_tokens"),
    "a stop sequence": messages(words("one"), stop="stop_sequence", stop_sequence="two"),
    "refusal": messages(words("I will not."), stop="refusal"),
    "paused": messages(words("wait"), stop="pause_turn"),
    "long": messages(words(*[f"word {n} " for n in range(500)])),
}
