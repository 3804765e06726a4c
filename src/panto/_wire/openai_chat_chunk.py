"""One event of a chat stream as a value: typed and quick where it is as documented, by hand where it is not.

Law: a missing, null, re-typed or unknown field is normal and never an exception; only what is no JSON is refused.
Both readings give the same `Chunk`, so that what follows them knows one shape.
"""

from __future__ import annotations

import json
from typing import Final, cast

import msgspec

_NO_MESSAGE: Final = msgspec.Raw()


class Part(msgspec.Struct, gc=False):
    """One part of a `content` that is a list: Mistral's thinking models send `thinking` and `text` parts."""

    type: str | None = None
    text: str | None = None
    thinking: str | list[Part] | None = None
    refusal: str | None = None


class Function(msgspec.Struct, gc=False):
    """What is told of a call: pieces of its name and of its arguments' JSON text."""

    name: str | None = None
    arguments: str | None = None


class CallDelta(msgspec.Struct, gc=False):
    """More of a tool call. `extra_content` is Google's place for the signature of a thought."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: object = None


class Delta(msgspec.Struct, gc=False):
    """More of the message. The names of reasoning are those of DeepSeek, OpenRouter and Copilot."""

    content: str | list[Part] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None
    function_call: Function | None = None
    reasoning_details: list[dict[str, object]] | None = None
    reasoning_opaque: str | None = None
    extra_content: object = None


class Choice(msgspec.Struct, gc=False):
    """One of the answers asked for; only the first counts."""

    index: int | None = 0
    delta: Delta | None = None
    finish_reason: str | None = None
    message: msgspec.Raw = _NO_MESSAGE
    usage: dict[str, object] | None = None
    error: object = None

    @property
    def whole(self) -> bool:
        """Whether it holds a message instead of a delta."""
        return self.delta is None and self.message is not _NO_MESSAGE


class Chunk(msgspec.Struct, gc=False):
    """One event of a stream, or a whole completion."""

    choices: list[Choice] | None = None
    usage: dict[str, object] | None = None
    error: object = None
    x_groq: dict[str, object] | None = None


decode_chunk: Final = msgspec.json.Decoder(Chunk).decode
"""The quick reading. Raises `ValueError` or `RecursionError` for every other shape, JSON or not."""


def read_json(data: bytes) -> object:
    """Any JSON: also with broken UTF-8, lone surrogates, control characters or `NaN` in it.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return cast(object, msgspec.json.decode(data))
    except (ValueError, RecursionError):
        pass
    try:
        return cast(object, json.loads(data.decode("utf-8", "replace"), strict=False))
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def lenient_chunk(value: object) -> Chunk | None:
    """The `Chunk` in any JSON value, or `None` where there is none."""
    if isinstance(value, list) and value:  # Google wraps even errors in a list
        value = cast(list[object], value)[0]
    if not isinstance(value, dict):
        return None
    fields = cast(dict[str, object], value)
    choices = fields.get("choices")
    if isinstance(choices, dict):
        choices = [cast(object, choices)]
    read = [_choice(cast(dict[str, object], c)) for c in cast(list[object], choices) if isinstance(c, dict)] \
        if isinstance(choices, list) else None  # fmt: skip
    return Chunk(read, _dict(fields.get("usage")), fields.get("error"), _dict(fields.get("x_groq")))


def message_delta(raw: msgspec.Raw) -> Delta:
    """The whole message that some hosts send in place of a delta."""
    return _delta(_dict(read_json(bytes(raw))) or {})


def _choice(fields: dict[str, object]) -> Choice:
    told = fields.get("delta")
    delta = _delta(cast(dict[str, object], told)) if isinstance(told, dict) else None
    if isinstance(told, str):
        delta = Delta(content=told)
    message = fields.get("message")
    raw = msgspec.Raw(json.dumps(message).encode()) if delta is None and isinstance(message, dict) else _NO_MESSAGE
    return Choice(
        _int(fields.get("index")) or 0,
        delta,
        _str(fields.get("finish_reason")),
        raw,
        _dict(fields.get("usage")),
        fields.get("error"),
    )


def _delta(fields: dict[str, object]) -> Delta:
    content = fields.get("content")
    calls = fields.get("tool_calls")
    if isinstance(calls, dict):
        calls = [cast(object, calls)]
    details = fields.get("reasoning_details")
    return Delta(
        content=_parts(cast(list[object], content)) if isinstance(content, list) else _text(content),
        reasoning_content=_text(fields.get("reasoning_content")),
        reasoning=_text(fields.get("reasoning")),
        reasoning_text=_text(fields.get("reasoning_text")),
        refusal=_text(fields.get("refusal")),
        tool_calls=[_call(cast(dict[str, object], c)) for c in cast(list[object], calls) if isinstance(c, dict)]
        if isinstance(calls, list)
        else None,
        function_call=_function(fields.get("function_call")),
        reasoning_details=[cast(dict[str, object], d) for d in cast(list[object], details) if isinstance(d, dict)]
        if isinstance(details, list)
        else None,
        reasoning_opaque=_str(fields.get("reasoning_opaque")),
        extra_content=fields.get("extra_content"),
    )


def _parts(items: list[object]) -> list[Part]:
    parts: list[Part] = []
    for item in items:
        if isinstance(item, str):
            parts.append(Part("text", item))
        elif isinstance(item, dict):
            fields = cast(dict[str, object], item)
            thinking = fields.get("thinking")
            inner = _parts(cast(list[object], thinking)) if isinstance(thinking, list) else _text(thinking)
            parts.append(Part(_str(fields.get("type")), _text(fields.get("text")), inner, _text(fields.get("refusal"))))
    return parts


def _call(fields: dict[str, object]) -> CallDelta:
    return CallDelta(
        _int(fields.get("index")),
        _str(fields.get("id")),
        _function(fields.get("function")),
        fields.get("extra_content"),
    )


def _function(value: object) -> Function | None:
    if not isinstance(value, dict):
        return None
    fields = cast(dict[str, object], value)
    arguments = fields.get("arguments")
    if isinstance(arguments, (dict, list)):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return Function(_str(fields.get("name")), _str(arguments))


def _dict(value: object) -> dict[str, object] | None:
    return cast(dict[str, object], value) if isinstance(value, dict) else None


def _str(value: object) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    """Text, also where a host wraps it: `{"content": {"text": ...}}`, `{"reasoning": {"content": ...}}`."""
    if isinstance(value, dict):
        fields = cast(dict[str, object], value)
        value = fields.get("text") or fields.get("content")
    if isinstance(value, list):
        return "".join(part.text or "" for part in _parts(cast(list[object], value)))
    return _str(value)


def _int(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
