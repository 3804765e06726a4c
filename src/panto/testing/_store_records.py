"""Messages for trying a store: one of everything a history can hold.

Law: plain values, no chance and no clock, so that two runs of the kit offer the same.
"""

from __future__ import annotations

from panto.config import APIStyle, ReasoningEffort, StopReason, WireIdentity
from panto.conversation import (
    CompactionSummaryBlock,
    ContentBlock,
    Conversation,
    MediaBlock,
    Message,
    MessageRole,
    OpaqueBlock,
    StoredMediaPart,
    SystemMode,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    system_message,
)
from panto.session import PersistentMessage
from panto.tools import ToolDecl
from panto.usage import Usage

__all__ = ["BAGS", "ONE", "OTHER", "TOOLS", "answer", "everything", "record", "said", "summary", "system"]

ONE = WireIdentity(APIStyle.ANTHROPIC_MESSAGES, "https://one.example", "model-1", ReasoningEffort.HIGH)
OTHER = WireIdentity(APIStyle.OPENAI_CHAT, "https://other.example/v1", "model-2")
TOOLS = (ToolDecl("look", "Look it up.", {"type": "object", "properties": {"what": {"type": "string"}}}),)

BAGS = (
    "{}",
    ' {"b" : 1,\n\t"a":1.0, "a": 1e2, "n": 12345678901234567890123}\r\n',
    '{"text":"\\u00e9\\ud83e\\udd8a é🦊\\/"}',
    '"a string"',
    "null",
    "",
    "no JSON at all: { ' -- %s \\",
)
"""Bags that a store which parses and writes them anew gives back changed."""


def said(id: str, text: str, metadata: str | None = None) -> Message:
    """What a user says."""
    return Message(MessageRole.USER, [TextualBlock(text)], metadata=metadata, id=id)


def answer(id: str, text: str, identity: WireIdentity | None = ONE, metadata: str | None = None) -> Message:
    """What a model answers."""
    usage = Usage(input_tokens=10, output_tokens=5)
    return Message(
        MessageRole.ASSISTANT, [TextualBlock(text)], metadata, id, identity, usage, StopReason.STOP, "end_turn"
    )


def system(id: str, text: str, mode: SystemMode = SystemMode.APPEND) -> Message:
    """A part of the system prompt."""
    message = system_message(text, mode)
    message.id = id
    return message


def summary(id: str, text: str, replaced: int) -> Message:
    """What a compaction left."""
    return Message(MessageRole.USER, [CompactionSummaryBlock(text, replaced, ONE)], id=id)


def record(message: Message, conversation: Conversation, identity: WireIdentity | None = ONE) -> PersistentMessage:
    """The message as an agent offers it."""
    stamp = None if message.role is MessageRole.SYSTEM else message.identity or identity
    return PersistentMessage(message, message.usage, stamp, conversation, TOOLS)


def everything() -> list[Message]:
    """A history in which every field and every kind of block is used, also as no provider should."""
    opaque = '{"type" :"server_tool_use", "id":"s1","input":{"z":1, "a":[2.50,1e3,null]},"unheard_of":"\\u00e9"}'
    calls: list[ContentBlock] = [
        ThinkingBlock("let me see", signature="c2lnbmF0dXJl+/="),
        ThinkingBlock(redacted="cmVkYWN0ZWQ="),
        OpaqueBlock("server_tool_use", opaque),
        TextualBlock("I look it up."),
        ToolUseBlock("call_0", "look", '{"what" : "x", "n":1.0}'),
        ToolUseBlock("", "a name ☃ no wire can carry", '{"cut'),
        ToolUseBlock("call_0", "look", ""),
    ]
    results: list[ContentBlock] = [
        ToolResultBlock("call_0", (TextPart("found"), StoredMediaPart("image/png", "iVBORw0KGgo="), TextPart(""))),
        ToolResultBlock("", (), True),
        ToolResultBlock("call_0", (TextPart("no"),), True, {"exit": 1, "seen": [1.5, True, None, {"": "x"}], "a": {}}),
    ]
    usage = Usage(1, 2, 3, 4, 5, 6)
    return [
        system("e0", "Be brief."),
        system("e1", "Be long.", SystemMode.REPLACE),
        Message(MessageRole.USER, [TextualBlock("see"), MediaBlock("image/png", "iVBORw0KGgo=")], id="e2"),
        Message(MessageRole.ASSISTANT, calls, None, "e3", ONE, usage, StopReason.TOOL_USE, "tool_use"),
        Message(MessageRole.USER, results, id="e4"),
        Message(MessageRole.ASSISTANT, [], None, "e5", OTHER, Usage(), StopReason.UNKNOWN, "heard of by nobody"),
        Message(MessageRole.USER, [TextualBlock(""), TextualBlock(" \n")], id="e6"),
        Message(MessageRole.ASSISTANT, [TextualBlock("of nobody")], id="e7"),
        Message(MessageRole.ASSISTANT, [TextualBlock("cut")], None, "e8", ONE, None, StopReason.ABORTED),
        Message(MessageRole.USER, [TextualBlock("the last word is the user's")], id="e9"),
    ]
