"""Records as an agent offers them, for the tests of stores."""

from __future__ import annotations

import itertools

from panto.config import APIStyle, ReasoningEffort, StopReason, WireIdentity
from panto.conversation import (
    CompactionSummaryBlock,
    Conversation,
    Message,
    MessageRole,
    SystemMode,
    TextualBlock,
    system_message,
)
from panto.session import PersistentMessage
from panto.usage import Usage

IDENTITY = WireIdentity(APIStyle.ANTHROPIC_MESSAGES, "https://api.example.com", "m-1", ReasoningEffort.HIGH)
_numbers = itertools.count()


def fresh_id() -> str:
    return f"m{next(_numbers):06d}"


def record(message: Message, talk: Conversation | None = None, identity: WireIdentity | None = IDENTITY):
    if message.role is MessageRole.SYSTEM:
        identity = None
    talk = talk if talk is not None else Conversation()
    return PersistentMessage(message, message.usage, identity, talk)


def user(text: str, **more) -> Message:
    return Message(MessageRole.USER, [TextualBlock(text)], id=fresh_id(), **more)


def answer(text: str, identity: WireIdentity | None = IDENTITY, **more) -> Message:
    return Message(
        MessageRole.ASSISTANT,
        [TextualBlock(text)],
        id=fresh_id(),
        identity=identity,
        usage=Usage(input_tokens=10, output_tokens=5),
        stop_reason=StopReason.STOP,
        **more,
    )


def system(text: str, mode: SystemMode = SystemMode.APPEND) -> Message:
    message = system_message(text, mode)
    message.id = fresh_id()
    return message


def summary(text: str, replaced: int) -> Message:
    return Message(MessageRole.USER, [CompactionSummaryBlock(text, replaced, IDENTITY)], id=fresh_id())


def offer(session, *messages: Message, talk: Conversation | None = None) -> None:
    session.append([record(message, talk, message.identity or IDENTITY) for message in messages])


def texts(conversation: Conversation) -> list[str]:
    return ["".join(getattr(block, "text", "") for block in message.content) for message in conversation.messages]
