"""The bytes sent before are copied in one piece; whatever was done to the history, the request is a fresh wire's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panto._core.engine import wire_for
from panto._core.view import View
from panto._wire.names import NameTable
from panto.config import AnthropicMessagesConfig, OpenAIChatConfig, ProviderConfig
from panto.conversation import Message, MessageRole, TextPart, TextualBlock, ToolResultBlock, ToolUseBlock

CONFIGS: list[ProviderConfig] = [
    OpenAIChatConfig(model="m"),
    AnthropicMessagesConfig(model="m"),
    AnthropicMessagesConfig(model="m", prompt_cache=False),
]


def turn(number: int) -> list[Message]:
    call = ToolUseBlock(f"c{number}", "look", "{}")
    return [
        Message(MessageRole.USER, [TextualBlock(f"question {number}")]),
        Message(MessageRole.ASSISTANT, [call]),
        Message(MessageRole.USER, [ToolResultBlock(call.id, (TextPart("it says"),))]),
        Message(MessageRole.ASSISTANT, [TextualBlock(f"answer {number} \n")]),
    ]


edits = st.lists(
    st.tuples(st.sampled_from(["add", "add", "half", "drop", "remove", "change", "swap"]), st.integers(0, 40)),
    min_size=1,
    max_size=14,
)


@pytest.mark.parametrize("config", CONFIGS, ids=["chat", "messages", "messages without cache"])
@settings(max_examples=80, deadline=None)
@given(edits)
def test_after_any_surgery_the_request_is_what_a_fresh_wire_makes(
    config: ProviderConfig, todo: list[tuple[str, int]]
) -> None:
    wire = wire_for(config, NameTable([("", "look")]))
    view = View(wire.target)
    messages: list[Message] = []
    for number, (what, at) in enumerate(todo):
        match what:
            case "add":
                messages += turn(number)
            case "half":
                messages += turn(number)[:2]
            case "drop":
                del messages[len(messages) - min(len(messages), at % 9) :]
            case "remove" if messages:
                del messages[at % len(messages)]
            case "change" if messages:
                messages[at % len(messages)].content[0] = TextualBlock(f"changed {number}")
            case "swap" if messages:
                messages.insert(0, messages.pop(at % len(messages)))
        viewed = view.update(messages)
        body = wire.request(viewed.system, (), viewed.items, first=True, key=None).body
        fresh = wire_for(config, NameTable([("", "look")]))
        anew = View(fresh.target).update(messages)
        assert body == fresh.request(anew.system, (), anew.items, first=True, key=None).body
