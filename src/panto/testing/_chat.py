"""Answers on the chat completions wire, as a vendor streams them.

Law: the shapes are OpenAI's (https://platform.openai.com/docs/api-reference/chat-streaming, 2026-12); thinking goes as
`reasoning_content`, which most other hosts say.
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

ID_HEADER = "x-request-id"

STOPS = {
    StopReason.STOP: "stop",
    StopReason.LENGTH: "length",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.CONTENT_FILTER: "content_filter",
}

ERRORS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", None),
    529: ("server_error", "overloaded"),
}
"""Type and code under each status (https://platform.openai.com/docs/guides/error-codes, 2026-12)."""

TOO_LONG = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 128500 tokens. "
    "Please reduce the length of the messages."
)


def stream(blocks: Sequence[Block], answer: Answer, model: str, number: int) -> Iterator[Frame]:
    """The frames of an answer; nothing after a failure."""
    head = {"id": f"chatcmpl-scripted-{number}", "object": "chat.completion.chunk", "created": 0, "model": model}

    def chunk(delta: object, finish: str | None = None) -> bytes:
        return event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    calls = 0
    for block in blocks:
        match block:
            case tuple():
                for said in block:
                    if isinstance(said, Said):
                        yield from (chunk({"content": piece}) for piece in said.pieces)
                    else:
                        yield said
            case Thought():
                yield from (chunk({"reasoning_content": piece}) for piece in block.pieces)
            case Called():
                id = block.id or f"call_{number}_{calls + 1}"
                function = {"name": encode(block.name), "arguments": ""}
                yield chunk({"tool_calls": [{"index": calls, "id": id, "type": "function", "function": function}]})
                for piece in block.pieces:
                    yield chunk({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]})
                calls += 1
            case Waited():
                yield block
            case Drop():
                yield block
                return
            case Fail():
                yield event(msgspec.Raw(refusal(block)[1]))
                return
    finish = answer.stop or (StopReason.TOOL_USE if calls else StopReason.STOP)
    yield chunk({}, STOPS.get(finish, str(finish)) if isinstance(finish, StopReason) else finish)
    usage = SCRIPTED_USAGE if answer.usage is msgspec.UNSET else answer.usage
    if usage is not None:
        yield event({**head, "choices": [], "usage": told(usage)})
    yield b"data: [DONE]\n\n"


def event(payload: object) -> bytes:
    """One event of the stream."""
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


def told(usage: Usage) -> dict[str, object]:
    """Usage as this wire says it: `prompt_tokens` holds the cached ones."""
    parts = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    known = [part for part in parts if part is not None]
    prompt = sum(known) if known else None
    both = prompt is not None and usage.output_tokens is not None
    said = {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": (prompt or 0) + (usage.output_tokens or 0) if both else None,
        "prompt_tokens_details": _known(
            cached_tokens=usage.cache_read_tokens, cache_write_tokens=usage.cache_write_tokens
        ),
        "completion_tokens_details": _known(reasoning_tokens=usage.reasoning_tokens),
    }
    return {name: value for name, value in said.items() if value is not None}


def _known(**counters: int | None) -> dict[str, int] | None:
    return {name: value for name, value in counters.items() if value is not None} or None


def refusal(step: Fail) -> tuple[int, bytes]:
    """Status and body of a failure."""
    if step.body is not None:
        return step.status, step.body
    if step.too_long:
        error: dict[str, object] = {"message": TOO_LONG, "type": "invalid_request_error", "param": "messages"}
        return step.status, msgspec.json.encode({"error": {**error, "code": "context_length_exceeded"}})
    kind, code = ERRORS.get(step.status, ERRORS[500] if step.status >= 500 else ERRORS[400])
    error = {"message": step.message, "type": step.type or kind, "param": None, "code": step.code or code}
    return step.status, msgspec.json.encode({"error": error})
