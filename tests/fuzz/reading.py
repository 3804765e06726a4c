"""What must hold of a decoder whatever it is fed: the one function that the property tests and the fuzzer share.

The law: nothing but a typed failure or a sound answer comes out. `read` raises `AssertionError` for all else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

from panto._core.view import View
from panto._wire.anthropic_messages import MessagesWire
from panto._wire.failures import Failure
from panto._wire.names import NameTable
from panto._wire.openai_chat import ChatWire
from panto._wire.protocol import Answer, Decoder, StreamEvent
from panto.config import AnthropicMessagesConfig, OpenAIChatConfig, StopReason
from panto.conversation import (
    ContentBlock,
    Message,
    MessageRole,
    OpaqueBlock,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from panto.errors import ErrorKind
from panto.events import BlockComplete, BlockStart, ContentDelta, ToolDetails

WireName: TypeAlias = Literal["chat", "messages"]

NAMES = NameTable([("", name) for name in ("grep", "read", "now", "a.b")])
WIRES = {
    "chat": ChatWire(OpenAIChatConfig(model="m", base_url="http://h.test/v1"), NAMES),
    "messages": MessagesWire(AnthropicMessagesConfig(model="m", base_url="http://h.test"), NAMES),
}


class Read:
    """What came of one body: the events, and either a failure or an answer."""

    def __init__(self, events: list[StreamEvent], failure: Failure | None, answer: Answer | None) -> None:
        self.events = events
        self.failure = failure
        self.answer = answer

    def told(self) -> tuple[list[StreamEvent], Failure | None, Answer | None]:
        return self.events, self.failure, self.answer


def read(wire: WireName, chunks: Iterable[bytes]) -> Read:
    """Feed the chunks as the loop does, and check all that must hold."""
    decoder: Decoder = WIRES[wire].decoder("s")
    events: list[StreamEvent] = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        events += decoder.feed(chunk)
        if decoder.done or decoder.failure is not None:
            break
    if decoder.failure is None:
        events += decoder.finish()
    _check_events(events)
    _check_size(events, size)
    if decoder.failure is not None:
        _check_failure(decoder.failure)
        _check_blocks(wire, decoder.partial(()), StopReason.ABORTED)
        assert decoder.feed(b"data: {}\n\n") == []  # it stays over
        return Read(events, decoder.failure, None)
    answer = decoder.answer()
    _check_answer(answer, events)
    _check_blocks(wire, answer.content, answer.stop_reason)
    return Read(events, None, answer)


def _check_events(events: Sequence[StreamEvent]) -> None:
    """Order, indices and types; true of a failed answer too."""
    started: list[BlockStart] = []
    complete: set[int] = set()
    detailed: set[int] = set()
    for event in events:
        match event:
            case BlockStart():
                assert event.index == len(started)
                started.append(event)
            case ContentDelta():
                assert event.index < len(started)
                assert event.index not in complete
                assert event.text
                assert event.type is started[event.index].type
            case ToolDetails():
                assert event.index < len(started)
                assert event.index not in complete | detailed
                assert event.id
                detailed.add(event.index)
            case BlockComplete():
                assert event.index < len(started)
                assert event.index not in complete
                complete.add(event.index)


def _check_size(events: Sequence[StreamEvent], size: int) -> None:
    """What comes out is in proportion to what went in. JSON written anew may escape one byte as six."""
    shown = sum(len(event.text) for event in events if isinstance(event, ContentDelta))
    kept = sum(len(_text(event.block)) for event in events if isinstance(event, BlockComplete))
    assert shown <= 8 * size + 100
    assert kept <= 8 * size + 100
    assert len(events) <= 4 * size + 100


def _text(block: ContentBlock) -> str:
    match block:
        case TextualBlock(text) | ThinkingBlock(text):
            return text
        case ToolUseBlock():
            return block.arguments
        case OpaqueBlock():
            return block.raw
        case _:
            raise AssertionError(f"a decoder made a {type(block).__name__}")


def _check_failure(failure: Failure) -> None:
    assert isinstance(failure.kind, ErrorKind)
    assert failure.message.strip()
    failure.message.encode()


def _check_answer(answer: Answer, events: Sequence[StreamEvent]) -> None:
    """The events tell what the message says."""
    completed = sorted((e for e in events if isinstance(e, BlockComplete)), key=lambda e: e.index)
    assert [e.index for e in completed] == list(range(len(answer.content)))
    assert sum(isinstance(e, BlockStart) for e in events) == len(answer.content)
    assert all(e.block is answer.content[e.index] for e in completed)
    shown: dict[int, str] = {}
    for event in events:
        if isinstance(event, ContentDelta):
            shown[event.index] = shown.get(event.index, "") + event.text
    details = {e.index: (e.id, e.name) for e in events if isinstance(e, ToolDetails)}
    for index, block in enumerate(answer.content):
        match block:
            case TextualBlock():
                assert shown[index] == block.text
            case ThinkingBlock():
                assert shown.get(index, "") == ("" if block.redacted is not None else block.text)
            case ToolUseBlock():
                assert shown.get(index, "") == block.arguments
                assert details.pop(index) == (block.id, block.name)
            case OpaqueBlock():
                assert index not in shown
            case _:
                raise AssertionError(block)
    assert not details
    assert isinstance(answer.stop_reason, StopReason)
    usage = answer.usage
    if usage is not None:
        counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
        assert all(count is None or count >= 0 for count in counts)


def _check_blocks(wire: WireName, blocks: Sequence[ContentBlock], stop: StopReason) -> None:
    """Text is Unicode, ids are apart, and the message can be sent again on its own wire and on the other."""
    for block in blocks:
        _text(block).encode()
    calls = [block for block in blocks if isinstance(block, ToolUseBlock)]
    assert all(block.id for block in calls)
    assert len({block.id for block in calls}) == len(calls)
    identity = WIRES[wire].target.identity
    history = [
        Message(MessageRole.USER, [TextualBlock("go")]),
        Message(MessageRole.ASSISTANT, list(blocks), identity=identity, stop_reason=stop),
    ]
    if calls:
        answered: list[ContentBlock] = [ToolResultBlock(block.id, (TextPart("r"),)) for block in calls]
        history.append(Message(MessageRole.USER, answered))
    history.append(Message(MessageRole.USER, [TextualBlock("on")]))
    for target in WIRES.values():
        viewed = View(target.target).update(history)
        body = target.request(viewed.system, (), viewed.items, first=True, key=None).body
        assert _parsed(body)["messages"]


def _parsed(body: bytes) -> dict[str, Any]:
    """The JSON of a request; arguments that were nested as deep as Python reads by default are nested deeper in it."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 500)
    try:
        value: dict[str, Any] = json.loads(body.decode())
    finally:
        sys.setrecursionlimit(limit)
    return value
