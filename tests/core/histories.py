"""Random histories of all block types, from random identities of all api styles, tidy or damaged by surgery."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

from hypothesis import strategies as st

from panto.config import APIStyle, StopReason, WireIdentity
from panto.conversation import (
    CompactionSummaryBlock,
    ContentBlock,
    MediaBlock,
    Message,
    MessageRole,
    OpaqueBlock,
    ResultPartStored,
    StoredMediaPart,
    SystemBlock,
    SystemMode,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

CHAT, MESSAGES, RESPONSES = APIStyle.OPENAI_CHAT, APIStyle.ANTHROPIC_MESSAGES, APIStyle.OPENAI_RESPONSES
IDENTITIES = [
    WireIdentity(CHAT, "https://api.openai.com/v1", "m"),
    WireIdentity(CHAT, "https://api.mistral.ai/v1", "m"),
    WireIdentity(CHAT, "https://api.deepseek.com", "m"),
    WireIdentity(MESSAGES, "https://api.anthropic.com", "claude-sonnet-4-5"),
    WireIdentity(MESSAGES, "https://other.example", "claude-sonnet-4-5"),
    WireIdentity(RESPONSES, "https://api.openai.com/v1", "m"),
]
TARGETS = IDENTITIES[:5]

# What was sealed by the n-th identity holds SEAL and n, so that a test can look for it in a request.
SEAL = "sealed-by-"

texts = st.sampled_from(
    ["hi", "two words", "", " \n", "caf\udce9", "\ud83d\ude00", "\ud83d", "\u00e9\u4e2d", "\\ud83d", "</thinking>"]
)
good_texts = st.sampled_from(["hi", "two words", "\u00e9\u4e2d", "a\n"])
ids = st.sampled_from(["call_0", "call_1", "toolu_1", "a.b", "", "\ud83d", "x" * 70, "a_b", "abcdefghi", "call 0"])
arguments = st.sampled_from(
    [
        "{}",
        "",
        "null",
        " ",
        '{"a": 1}',
        '{"a": ',
        "[1]",
        '{"a": "\\ud83d"}',
        '{"a": "\ud83d"}',
        '{"n": NaN}',
        '{"a":1,"a":2}',
    ]
)
names = st.sampled_from(["f", "get_time", "a.b", "", " ", "\ud83d", "n" * 90])
media = st.sampled_from([PNG, "", "not base64"])

parts: st.SearchStrategy[list[ResultPartStored]] = st.lists(
    st.builds(TextPart, texts) | st.builds(StoredMediaPart, st.just("image/png"), media), max_size=2
)
results = st.builds(ToolResultBlock, ids, parts.map(tuple), st.booleans())
calls = st.builds(ToolUseBlock, ids, names, arguments)


@functools.cache
def _thinking(origin: int) -> st.SearchStrategy[ThinkingBlock]:
    seal = f"{SEAL}{origin}"
    return st.one_of(
        st.builds(ThinkingBlock, texts),
        st.builds(ThinkingBlock, texts, st.sampled_from([seal, ""])),
        st.just(ThinkingBlock(redacted=seal)),
    )


@functools.cache
def _opaque(origin: int) -> st.SearchStrategy[OpaqueBlock]:
    """What each style's provider really sends."""
    seal = f"{SEAL}{origin}"
    if IDENTITIES[origin].api_style is not MESSAGES:
        details = [{"type": "reasoning.encrypted", "data": seal, "index": 0}]
        return st.sampled_from(
            [OpaqueBlock("reasoning_details", json.dumps(details)), OpaqueBlock("reasoning_details", "[")]
        )

    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": seal}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"encrypted_content": seal}]}
    return st.sampled_from(
        [OpaqueBlock(str(b["type"]), json.dumps(b)) for b in (use, found)] + [OpaqueBlock("server_tool_use", "{")]
    )


@functools.cache
def _blocks(origin: int) -> st.SearchStrategy[ContentBlock]:
    return st.one_of(
        st.builds(TextualBlock, texts),
        calls,
        _thinking(origin),
        results,
        _opaque(origin),
        st.builds(MediaBlock, st.just("image/png"), media),
        st.builds(CompactionSummaryBlock, texts),
        st.builds(SystemBlock, texts),
    )


@functools.cache
def _answer_content(origin: int, tidy: bool) -> st.SearchStrategy[list[ContentBlock]]:
    fitting = st.one_of(st.builds(TextualBlock, texts), calls, _thinking(origin), _opaque(origin))
    return st.lists(fitting if tidy else _blocks(origin) | fitting, max_size=4)


@st.composite
def answers(draw: st.DrawFn, origins: tuple[int, ...], tidy: bool = False) -> Message:
    origin = draw(st.sampled_from(origins))
    content = draw(_answer_content(origin, tidy))
    stop = draw(st.sampled_from([None, StopReason.STOP, StopReason.TOOL_USE, StopReason.REFUSAL, StopReason.PAUSE]))
    identity = draw(st.sampled_from([IDENTITIES[origin]] * 5 + [None]))
    return Message(MessageRole.ASSISTANT, content, identity=identity, stop_reason=stop)


@st.composite
def exchanges(draw: st.DrawFn, origins: tuple[int, ...]) -> list[Message]:
    """A question, an answer, and the results of its calls, all as a run would store them."""
    reply = draw(answers(origins, tidy=True))
    messages = [Message(MessageRole.USER, [TextualBlock(draw(good_texts))]), reply]
    stored: list[ContentBlock] = [
        ToolResultBlock(block.id, (TextPart(draw(texts)),), draw(st.booleans())) for block in reply.tool_calls
    ]
    return [*messages, Message(MessageRole.USER, stored)] if stored else messages


@functools.cache
def _damaged(origins: tuple[int, ...]) -> st.SearchStrategy[Message]:
    users = st.builds(
        Message,
        st.just(MessageRole.USER),
        st.lists(_blocks(0) | results | st.builds(TextualBlock, texts), max_size=4),
    )
    systems = st.builds(
        Message,
        st.just(MessageRole.SYSTEM),
        st.lists(st.builds(SystemBlock, texts, st.sampled_from(list(SystemMode))) | _blocks(0), max_size=2),
    )
    return st.one_of(users, answers(origins), systems)


@st.composite
def histories(draw: st.DrawFn, max_size: int = 5) -> list[Message]:
    """Tidy exchanges with damage between them, then surgery: messages and blocks removed, doubled and swapped."""
    origins = draw(st.lists(st.integers(0, len(IDENTITIES) - 1), min_size=1, max_size=3).map(tuple))
    groups = draw(st.lists(exchanges(origins) | _damaged(origins).map(lambda message: [message]), max_size=max_size))
    messages = [message for group in groups for message in group]
    for _ in range(draw(st.integers(0, 2))):
        operate(draw, messages)
    return messages


def identities_for(messages: Sequence[Message]) -> st.SearchStrategy[WireIdentity]:
    """Whom to send a history to: mostly one who answered in it, so that sealed blocks have a home."""
    home = [message.identity for message in messages if message.identity in TARGETS]
    return st.sampled_from(
        [identity for identity in home if identity is not None] * 2 + TARGETS[:: 1 if not home else 2]
    )


def operate(draw: st.DrawFn, messages: list[Message]) -> None:
    """One piece of surgery, in place."""
    if not messages:
        return
    at = draw(st.integers(0, len(messages) - 1))
    content = messages[at].content
    match draw(st.integers(0, 4)):
        case 0:
            del messages[at]
        case 1:
            other = draw(st.integers(0, len(messages) - 1))
            messages[at], messages[other] = messages[other], messages[at]
        case 2 if content:
            del content[draw(st.integers(0, len(content) - 1))]
        case 3 if content:
            content.append(content[draw(st.integers(0, len(content) - 1))])
        case _:
            if content:
                content[draw(st.integers(0, len(content) - 1))] = TextualBlock("put in")


def question(text: str = "and now?") -> Message:
    """What a run appends before it asks."""
    return Message(MessageRole.USER, [TextualBlock(text)])


@st.composite
def clean_histories(draw: st.DrawFn, origin: WireIdentity) -> list[Message]:
    """Histories that one provider made and takes back as they are."""
    messages: list[Message] = []
    sealed = origin.api_style is MESSAGES
    for turn in range(draw(st.integers(1, 4))):
        messages.append(question(draw(good_texts)))
        for step in range(draw(st.integers(0, 2))):
            use = [
                ToolUseBlock(f"call_{turn}_{step}_{n}", "f", draw(st.sampled_from(['{"a":1}', "{}", ""])))
                for n in range(draw(st.integers(1, 2)))
            ]
            thought: list[ContentBlock] = [ThinkingBlock("hm", "c2ln")] if sealed and draw(st.booleans()) else []
            messages.append(
                Message(MessageRole.ASSISTANT, [*thought, *use], identity=origin, stop_reason=StopReason.TOOL_USE)
            )
            done: Sequence[ContentBlock] = [ToolResultBlock(u.id, (TextPart(draw(good_texts)),)) for u in use]
            messages.append(Message(MessageRole.USER, list(done)))
        stop = draw(st.sampled_from([StopReason.STOP, StopReason.ABORTED, StopReason.LENGTH]))
        messages.append(
            Message(MessageRole.ASSISTANT, [TextualBlock(draw(good_texts))], identity=origin, stop_reason=stop)
        )
    return messages
