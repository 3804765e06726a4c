"""An answer on the chat wire, from bytes to blocks: OpenAI's stream, and what compatible hosts make of it.

Law: the answer is whole only with an end signal (a `finish_reason` in choice 0, or `[DONE]`); reading goes on after it,
because usage, an error or more deltas may follow; what is torn after it does no harm. Fed in any cut, the same events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from panto._wire.assembly import Assembly, Draft
from panto._wire.failures import Failure, classify, classify_error_object, is_error_payload
from panto._wire.openai_chat_calls import Calls, OpenCall, is_object
from panto._wire.openai_chat_chunk import (
    CallDelta,
    Choice,
    Chunk,
    Delta,
    Part,
    decode_chunk,
    lenient_chunk,
    message_delta,
    read_json,
)
from panto._wire.openai_chat_sealed import Sealed
from panto._wire.openai_chat_stop import FAILED, STOP
from panto._wire.openai_chat_usage import read_usage
from panto._wire.protocol import Answer, StreamEvent
from panto._wire.sse import MAX_EVENT_BYTES, SSEOverflow, SSEParser
from panto._wire.surrogates import REPLACEMENT, split_pair, well_formed
from panto.config import StopReason
from panto.conversation import ContentBlock, ContentBlockType
from panto.errors import ErrorKind
from panto.events import ContentDelta
from panto.usage import Usage

_TOO_DEEP: Final = "an event of the stream is nested too deep to be read"
_EARLY: Final = "the stream ended early, without a finish reason and without [DONE]"
_FIELD: Final = re.compile(rb"(?:data|event|id|retry)\b|:|(?:d|da|dat|e|ev|eve|even|i|r|re|ret|retr)\Z")  # torn, too
_MAX_HEAD: Final = 64 * 1024

_TEXT: Final = ContentBlockType.TEXT
_THINKING: Final = ContentBlockType.THINKING


class ChatDecoder:
    """Reads one answer; see `Decoder`. `named` turns a name on the wire into the tool's own."""

    __slots__ = (
        "_assembly", "_bad", "_body", "_calls", "_carry", "_ended", "_finish", "_finished", "_head", "_is_sse",
        "_marked", "_open", "_overflow", "_quiet", "_refused", "_sealed", "_size", "_sse", "_usage",
        "_usage_elsewhere", "done", "failure",
    )  # fmt: skip

    def __init__(self, seed: str, named: Callable[[str], str], overflow_patterns: Sequence[str] = ()) -> None:
        self.done = False
        self.failure: Failure | None = None
        self._overflow = overflow_patterns
        self._assembly = Assembly(seed)
        self._calls = Calls(self._assembly, named, self._close)
        self._sealed = Sealed()
        self._sse = SSEParser()
        self._is_sse: bool | None = None  # not known before the first byte
        self._body: list[bytes] = []  # of an answer that is no event stream
        self._head: list[bytes] = []  # what came without an event in it
        self._quiet = True  # no event came
        self._size = 0  # bytes in either
        self._open: Draft | None = None  # the text or thinking that is being written
        self._carry = ""  # half a surrogate pair at the end of it
        self._bad = ""  # an event that is no JSON, and was the last one so far
        self._finish: str | None = None
        self._ended = False  # an end signal came
        self._marked = False  # [DONE] came
        self._refused = False
        self._finished = False
        self._usage: dict[str, object] | None = None
        self._usage_elsewhere: dict[str, object] | None = None

    # ------------------------------------------------------------ bytes

    def feed(self, data: bytes) -> list[StreamEvent]:
        """See `Decoder.feed`."""
        if self.done:
            return []
        if not self._is_sse:
            data = self._begin(data)
            if not self._is_sse:
                return self._assembly.take()
        try:
            events = self._sse.feed(data)
        except SSEOverflow as error:
            self._fail(Failure.of(ErrorKind.PROTOCOL, str(error), 200))
            return self._assembly.take()
        if events:
            self._quiet = False
            try:
                self._read(events)
            except RecursionError:
                self._fail(Failure.of(ErrorKind.PROTOCOL, _TOO_DEEP, 200))
        elif self._quiet and self._size < _MAX_HEAD:
            self._head.append(data)
            self._size += len(data)
        return self._assembly.take()

    def finish(self) -> list[StreamEvent]:
        """See `Decoder.finish`."""
        if self._finished:
            return []
        self._finished = True
        try:
            self._finish_body()
        except RecursionError:
            self._fail(Failure.of(ErrorKind.PROTOCOL, _TOO_DEEP, 200))
        self.done = True
        return self._assembly.take()

    def _finish_body(self) -> None:
        if self.failure is None and not self.done:
            self._end_of_body()
        if self.failure is None:
            self._check_end()
        if self.failure is None:
            self._close()
            self._calls.complete()
            for type, raw in self._sealed.blocks():
                self._assembly.opaque(type, raw)

    def answer(self) -> Answer:
        """See `Decoder.answer`."""
        stop = StopReason.UNKNOWN if self._finish is None else STOP.get(self._finish.lower(), StopReason.UNKNOWN)
        if self._refused:
            stop = StopReason.REFUSAL
        elif stop is StopReason.UNKNOWN and self._calls.open:
            stop = StopReason.TOOL_USE
        return Answer(self._assembly.content(), self._read_usage(), stop, self._finish)

    def partial(self, unseen: Sequence[StreamEvent]) -> list[ContentBlock]:
        """See `Decoder.partial`."""
        return self._assembly.partial(unseen)

    def _begin(self, data: bytes) -> bytes:
        """Find out whether the body is an event stream at all; give what its parser is to be fed."""
        self._body.append(data)
        self._size += len(data)
        if self._is_sse is None:
            if self._size - len(data) < 3:  # a byte order mark may not be whole
                start = b"".join(self._body).removeprefix(b"\xef\xbb\xbf").lstrip()
                if self._size < 3 and start in (b"\xef", b"\xef\xbb"):
                    return b""
            else:  # all before it is white space
                start = data.lstrip()
            if not start and self._size <= MAX_EVENT_BYTES:
                return b""
            self._is_sse = start[:1] not in (b"{", b"[", b"<", b'"')
            if self._is_sse:
                data = b"".join(self._body)
                self._body.clear()
                self._size = 0
                return data
        if self._size > MAX_EVENT_BYTES:
            self._body.clear()
            self._fail(Failure.of(ErrorKind.PROTOCOL, "the answer is no event stream, and too long to be read", 200))
        return b""

    def _end_of_body(self) -> None:
        if self._is_sse:
            events = self._sse.finish()
            if events:
                self._read(events)
            elif self._quiet:
                head = b"".join(self._head)
                if not _FIELD.match(head.removeprefix(b"\xef\xbb\xbf").lstrip()):
                    self._fail(classify(200, {}, head, overflow_patterns=self._overflow))
        elif body := b"".join(self._body).strip():
            self._body.clear()
            self._whole(body)

    def _whole(self, body: bytes) -> None:
        """An answer that is no event stream: a completion, an error, or something else altogether."""
        try:
            value = read_json(body.removeprefix(b"\xef\xbb\xbf"))
        except ValueError:
            if body[:1] == b"<":
                self._fail(classify(200, {}, body, overflow_patterns=self._overflow))
            return  # torn
        chunk = None if is_error_payload(value) else lenient_chunk(value)
        if chunk is None or not chunk.choices:
            self._fail(classify(200, {}, body, overflow_patterns=self._overflow))
            return
        self._chunk(chunk, body)
        self._ended = True

    # ------------------------------------------------------------ events

    def _read(self, events: list[tuple[bytes, bytes]]) -> None:
        """Read events until one ends the stream. The common one, a piece of the open block, is read here."""
        assembly = self._assembly
        for name, data in events:
            try:
                chunk = decode_chunk(data)
            except (ValueError, RecursionError):
                self._odd(name, data)
                if self.done:
                    return
                continue
            if self._bad:
                self._fail_bad()
                return
            if name == b"error" or chunk.choices is None:
                self._odd(name, data)
                if self.done:
                    return
                continue
            if chunk.usage is None and len(chunk.choices) == 1 and chunk.error is None and chunk.x_groq is None:
                choice = chunk.choices[0]
                delta = choice.delta
                if (
                    delta is not None
                    and choice.finish_reason is None
                    and choice.index == 0
                    and delta.tool_calls is None
                    and delta.reasoning_content is None
                    and delta.reasoning is None
                    and (open := self._open) is not None
                    and open.type is _TEXT
                    and type(text := delta.content) is str
                    and not delta.refusal
                    and not delta.reasoning_text
                    and delta.reasoning_details is None
                    and delta.extra_content is None
                    and delta.reasoning_opaque is None
                    and delta.function_call is None
                    and not self._carry
                    and choice.usage is None
                    and choice.error is None
                ):
                    if text:
                        open.parts.append(text)
                        assembly.events.append(ContentDelta(open.index, _TEXT, text))
                    continue
            self._chunk(chunk, data)
            if self.done:
                return

    def _odd(self, name: bytes, data: bytes) -> None:
        """An event that is not of the documented shape."""
        if data.strip() == b"[DONE]":
            if self._bad:
                self._fail_bad()
                return
            self._ended = self._marked = self.done = True
            return
        try:
            value = read_json(data)
        except ValueError:
            if name == b"error":
                words = data.decode("utf-8", "replace")
                self._fail(classify_error_object(words, status=200, overflow_patterns=self._overflow))
            elif self._bad:
                self._fail_bad()
            elif not self._ended:
                self._bad = data[:200].decode("utf-8", "replace")
            return
        if self._bad:
            self._fail_bad()
            return
        chunk = lenient_chunk(value)
        has_choices = chunk is not None and chunk.choices is not None
        if name == b"error" or (not has_choices and is_error_payload(value)):
            self._fail(classify_error_object(value, status=200, overflow_patterns=self._overflow))
        elif chunk is not None:
            self._chunk(chunk, data)

    def _chunk(self, chunk: Chunk, data: bytes) -> None:
        error = bool(chunk.error)
        for choice in chunk.choices or ():
            if not choice.index:
                error = error or bool(choice.error)
                self._choice(choice)
        if chunk.usage:
            self._usage = chunk.usage
        if chunk.x_groq is not None:
            usage = chunk.x_groq.get("usage")
            if isinstance(usage, dict) and usage:
                self._usage_elsewhere = usage
            if told := chunk.x_groq.get("error"):
                self._fail(classify_error_object({"error": told}, status=200, overflow_patterns=self._overflow))
        if error:
            self._fail(classify_error_object(read_json(data), status=200, overflow_patterns=self._overflow))

    def _choice(self, choice: Choice) -> None:
        if choice.delta is not None:
            self._delta(choice.delta)
        elif choice.whole:
            self._message(message_delta(choice.message))
        if choice.finish_reason:
            self._finish = well_formed(choice.finish_reason)
            self._ended = True
        if choice.usage:
            self._usage_elsewhere = choice.usage

    def _message(self, message: Delta) -> None:
        """A whole message where a delta belongs; of one that repeats what was streamed, the rest."""
        if self._assembly.drafts:
            shown = "".join("".join(draft.parts) for draft in self._assembly.drafts if draft.type is _TEXT)
            content = message.content if isinstance(message.content, str) else ""
            message = Delta(
                content=content[len(shown) :] if content.startswith(shown) else None,
                tool_calls=None if self._calls.open else message.tool_calls,
            )
        self._delta(message)

    # ------------------------------------------------------------ deltas

    def _delta(self, delta: Delta) -> None:
        first, second = delta.reasoning_content, delta.reasoning or delta.reasoning_text
        if first:
            self._say(_THINKING, first)
        if second and second != first:
            self._say(_THINKING, second)
        content = delta.content
        if isinstance(content, list):
            self._parts(content)
        elif content:
            self._say(_TEXT, content)
        if delta.refusal:
            self._refused = True
            self._say(_TEXT, delta.refusal)
        if delta.tool_calls:
            self._call_deltas(delta.tool_calls)
        if delta.function_call is not None:
            self._call_deltas([CallDelta(function=delta.function_call)])
        if delta.reasoning_details:
            self._sealed.details(delta.reasoning_details)
        if delta.reasoning_opaque:
            self._sealed.opaque(delta.reasoning_opaque)
        if delta.extra_content:
            self._sealed.extra(None, delta.extra_content)

    def _parts(self, parts: list[Part]) -> None:
        for part in parts:
            thinking = part.thinking
            if isinstance(thinking, list):
                thinking = "".join(inner.text or "" for inner in thinking)
            if thinking:
                self._say(_THINKING, thinking)
            if part.text:
                self._say(_THINKING if part.type in ("thinking", "reasoning") else _TEXT, part.text)
            if part.refusal:
                self._refused = True
                self._say(_TEXT, part.refusal)

    def _call_deltas(self, deltas: list[CallDelta]) -> None:
        touched: list[OpenCall] = []
        for delta in deltas:
            call = self._calls.take(delta, touched)
            if call is not None and delta.extra_content:
                self._sealed.extra(call.number, delta.extra_content)

    def _say(self, type: ContentBlockType, text: str) -> None:
        """More text or thinking."""
        open = self._open
        if open is None or open.type is not type:
            self._close()
            open = self._open = self._assembly.start(type)
        if self._carry or not text.isascii():
            text, self._carry = split_pair(self._carry + text)
        self._assembly.delta(open, text)

    def _close(self) -> None:
        """The open text or thinking is whole."""
        if self._open is not None:
            if self._carry:
                self._carry = ""
                self._assembly.delta(self._open, REPLACEMENT)
            self._assembly.complete(self._open)
            self._open = None

    # ------------------------------------------------------------ the end

    def _check_end(self) -> None:
        """Whether there is evidence that the answer is whole."""
        if not self._ended:
            self._fail(Failure.of(ErrorKind.STREAM_ENDED, _EARLY, 200))
        elif self._finish is None and self._marked and any(map(_is_cut, self._calls.open)):
            self._fail(Failure.of(ErrorKind.STREAM_ENDED, "the stream ended within the arguments of a tool call", 200))
        elif self._finish is not None and (kind := FAILED.get(self._finish.lower())) is not None:
            self._fail(Failure.of(kind, f"the provider ended its answer with {self._finish!r}", 200))

    def _fail(self, failure: Failure) -> None:
        self.failure = failure
        self.done = True

    def _fail_bad(self) -> None:
        """An event that was no JSON has another one behind it: it was not torn by the end of the stream."""
        self._fail(Failure.of(ErrorKind.PROTOCOL, f"an event of the stream is no JSON: {self._bad}", 200))

    def _read_usage(self) -> Usage | None:
        for told in (self._usage, self._usage_elsewhere):
            if told and (usage := read_usage(told)) is not None:
                return usage
        return None


def _is_cut(call: OpenCall) -> bool:
    text = call.arguments
    return bool(text.strip()) and text.strip() != "null" and not is_object(text)
