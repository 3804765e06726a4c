"""About how many tokens something takes, where nobody has counted.

Law: an estimate is for deciding when to act, never for a bill; it errs on the high side.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from .conversation import (
    CompactionSummaryBlock,
    ContentBlock,
    MediaBlock,
    Message,
    OpaqueBlock,
    SystemBlock,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

__all__ = ["estimate_tokens"]

BYTES_PER_TOKEN = 3.5
"""UTF-8 bytes; English prose has 4 to 4.5, code and JSON about 3, Chinese and Japanese about 3.5 a token."""

MEDIA_TOKENS = 1_600
"""An image of 1,568 by 1,568 pixels at Anthropic's width x height / 750, capped there at about 1,600.

Source: https://docs.anthropic.com/en/docs/build-with-claude/vision, read 2026-12-01.
"""

MESSAGE_TOKENS = 4
"""What a message costs beside its content: role and separators."""


def estimate_tokens(what: str | Message | Iterable[Message]) -> int:
    """About how many tokens a text, a message, or several messages take.

    >>> estimate_tokens("hello, world")
    4
    """
    if isinstance(what, str):
        return -int(-len(what.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)
    if isinstance(what, Message):
        return MESSAGE_TOKENS + sum(_block(block) for block in what.content)
    return sum(estimate_tokens(message) for message in what)


def _block(block: ContentBlock) -> int:
    match block:
        case TextualBlock() | SystemBlock() | CompactionSummaryBlock():
            return estimate_tokens(block.text)
        case ThinkingBlock():
            return estimate_tokens(block.text + (block.redacted or ""))
        case ToolUseBlock():
            return estimate_tokens(block.name + block.arguments) + MESSAGE_TOKENS
        case ToolResultBlock():
            parts = (estimate_tokens(p.text) if isinstance(p, TextPart) else MEDIA_TOKENS for p in block.parts)
            return MESSAGE_TOKENS + sum(parts)
        case MediaBlock():
            return MEDIA_TOKENS
        case OpaqueBlock():
            return estimate_tokens(block.raw)
        case _:
            assert_never(block)
