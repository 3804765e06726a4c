"""Streams of the chat wire for tests, written as their deltas, and a reader that shows what came of one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from panto._wire.names import NameTable
from panto._wire.openai_chat_read import ChatDecoder
from panto._wire.protocol import StreamEvent
from panto.conversation import OpaqueBlock, TextualBlock, ThinkingBlock, ToolUseBlock
from panto.events import BlockComplete, BlockStart, ContentDelta, ToolDetails

DONE = b"data: [DONE]\n\n"


def event(value: object, name: str = "") -> bytes:
    """One event as a host writes it."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def chunk(delta: object = None, finish: object = None, index: int = 0, **more: object) -> dict[str, Any]:
    """A chunk with one choice."""
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}


def deltas(*given: object, finish: object = "stop", done: bool = True) -> bytes:
    """A whole stream of these deltas."""
    body = b"".join(event(chunk(delta)) for delta in given)
    if finish is not None:
        body += event(chunk({}, finish))
    return body + (DONE if done else b"")


def call(arguments: object = None, id: object = None, name: object = None, index: object = 0) -> dict[str, Any]:
    """A delta with one fragment of a call; what is `None` is left out."""
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    told = {k: v for k, v in (("index", index), ("id", id)) if v is not None}
    return {"tool_calls": [{**told, "function": function}]}


class Reading:
    """What a decoder made of a body; checks that the events tell the same as the message."""

    def __init__(self, chunks: bytes | Iterable[bytes], names: Sequence[str] = (), seed: str = "s") -> None:
        table = NameTable([("", name) for name in names])
        self.decoder = ChatDecoder(seed, table.name)
        self.events: list[StreamEvent] = []
        for data in [chunks] if isinstance(chunks, bytes) else chunks:
            self.events += self.decoder.feed(data)
            if self.decoder.done:
                break
        self.events += self.decoder.finish()
        self.failure = self.decoder.failure
        if self.failure is None:
            self.answer = self.decoder.answer()
            self._check()

    def _check(self) -> None:
        started = [e for e in self.events if isinstance(e, BlockStart)]
        completed = {e.index: e.block for e in self.events if isinstance(e, BlockComplete)}
        assert [e.index for e in started] == list(range(len(started)))
        assert [completed[e.index] for e in started] == self.answer.content
        for start in started:
            fragments = [e for e in self.events if isinstance(e, ContentDelta) and e.index == start.index]
            assert all(e.text and e.type == start.type for e in fragments)
            told = "".join(e.text for e in fragments)
            details = [e for e in self.events if isinstance(e, ToolDetails) and e.index == start.index]
            match completed[start.index]:
                case TextualBlock(text) | ThinkingBlock(text):
                    assert told == text
                    assert details == []
                case ToolUseBlock(id, name, arguments):
                    assert told == arguments
                    assert details == [ToolDetails(start.index, id, name)]
                    if fragments:
                        assert self.events.index(details[0]) < self.events.index(fragments[0])
                case OpaqueBlock():
                    assert told == ""
                    assert details == []
                case block:
                    raise AssertionError(block)

    @property
    def kinds(self) -> list[str]:
        return [type(block).__name__ for block in self.answer.content]

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.answer.content if isinstance(block, TextualBlock))

    @property
    def thinking(self) -> str:
        return "".join(block.text for block in self.answer.content if isinstance(block, ThinkingBlock))

    @property
    def calls(self) -> list[ToolUseBlock]:
        return [block for block in self.answer.content if isinstance(block, ToolUseBlock)]

    @property
    def made(self) -> list[tuple[str, str]]:
        """Name and arguments of each call."""
        return [(block.name, block.arguments) for block in self.calls]
