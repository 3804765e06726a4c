"""Anthropic's event stream to blocks and events: `MessagesDecoder`.

The law: a block of the wire is a block of the message, in order of start and never merged; what panto has no type for
is kept as JSON as it stood when complete. The end signal is `message_stop` or a `stop_reason` in `message_delta`;
before it whatever is torn fails the answer, after it whatever is torn is dropped.

The events: https://platform.claude.com/docs/en/build-with-claude/streaming (read 2026-12-01). Compatible servers were
looked at too: llama.cpp (blocks overlap, ids missing, errors as flat objects or of OpenAI's shape), gateways that end
with `data: [DONE]`, leave out `message_stop` or the event names, or answer a streaming request with one JSON message.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, cast

import msgspec

from panto._wire.anthropic_usage import stop_reason_of, usage_of
from panto._wire.assembly import Assembly, Draft
from panto._wire.failures import Failure, classify, classify_error_object, is_error_payload
from panto._wire.names import NameTable
from panto._wire.protocol import Answer, StreamEvent
from panto._wire.sse import MAX_EVENT_BYTES, SSEOverflow, SSEParser
from panto._wire.surrogates import well_formed_json
from panto.conversation import ContentBlock, ContentBlockType, OpaqueBlock, ThinkingBlock, ToolUseBlock
from panto.errors import ErrorKind

__all__ = ["MessagesDecoder"]

_TOO_DEEP: Final = "an event of the stream is nested too deep to be read"
_NOTHING: Final[dict[str, object]] = {}


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    type: str
    delta: _Delta
    index: int = -1


class _Start(msgspec.Struct, gc=False):
    content_block: msgspec.Raw


_chunk = msgspec.json.Decoder(_Chunk).decode
_start = msgspec.json.Decoder(_Start).decode


class _Block:
    """One block of the wire while it is open."""

    __slots__ = ("changed", "draft", "fields", "held", "json", "kind", "placeholder", "raw", "words")

    def __init__(self, kind: str, fields: dict[str, object], raw: str | None) -> None:
        self.kind = kind
        self.fields = fields  # of a block that panto has no type for: grows with its deltas
        self.raw = raw  # its JSON as it came, while nothing was added
        self.changed = False
        self.json: list[str] = []  # fragments of a streamed `input`
        self.held: list[str] = []  # arguments that may stand in for those to come
        self.placeholder = False  # whether `{}` is among them
        self.words: dict[str, list[str]] = {}  # pieces of the texts in `fields` that grow
        self.draft: Draft | None = None


class MessagesDecoder:
    """Reads one answer; see `Decoder`.

    Attributes:
        done: The end marker was seen; nothing more need be read.
        failure: Why there is no answer to be had, once that is known.
        stop_sequence: The stop sequence that ended the answer, or `None`.
        stop_details: What the provider says about a refusal beside the word, or `None`.
    """

    def __init__(self, seed: str, names: NameTable, overflow_patterns: Sequence[str] = ()) -> None:
        self.done = False
        self.failure: Failure | None = None
        self.stop_sequence: str | None = None
        self.stop_details: dict[str, object] | None = None
        self._assembly = Assembly(seed)
        self._names = names
        self._patterns = overflow_patterns
        self._sse = SSEParser()
        self._told = False  # whether the first byte has told what the body is
        self._head = b""  # white space before it
        self._plain: list[bytes] | None = None  # a body that is no event stream
        self._plain_size = 0
        self._blocks: dict[int, _Block] = {}  # open, by index of the wire, in order of start
        self._last = -1
        self._ids: set[str] = set()
        self._usage: dict[str, object] = {}
        self._stop: str | None = None
        self._ended = False
        self._seen = False  # whether there was any event at all

    def feed(self, data: bytes) -> list[StreamEvent]:
        """See `Decoder.feed`."""
        if self._over():
            return []
        if not self._told:
            data = self._first(data)
        if self._plain is not None:
            self._plain_size += len(data)
            if self._plain_size > MAX_EVENT_BYTES:
                self._fail(ErrorKind.PROTOCOL, f"the answer is no event stream and over {MAX_EVENT_BYTES:,} bytes")
            self._plain.append(data)
            return []
        try:
            events = self._sse.feed(data)
        except SSEOverflow as error:
            self._fail(ErrorKind.PROTOCOL, str(error))
            return []
        try:
            for name, payload in events:
                if name == b"content_block_delta" and self._quick(payload):
                    continue
                self._event(name, payload, torn=False)
                if self._over():
                    break
        except RecursionError:
            self._fail(ErrorKind.PROTOCOL, _TOO_DEEP)
        return self._assembly.take()

    def finish(self) -> list[StreamEvent]:
        """See `Decoder.finish`."""
        if self.failure is not None:
            return []
        try:
            self._finish()
            if self.failure is None:
                for index in list(self._blocks):
                    self._close(index)
        except RecursionError:
            self._fail(ErrorKind.PROTOCOL, _TOO_DEEP)
        self.done = True
        return self._assembly.take()

    def _finish(self) -> None:
        """Read what is left, and look for the end signal."""
        if self._plain is not None:
            self._whole(b"".join(self._plain))
        elif not self.done:
            for name, payload in self._sse.finish():
                self._event(name, payload, torn=True)
        if self.failure is None and not self._ended:
            nothing = "" if self._seen else ", before any event"
            self._fail(ErrorKind.STREAM_ENDED, f"the stream ended without its end signal{nothing}")

    def answer(self) -> Answer:
        """See `Decoder.answer`."""
        content = self._assembly.content()
        calls = any(isinstance(block, ToolUseBlock) for block in content)
        return Answer(content, usage_of(self._usage), stop_reason_of(self._stop, calls=calls), self._stop)

    def partial(self, unseen: Sequence[StreamEvent]) -> list[ContentBlock]:
        """See `Decoder.partial`."""
        return self._assembly.partial(unseen)

    def _first(self, data: bytes) -> bytes:
        """Tell an event stream from a body that is JSON or HTML by its first byte."""
        data = self._head + data
        start = data.lstrip()[:1]
        if not start:
            self._head = data[-64:]  # more white space than this means nothing
            return b""
        self._told = True
        if start in b"{[<":
            self._plain = []
        return data

    def _over(self) -> bool:
        return self.done or self.failure is not None

    def _fail(self, kind: ErrorKind, message: str) -> None:
        self.failure = Failure.of(kind, message, 200)

    def _event(self, name: bytes, payload: bytes, *, torn: bool) -> None:
        """One event. `torn`: it came last and without its blank line, so that it may be half of one."""
        self._seen = True
        if name == b"ping":
            return
        value = _json(payload)
        if value is None:
            if payload.strip() == b"[DONE]":
                self.done = True
            elif not self._ended:
                if torn:
                    self._fail(ErrorKind.STREAM_ENDED, "the stream ended in the middle of an event")
                else:
                    what = payload[:200].decode("utf-8", "replace")
                    self._fail(ErrorKind.PROTOCOL, f"an event of the stream is not JSON: {what!r}")
            return
        if not isinstance(value, dict):
            if name == b"error":
                self.failure = classify_error_object(value, status=200, overflow_patterns=self._patterns)
            return
        event = cast("dict[str, object]", value)
        kind = event.get("type")
        if kind == "message_start":
            self._merge_usage(_dict(event, "message"))
        elif kind == "content_block_start":
            self._open(self._index(event, self._last + 1), _dict(event, "content_block"), payload)
        elif kind == "content_block_delta":
            self._add(self._index(event, self._last), _dict(event, "delta"))
        elif kind == "content_block_stop":
            self._close(self._index(event, self._last))
        elif kind == "message_delta":
            self._end(_dict(event, "delta"))
            self._merge_usage(event)
        elif kind == "message_stop":
            self.done = self._ended = True
        elif name == b"error" or is_error_payload(event):
            self.failure = classify_error_object(event, status=200, overflow_patterns=self._patterns)

    def _index(self, event: dict[str, object], default: int) -> int:
        index = event.get("index")
        return index if isinstance(index, int) else default

    def _quick(self, payload: bytes) -> bool:
        """A delta of a common kind, for a block that is open and has it; whether it was one. All else is for `_add`."""
        try:
            chunk = _chunk(payload)
        except (ValueError, RecursionError):
            return False
        block = self._blocks.get(chunk.index)
        if block is None or chunk.type != "content_block_delta":
            return False
        delta = chunk.delta
        if delta.text:
            if block.kind != "text" or delta.type != "text_delta" or block.draft is None:
                return False
            self._assembly.delta(block.draft, delta.text)
        elif delta.thinking:
            if block.kind != "thinking" or delta.type != "thinking_delta" or block.draft is None:
                return False
            self._assembly.delta(block.draft, delta.thinking)
        elif delta.partial_json:
            if block.kind != "tool_use" or delta.type != "input_json_delta":
                return False
            self._arguments(block, delta.partial_json)
        else:
            return False
        return True

    def _open(self, index: int, fields: dict[str, object], payload: bytes | None) -> None:
        """A block starts. Text starts when it has some, everything else at once."""
        self._close(index)
        kind = _str(fields, "type") or "text"
        block = self._blocks[index] = _Block(kind, fields, None)
        self._last = index
        assembly = self._assembly
        if kind == "text":
            self._add(index, {"type": "text_delta", "text": fields.get("text")})
        elif kind == "thinking":
            block.draft = assembly.start(ContentBlockType.THINKING)
            block.draft.signature = _str(fields, "signature") or None
            assembly.delta(block.draft, _str(fields, "thinking"))
        elif kind == "redacted_thinking":
            block.draft = assembly.start(ContentBlockType.THINKING)
            block.draft.redacted = _str(fields, "data")
        elif kind == "tool_use":
            block.draft = draft = assembly.start(ContentBlockType.TOOL_USE)
            id = _str(fields, "id")
            draft.id = id if id not in self._ids else ""  # two calls with one id: the second gets its own
            self._ids.add(id)
            draft.name = self._names.name(_str(fields, "name"))
            assembly.details(draft)
        else:
            block.draft = assembly.start(ContentBlockType.OPAQUE)
            block.raw = _raw(payload) if payload is not None else None

    def _add(self, index: int, delta: dict[str, object]) -> None:
        """A delta of any kind, for any block."""
        kind = _str(delta, "type")
        block = self._blocks.get(index)
        if block is None:
            # A server that leaves out the start, or goes on after the stop: words and thoughts can stand alone.
            if kind == "input_json_delta" and _str(delta, "partial_json"):
                self._fail(ErrorKind.PROTOCOL, "arguments came for a tool call that was not started")
            if kind not in ("text_delta", "thinking_delta"):
                return
            self._open(index, {"type": kind.removesuffix("_delta")}, None)
            block = self._blocks[index]
        if kind == "input_json_delta":
            if block.kind == "tool_use":
                self._arguments(block, _str(delta, "partial_json"))
            else:
                block.json.append(_str(delta, "partial_json"))
        elif block.kind == "text":
            if text := _str(delta, "text"):
                if block.draft is None:
                    block.draft = self._assembly.start(ContentBlockType.TEXT)
                self._assembly.delta(block.draft, text)
        elif block.kind == "thinking":
            if block.draft is not None:
                self._assembly.delta(block.draft, _str(delta, "thinking"))
                block.draft.signature = _str(delta, "signature") or block.draft.signature
        elif block.kind not in ("tool_use", "redacted_thinking"):
            _grow(block, delta)

    def _arguments(self, block: _Block, fragment: str) -> None:
        """More arguments of a call. White space or `{}` is held back: it may stand in for what is to come."""
        draft = block.draft
        if draft is None or not fragment:
            return
        if draft.parts:
            self._assembly.delta(draft, fragment)
            return
        core = fragment.strip()
        if not core or (core == "{}" and not block.placeholder):
            block.held.append(fragment)
            block.placeholder = block.placeholder or bool(core)
        else:
            self._assembly.delta(draft, fragment if block.placeholder else "".join([*block.held, fragment]))
            block.held.clear()

    def _close(self, index: int) -> None:
        """A block is whole."""
        block = self._blocks.pop(index, None)
        if block is None or block.draft is None:
            return
        draft, assembly = block.draft, self._assembly
        if block.kind == "redacted_thinking":
            assembly.complete(draft, ThinkingBlock("", None, draft.redacted))
        elif block.kind == "tool_use":
            given = block.fields.get("input")
            if not draft.parts and isinstance(given, dict) and given:
                assembly.delta(draft, json.dumps(given, ensure_ascii=False))
            elif not draft.parts:
                assembly.delta(draft, "{}" if block.placeholder else "")
            assembly.complete(draft)
        elif draft.type is ContentBlockType.OPAQUE:
            streamed = "".join(block.json)
            block.fields.update((key, "".join(pieces)) for key, pieces in block.words.items())
            if streamed.strip():
                given = _json(streamed.encode("utf-8", "replace"))
                block.fields["input"] = streamed if given is None else given
            raw = block.raw
            if raw is None or block.changed or streamed.strip():
                raw = json.dumps(block.fields, ensure_ascii=False)
            assembly.complete(draft, OpaqueBlock(block.kind, raw))
        else:
            assembly.complete(draft)

    def _end(self, delta: dict[str, object]) -> None:
        reason = _str(delta, "stop_reason")
        if reason:
            self._stop = reason
            self._ended = True
        self.stop_sequence = _str(delta, "stop_sequence") or self.stop_sequence
        self.stop_details = _dict(delta, "stop_details") or self.stop_details

    def _merge_usage(self, holder: dict[str, object]) -> None:
        """Counts are cumulative: what is told again replaces what was told before."""
        for key, value in _dict(holder, "usage").items():
            if value is not None:
                self._usage[key] = value

    def _whole(self, body: bytes) -> None:
        """A body that is no event stream: an error, or a whole message for a streaming request."""
        value = _json(body)
        if isinstance(value, dict):
            message = cast("dict[str, object]", value)
            content = message.get("content")
            if isinstance(content, list) and not message.get("error") and message.get("type") != "error":
                for index, block in enumerate(cast("list[object]", content)):
                    self._open(index, cast("dict[str, object]", block) if isinstance(block, dict) else {}, None)
                    self._close(index)
                self._end(message)
                self._ended = True
                self._merge_usage(message)
                return
        if value is None and body.lstrip()[:1] in (b"{", b"["):
            self._fail(ErrorKind.STREAM_ENDED, "the answer ended in the middle of its JSON")
        else:
            self.failure = classify(200, {}, body, overflow_patterns=self._patterns)


def _json(data: bytes) -> object:
    """A JSON value; what is not UTF-8 is replaced and lone surrogates too; `None` where there is none."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        pass
    try:
        return well_formed_json(json.loads(data.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return None


def _dict(holder: dict[str, object], key: str) -> dict[str, object]:
    value = holder.get(key)
    return cast("dict[str, object]", value) if isinstance(value, dict) else dict(_NOTHING)


def _str(holder: dict[str, object], key: str) -> str:
    value = holder.get(key)
    return value if isinstance(value, str) else ""


def _raw(payload: bytes) -> str | None:
    """The block of a start event, as it came."""
    try:
        return bytes(_start(payload).content_block).decode()
    except (ValueError, RecursionError):
        return None


def _grow(block: _Block, delta: dict[str, object]) -> None:
    """Add a delta of an unknown kind to its block: text to text, items to lists, all else as it is.

    `citations_delta` brings one `citation` for the list `citations`.
    """
    fields = block.fields
    block.changed = True
    for key, value in delta.items():
        if key == "type" or value is None:
            continue
        if key == "citation":
            key, value = "citations", [value]
        before = fields.get(key)
        if isinstance(before, str) and isinstance(value, str) and key != "signature":
            block.words.setdefault(key, [before]).append(value)
        elif isinstance(before, list) and isinstance(value, list):
            cast("list[object]", before).extend(cast("list[object]", value))
        else:
            fields[key] = value
            block.words.pop(key, None)
