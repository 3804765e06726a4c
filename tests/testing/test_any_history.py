"""Any history goes to any provider: what the view and the wires send, the strict readers accept."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.histories import (
    IDENTITIES,
    SEAL,
    TARGETS,
    clean_histories,
    histories,
    identities_for,
    operate,
    question,
)

from panto._core.view import View
from panto._wire.anthropic_messages import MessagesWire
from panto._wire.names import NameTable
from panto._wire.openai_chat import ChatWire
from panto._wire.protocol import Sendable
from panto.config import AnthropicMessagesConfig, APIStyle, OpenAIChatConfig, ReasoningEffort, WireIdentity
from panto.conversation import Message, MessageRole, OpaqueBlock, ThinkingBlock, ToolUseBlock
from panto.rules.verdicts import is_sealed
from panto.testing.validate import validate_request
from panto.tools import ToolDecl

TOOLS = [
    ToolDecl("f", "Does f.", {"type": "object", "properties": {"a": {"type": "integer"}}}),
    ToolDecl("a.b", "", {}),
]
NAMES = NameTable([("", tool.name) for tool in TOOLS])


def wire_for(identity: WireIdentity, **options: Any) -> ChatWire | MessagesWire:
    if identity.api_style is APIStyle.OPENAI_CHAT:
        return ChatWire(OpenAIChatConfig(model=identity.model, base_url=identity.base_url, **options), NAMES)
    return MessagesWire(AnthropicMessagesConfig(model=identity.model, base_url=identity.base_url, **options), NAMES)


def body_of(
    wire: ChatWire | MessagesWire, view: View, messages: list[Message], tools: list[ToolDecl]
) -> dict[str, Any]:
    viewed = view.update(messages)
    request = wire.request(viewed.system, tools, viewed.items, first=True, key=None)
    body = json.loads(request.body.decode())
    assert isinstance(body, dict)
    return body


@settings(max_examples=600, deadline=None)
@given(
    histories(),
    st.sampled_from(["drop", "text"]),
    st.sampled_from([ReasoningEffort.DEFAULT, ReasoningEffort.HIGH]),
    st.sampled_from([TOOLS, []]),
    st.data(),
)
def test_any_history_makes_a_request_that_the_vendor_takes_and_stays_as_it_is(
    messages: list[Message],
    foreign: str,
    effort: ReasoningEffort,
    tools: list[ToolDecl],
    data: st.DataObject,
) -> None:
    identity = data.draw(identities_for(messages))
    wire = wire_for(identity, foreign_reasoning=foreign, reasoning=effort)
    view = View(wire.target)
    for _ in range(2):
        messages.append(question())
        before = copy.deepcopy(messages)
        body = body_of(wire, view, messages, tools)
        assert messages == before
        assert validate_request(identity.api_style, body) == []
        text = json.dumps(body)
        for origin, other in enumerate(IDENTITIES):
            assert other == identity or f"{SEAL}{origin}" not in text
        operate(data.draw, messages)


@settings(max_examples=60, deadline=None)
@given(histories(), st.data())
def test_all_that_is_sealed_and_sent_by_the_view_is_in_the_request(
    messages: list[Message], data: st.DataObject
) -> None:
    identity = data.draw(identities_for(messages))
    wire = wire_for(identity)
    messages.append(question())
    view = View(wire.target)
    text = json.dumps(body_of(wire, view, messages, TOOLS))
    sealed = [block for item in view.update(messages).items for block in item.blocks if seals(block)]
    if identity.api_style is APIStyle.ANTHROPIC_MESSAGES:
        assert text.count(SEAL) == len(sealed)


def seals(block: object) -> bool:
    return (isinstance(block, ThinkingBlock) and is_sealed(block)) or (
        isinstance(block, OpaqueBlock) and SEAL in block.raw
    )


def flat(body: dict[str, Any]) -> list[object]:
    """The parts of all messages in order, without cache markers; adjacent messages of one role may be joined."""
    out: list[object] = []
    for message in body["messages"]:
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        for part in parts:
            part = {key: value for key, value in part.items() if key != "cache_control"}
            if isinstance(part.get("text"), str):
                part["text"] = part["text"].removeprefix("\n\n")
            out.append((message["role"], part))
        out += [(message["role"], key, value) for key, value in message.items() if key not in ("role", "content")]
    return out


@settings(max_examples=60, deadline=None)
@given(histories(), st.data())
def test_each_request_begins_with_the_bytes_of_the_one_before_it(messages: list[Message], data: st.DataObject) -> None:
    identity = data.draw(identities_for(messages))
    wire = wire_for(identity)
    view = View(wire.target)
    messages.append(question())
    earlier = body_of(wire, view, messages, TOOLS)
    kept = encoded(view.update(messages).items)
    for _ in range(2):
        messages += data.draw(clean_histories(identity))
        messages.append(question())
        later = body_of(wire, view, messages, TOOLS)
        if wire.target.replay_reasoning != "tool_loop":
            assert flat(later)[: len(flat(earlier)) - 1] == flat(earlier)[:-1]
            now = encoded(view.update(messages).items)
            assert now[: len(kept) - 1] == kept[:-1]
            kept = now
        assert later.get("tools") == earlier.get("tools")
        assert later.get("system") == earlier.get("system")
        earlier = later


def encoded(items: list[Sendable]) -> list[bytes | None]:
    return [item.encoded for item in items]


def test_one_conversation_goes_round_all_providers() -> None:
    messages: list[Message] = []
    for turn, identity in enumerate([*TARGETS, *reversed(TARGETS)]):
        messages.append(question(f"turn {turn}"))
        wire = wire_for(identity)
        assert validate_request(identity.api_style, body_of(wire, View(wire.target), messages, TOOLS)) == []
        thought = ThinkingBlock("hm", f"{SEAL}{TARGETS.index(identity)}")
        messages.append(Message(MessageRole.ASSISTANT, [thought, ToolUseBlock("call_0", "f", "{}")], identity=identity))
        assert validate_request(identity.api_style, body_of(wire, View(wire.target), messages, TOOLS)) == []
