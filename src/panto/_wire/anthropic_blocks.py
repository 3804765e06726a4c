"""Blocks of a message as Anthropic's Messages wants them: JSON bytes, one by one.

The law: the bytes of a block depend on the block alone (and the tools' wire names), never on the request around it, so
that they can be kept; `markable` tells, without encoding, whether a block is on the wire and may carry `cache_control`.

Facts: https://platform.claude.com/docs/en/api/messages/create, .../build-with-claude/vision and .../pdf-support (images
are JPEG, PNG, GIF or WebP; documents PDF or plain text), .../build-with-claude/prompt-caching ("thinking blocks cannot
be cached directly with cache_control", "empty text blocks cannot be cached"); read 2026-12-01.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Final, assert_never, cast

import msgspec

from panto._wire.names import NameTable
from panto._wire.surrogates import well_formed_json
from panto.config import JSON
from panto.conversation import (
    CompactionSummaryBlock,
    ContentBlock,
    MediaBlock,
    OpaqueBlock,
    ResultPartStored,
    StoredMediaPart,
    SystemBlock,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from panto.rules.media import IMAGES, bare_type, kind_of

__all__ = ["encode", "encode_block", "encode_content", "markable"]

_NO_OUTPUT: Final = "(no output)"


def encode(value: object) -> bytes:
    """JSON of a value that may hold lone surrogates, or mappings that are no dicts."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError):
        return msgspec.json.encode(well_formed_json(cast("JSON", value)))


def encode_content(role: str, blocks: Sequence[ContentBlock], names: NameTable) -> bytes:
    """The value of `content`, in the order of the blocks: an array that may be empty.

    In a user's message a text that follows a text begins with a blank line, as what two messages said stays apart.
    """
    out: list[bytes] = []
    after_text = False
    for block in blocks:
        encoded = encode_block(block, names, apart=after_text and role == "user")
        if encoded is not None:
            out.append(encoded)
            after_text = isinstance(block, (TextualBlock, CompactionSummaryBlock))
    return b"[" + b",".join(out) + b"]"


def markable(block: ContentBlock) -> bool | None:
    """Whether a block may carry `cache_control`; `None` for a block that is not sent at all."""
    match block:
        case TextualBlock() | CompactionSummaryBlock() | SystemBlock():
            return True if block.text.strip() else None
        case MediaBlock() | ToolUseBlock() | ToolResultBlock():
            return True
        case ThinkingBlock():
            return None if block.redacted is None and not block.signature else False
        case OpaqueBlock():
            return None if _opaque(block) is None else False
        case _:
            assert_never(block)


def encode_block(block: ContentBlock, names: NameTable, *, apart: bool = False) -> bytes | None:
    """One block, or `None` where there is nothing to send.

    `apart`: the block follows a text, and begins with a blank line if it is one too.
    """
    match block:
        case TextualBlock() | CompactionSummaryBlock() | SystemBlock():
            if not block.text.strip():
                return None
            return encode({"type": "text", "text": "\n\n" + block.text if apart else block.text})
        case MediaBlock():
            return encode(_media(block.media_type, block.data))
        case ThinkingBlock():
            if block.redacted is not None:
                return encode({"type": "redacted_thinking", "data": block.redacted})
            if not block.signature:
                return None  # the provider refuses thinking that nobody signed
            return encode({"type": "thinking", "thinking": block.text, "signature": block.signature})
        case ToolUseBlock():
            given = _arguments(block.arguments)
            called: dict[str, object] = {"type": "tool_use", "id": block.id, "name": names.wire(block.name)}
            return encode({**called, "input": given})
        case ToolResultBlock():
            return encode(_result(block))
        case OpaqueBlock():
            return _opaque(block)
        case _:
            assert_never(block)


def _opaque(block: OpaqueBlock) -> bytes | None:
    """Byte for byte, if it is an object at all."""
    raw = block.raw.strip().encode("utf-8", "replace")
    try:
        value: object = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return None
    return raw if isinstance(value, dict) else None


def _arguments(text: str) -> object:
    """The arguments of a call as they came, if they are an object; `{}` if not."""
    if not text.strip():
        return {}
    try:
        value: object = msgspec.json.decode(text)
        return msgspec.Raw(text.strip().encode()) if isinstance(value, dict) else {}
    except (ValueError, RecursionError):
        pass
    try:
        loose: object = json.loads(text, parse_constant=lambda _: None)  # a lone surrogate, NaN
        return well_formed_json(cast("JSON", loose)) if isinstance(loose, dict) else {}
    except (ValueError, RecursionError):
        return {}


def _result(block: ToolResultBlock) -> dict[str, object]:
    out: dict[str, object] = {"type": "tool_result", "tool_use_id": block.id}
    parts = [encoded for part in block.parts if (encoded := _part(part)) is not None]
    if len(parts) == 1 and parts[0]["type"] == "text":
        out["content"] = parts[0]["text"]
    elif parts:
        out["content"] = parts
    elif block.is_error:
        out["content"] = _NO_OUTPUT  # an error without content is refused
    if block.is_error:
        out["is_error"] = True
    return out


def _part(part: ResultPartStored) -> dict[str, JSON] | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case StoredMediaPart():
            return _media(part.media_type, part.data)
        case _:
            assert_never(part)


def _media(claim: str, data: str) -> dict[str, JSON]:
    """An image or a document; a word about it where the provider takes no such media."""
    kind = _media_type(claim, data)
    if kind in IMAGES and data:
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
    if kind == "application/pdf" and data:
        return {"type": "document", "source": {"type": "base64", "media_type": kind, "data": data}}
    if kind.startswith("text/") and (text := _decoded(data).decode("utf-8", "replace")).strip():
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}
    return {"type": "text", "text": f"[{kind or 'media'} that this provider does not take was left out]"}


def _media_type(claim: str, data: str) -> str:
    """What the first bytes say, and what was claimed where they say nothing."""
    return kind_of(_decoded(data[:24]), claim) or bare_type(claim)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return b""
