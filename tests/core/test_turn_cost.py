"""A turn costs what it adds, not what the history holds: counted, over both wires, at three sizes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from panto import (
    AnthropicMessagesConfig,
    Message,
    MessageRole,
    OpenAIChatConfig,
    TextPart,
    ToolResultBlock,
    ToolUseBlock,
)
from panto._core.engine import wire_for
from panto._core.view import View
from panto._wire.names import NameTable
from panto.config import ProviderConfig


def history(rounds: int) -> list[Message]:
    made: list[Message] = []
    for at in range(rounds):
        call = ToolUseBlock(f"call_{at}", "look", '{"path": "a.txt"}')
        made += [
            Message(MessageRole.USER, "a question"),  # type: ignore[arg-type]
            Message(MessageRole.ASSISTANT, [call]),
            Message(MessageRole.USER, [ToolResultBlock(call.id, (TextPart("it says"),))]),
            Message(MessageRole.ASSISTANT, "an answer"),  # type: ignore[arg-type]
        ]
    return made


def steps(work: Callable[[], object]) -> int:
    """Lines of Python, and calls of C functions, that `work` takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += 1
        return trace

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "c_call"

    gc.collect()
    gc.disable()  # what others left to be finalised is not this work's
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.settrace(None)
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.parametrize(
    "config", [OpenAIChatConfig(model="m"), AnthropicMessagesConfig(model="m")], ids=["chat", "messages"]
)
def test_the_next_turn_takes_as_many_steps_after_a_long_history_as_after_a_short_one(config: ProviderConfig) -> None:
    took: list[int] = []
    for rounds in (50, 100, 200):
        wire = wire_for(config, NameTable([("", "look")]))
        view = View(wire.target)
        messages = history(rounds)

        def build() -> bytes:
            viewed = view.update(messages)  # noqa: B023  called at once
            return wire.request(viewed.system, (), viewed.items, first=True, key=None).body  # noqa: B023

        build()
        messages += history(1)
        took.append(steps(build))
        fresh_wire = wire_for(config, NameTable([("", "look")]))
        fresh = View(fresh_wire.target).update(messages)
        assert build() == fresh_wire.request(fresh.system, (), fresh.items, first=True, key=None).body
    assert took[0] == took[1] == took[2], took
