"""Answers on Anthropic's Messages wire, as the vendor streams them.

Law: the shapes are Anthropic's (https://platform.claude.com/docs/en/build-with-claude/streaming, 2026-12).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from panto._wire.names import encode
from panto.config import StopReason
from panto.usage import Usage

from .script import SCRIPTED_USAGE, Answer, Block, Called, Drop, Fail, Said, Thought, Waited

Frame: TypeAlias = bytes | Waited | Drop

ID_HEADER = "request-id"

STOPS = {
    StopReason.STOP: "end_turn",
    StopReason.LENGTH: "max_tokens",
    StopReason.TOOL_USE: "tool_use",
    StopReason.REFUSAL: "refusal",
    StopReason.PAUSE: "pause_turn",
}

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Type under each status (https://platform.claude.com/docs/en/api/errors, 2026-12)."""

TOO_LONG = "prompt is too long: 200500 tokens > 200000 maximum"


def stream(blocks: Sequence[Block], answer: Answer, model: str, number: int) -> Iterator[Frame]:
    """The frames of an answer; nothing after a failure."""
    usage = SCRIPTED_USAGE if answer.usage is msgspec.UNSET else answer.usage
    message: dict[str, object] = {
        "id": f"msg_scripted_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    if usage is not None:
        message["usage"] = {**told(usage), "output_tokens": 1} if usage.output_tokens is not None else told(usage)
    yield event("message_start", message=message)
    index = calls = 0
    for block in blocks:
        match block:
            case tuple():
                yield from _text(index, block)
            case Thought(redacted=str()):
                yield start(index, type="redacted_thinking", data=block.redacted)
            case Thought():
                yield start(index, type="thinking", thinking="", signature="")
                yield from (delta(index, type="thinking_delta", thinking=piece) for piece in block.pieces)
                if block.signature is not None:
                    yield delta(index, type="signature_delta", signature=block.signature)
            case Called():
                calls += 1
                yield start(
                    index, type="tool_use", id=block.id or f"call_{number}_{calls}", name=encode(block.name), input={}
                )
                yield from (delta(index, type="input_json_delta", partial_json=piece) for piece in block.pieces)
            case Waited():
                yield block
                continue
            case Drop():
                yield block
                return
            case Fail():
                yield b"event: error\ndata: " + refusal(block)[1] + b"\n\n"
                return
        yield event("content_block_stop", index=index)
        index += 1
    stop = answer.stop or (StopReason.TOOL_USE if calls else StopReason.STOP)
    word = STOPS.get(stop, str(stop)) if isinstance(stop, StopReason) else stop
    ending: dict[str, object] = {"delta": {"stop_reason": word, "stop_sequence": None}}
    if usage is not None and usage.output_tokens is not None:
        ending["usage"] = {"output_tokens": usage.output_tokens}
        if usage.reasoning_tokens is not None:
            ending["usage"] = {
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
            }
    yield event("message_delta", **ending)
    yield event("message_stop")


def _text(index: int, block: Sequence[Said | Waited]) -> Iterator[Frame]:
    yield start(index, type="text", text="")
    for said in block:
        if isinstance(said, Said):
            yield from (delta(index, type="text_delta", text=piece) for piece in said.pieces)
        else:
            yield said


def event(kind: str, **fields: object) -> bytes:
    """One event of the stream."""
    return f"event: {kind}\ndata: ".encode() + msgspec.json.encode({"type": kind, **fields}) + b"\n\n"


def start(index: int, **block: object) -> bytes:
    """A block starts."""
    return event("content_block_start", index=index, content_block=block)


def delta(index: int, **change: object) -> bytes:
    """A block grows."""
    return event("content_block_delta", index=index, delta=change)


def told(usage: Usage) -> dict[str, object]:
    """Usage as this wire says it."""
    said: dict[str, object] = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }
    if usage.cache_write_1h_tokens is not None:
        short = (usage.cache_write_tokens or 0) - usage.cache_write_1h_tokens
        said["cache_creation"] = {
            "ephemeral_5m_input_tokens": short,
            "ephemeral_1h_input_tokens": usage.cache_write_1h_tokens,
        }
    return {name: value for name, value in said.items() if value is not None}


def refusal(step: Fail) -> tuple[int, bytes]:
    """Status and body of a failure."""
    if step.body is not None:
        return step.status, step.body
    kind = step.type or ERRORS.get(step.status, "api_error" if step.status >= 500 else "invalid_request_error")
    words = TOO_LONG if step.too_long else step.message
    error = {"type": kind, "message": words}
    return step.status, msgspec.json.encode({"type": "error", "error": error})
