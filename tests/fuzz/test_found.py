"""What fuzzing has found, each kept as a test of its own."""

from __future__ import annotations

import json

import pytest

from panto.conversation import ToolUseBlock
from panto.errors import ErrorKind

from .reading import WireName, read

NINES = '"' + "9" * 5_000 + '"'  # more digits than `int` takes
END: dict[str, str] = {
    "chat": 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    "messages": 'data: {"type":"message_stop"}\n\n',
}


def stream(wire: WireName, *events: str) -> bytes:
    return ("".join(f"data: {event}\n\n" for event in events) + END[wire]).encode()


def delta(fields: str) -> str:
    return '{"choices":[{"index":0,"delta":{' + fields + "}}]}"


@pytest.mark.parametrize(
    "event",
    [
        '{"choices":[{"index":' + NINES + ',"delta":{"content":"x"}}]}',
        delta('"tool_calls":[{"index":' + NINES + ',"id":"a","function":{"name":"f"}}]'),
        '{"choices":[],"usage":{"prompt_tokens":' + NINES + "}}",
    ],
)
def test_a_number_of_any_length_in_a_string_does_no_harm(event: str) -> None:
    assert read("chat", [stream("chat", event)]).failure is None


DEEP: list[tuple[WireName, str, list[str]]] = [
    ("chat", "extra_content", [delta('"extra_content":{"a":%s}')]),
    ("chat", "reasoning_details", [delta('"reasoning_details":[{"a":%s}]')]),
    ("chat", "message", ['{"choices":[{"index":"0","message":{"content":"x","a":%s}}]}']),
    ("chat", "arguments", [delta('"tool_calls":[{"id":"a","function":{"name":"f","arguments":%s}}]')]),
    ("chat", "arguments as text", [delta('"tool_calls":[{"id":"a","function":{"name":"f","arguments":"%s"}}]')]),
    ("chat", "error", ['{"error":{"message":%s}}']),
    ("messages", "an unknown block", ['{"type":"content_block_start","index":0,"content_block":{"type":"z","a":%s}}']),
    ("messages", "the input of a call",
     ['{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","input":{"a":%s}}}']),
    ("messages", "an unknown delta", [
        '{"type":"content_block_start","index":0,"content_block":{"type":"z"}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"q","a":%s}}',
    ]),
    ("messages", "a streamed input", [
        '{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s"}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"%s"}}',
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "where", "events"), DEEP, ids=[f"{wire}: {where}" for wire, where, _ in DEEP])
def test_json_nested_to_the_limit_is_an_answer_or_a_failure(wire: WireName, where: str, events: list[str]) -> None:
    for depth in [100, *range(880, 1010), 5_000]:  # between what the reader takes and what the writer takes
        nested = "[" * depth + "]" * depth
        result = read(wire, [stream(wire, *(event.replace("%s", nested) for event in events))])
        if depth == 100 and where != "error":
            assert result.failure is None
        if result.failure is not None and where != "error":
            assert result.failure.kind is ErrorKind.PROTOCOL


def test_two_calls_with_one_id_get_two_on_the_messages_wire_too() -> None:
    def call(index: int) -> str:
        block = {"type": "tool_use", "id": "t", "name": "grep", "input": {"n": index}}
        return json.dumps({"type": "content_block_start", "index": index, "content_block": block})

    answer = read("messages", [stream("messages", call(0), call(1), call(2))]).answer
    assert answer is not None
    ids = [block.id for block in answer.content if isinstance(block, ToolUseBlock)]
    assert ids[0] == "t"
    assert len(set(ids)) == 3
