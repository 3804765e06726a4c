"""Family RT of the field cases: reasoning goes back where it came from and is wanted, and nowhere else."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.faces import Face
from tests.field.wires import (
    PLAIN,
    agent_again,
    all_valid,
    chat,
    echo,
    kinds,
    messages,
    text,
    thought,
    used,
    with_provider,
)
from tests.stage import Stage, results, texts

import panto
from panto.testing import RecordedRequest, Step, call, fail, say, think

THINKING = panto.ContentBlockType.THINKING
MESSAGES = "anthropic_messages"


def thoughts(conversation: panto.Conversation) -> list[panto.ThinkingBlock]:
    return [b for m in conversation.messages for b in m.content if isinstance(b, panto.ThinkingBlock)]


# ---- RT-01 and RT-02: signatures


def test_rt_01_the_continuation_of_a_tool_turn_begins_with_the_thinking_as_it_came(stage: Stage) -> None:
    script = [think("Hm, ", "look.", signature="c2ln") + call("echo", x=1), say("ok")]
    agent, provider = stage.agent(script, stage.tool("echo", echo), style=MESSAGES, provider=PLAIN)
    assert texts(stage.run(agent)) == "ok"
    first, second = provider.requests[1].messages[1]["content"]  # type: ignore[misc]
    assert first == {"type": "thinking", "thinking": "Hm, look.", "signature": "c2ln"}
    assert second["type"] == "tool_use"  # type: ignore[index,call-overload]
    all_valid(provider)


def test_rt_02_thinking_cancelled_before_its_signature_does_not_end_the_session(stage: Stage) -> None:
    script = [think("Hm", signature="c2ln") + say("one"), say("two")]
    agent, provider = stage.agent(script, style=MESSAGES, provider=PLAIN)
    stage.run(agent, "first", stop=lambda e: isinstance(e, panto.ContentDelta) and e.type is THINKING)
    assert texts(stage.run(agent, "second")) == "two"
    assert provider.requests[1].messages == [
        {"role": "user", "content": [{"type": "text", "text": "first"}, {"type": "text", "text": "\n\nsecond"}]}
    ]
    all_valid(provider)


def test_rt_02_thinking_of_a_server_that_never_signs_is_kept_and_not_sent(stage: Stage) -> None:
    script = [think("Hm", signature=None) + say("one"), say("two")]
    agent, provider = stage.agent(script, style=MESSAGES, provider=PLAIN)
    stage.run(agent, "first")
    assert [block.text for block in thoughts(agent.conversation)] == ["Hm"]
    assert texts(stage.run(agent, "second")) == "two"
    assert provider.requests[1].messages[1] == {"role": "assistant", "content": [{"type": "text", "text": "one"}]}


# ---- RT-03: redacted thinking


def test_rt_03_redacted_thinking_comes_back_also_after_save_and_reload_and_nothing_of_it_is_shown(
    stage: Stage, tmp_path: Path
) -> None:
    sealed = [
        {"type": "redacted_thinking", "data": "ZZ"},
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "YY"},
    ]
    script = think(redacted="ZZ") + think("Hm", signature="c2ln") + think(redacted="YY") + call("echo", x=1)
    store = panto.FileSystemJSONLStore(tmp_path, fsync=False)
    tool = stage.tool("echo", echo)
    agent, provider = stage.agent(
        [script, say("ok"), say("again")], tool, style=MESSAGES, session=store.create(), provider=PLAIN
    )
    ran = stage.run(agent)
    assert [e.type for e in ran.of(panto.BlockStart)][:3] == [THINKING] * 3  # a placeholder each
    assert [e.text for e in ran.of(panto.ContentDelta) if e.type is THINKING] == ["Hm"]
    session = panto.FileSystemJSONLStore(tmp_path).latest()
    resumed = agent_again(stage, agent, provider, tool, session=session)
    assert texts(stage.run(resumed, "go on")) == "again"
    for request in provider.requests[1:]:
        content: Any = request.messages[1]["content"]
        assert content[:3] == sealed
        assert content[3]["type"] == "tool_use"
    all_valid(provider)


# ---- RT-04 and RT-05: plain reasoning on the chat wire


REASONED: list[Step] = [think("Let ", "me see.") + call("echo", x=1), think("So.") + say("one"), say("two")]


def reasoning_sent(request: RecordedRequest, field: str = "reasoning_content") -> list[Any]:
    return [message.get(field) for message in request.messages if message["role"] == "assistant"]


def test_rt_04_reasoning_goes_back_where_the_config_says_that_the_host_wants_it(stage: Stage) -> None:
    options = {"compat": panto.ChatCompat(send_reasoning="always")}
    agent, provider = stage.agent(REASONED, stage.tool("echo", echo), provider=options)
    stage.run(agent, "first")
    stage.run(agent, "second")
    assert [reasoning_sent(request) for request in provider.requests] == [
        [],
        ["Let me see."],
        ["Let me see.", "So."],
    ]
    assert provider.requests[1].messages[1]["tool_calls"]


def test_rt_04_where_only_the_tool_turn_in_progress_wants_it_the_next_question_leaves_it_out(stage: Stage) -> None:
    options = {"compat": panto.ChatCompat(send_reasoning="tool_loop")}
    agent, provider = stage.agent(REASONED, stage.tool("echo", echo), provider=options)
    stage.run(agent, "first")
    stage.run(agent, "second")
    assert [reasoning_sent(request) for request in provider.requests] == [[], ["Let me see."], [None, None]]


def test_rt_04_the_field_is_the_one_that_the_host_uses(stage: Stage) -> None:
    called = {"index": 0, "id": "c1", "type": "function", "function": {"name": "echo", "arguments": '{"x":1}'}}
    asks = chat({"reasoning": "Let "}, {"reasoning": "me see."}, {"tool_calls": [called]}, finish="tool_calls")
    options = {"compat": panto.ChatCompat(send_reasoning="always", reasoning_field="reasoning")}
    agent, provider = stage.agent([asks, say("ok")], stage.tool("echo", echo), provider=options)
    assert texts(stage.run(agent)) == "ok"
    assert reasoning_sent(provider.requests[1], "reasoning") == ["Let me see."]
    assert reasoning_sent(provider.requests[1]) == [None]


def demanding(answer: Step) -> Step:
    """A host in thinking mode: what was reasoned before a call must be passed back."""

    def answered(request: RecordedRequest) -> Step:
        for message in request.messages:
            if message.get("tool_calls") and not message.get("reasoning_content"):
                return fail(400, "The reasoning_content in the thinking mode must be passed back to the API.")
        return answer

    return answered


@pytest.mark.parametrize("base_url", ["https://api.deepseek.com", "https://api.deepseek.com/v1"])
def test_rt_04_deepseek_is_known_to_want_its_reasoning_back(face: Face, base_url: str) -> None:
    stage = Stage(face, "memory")  # the real host's name, without the host
    agent, provider = stage.agent(
        [demanding(step) for step in REASONED], stage.tool("echo", echo), provider={"base_url": base_url}
    )
    assert texts(stage.run(agent, "first")) == "one"
    assert texts(stage.run(agent, "second")) == "two"
    assert len(provider.requests) == 3
    assert reasoning_sent(provider.requests[2]) == ["Let me see.", "So."]


def strict(answer: Step) -> Step:
    """A server that takes no key in an assistant message but those of the published schema."""

    def answered(request: RecordedRequest) -> Step:
        for at, message in enumerate(request.messages):
            unknown = set(message) - {"role", "content", "tool_calls", "name", "refusal", "audio"}
            if message["role"] == "assistant" and unknown:
                return fail(422, f"messages.{at}: extra inputs are not permitted: {sorted(unknown)}")
        return answer

    return answered


def five_turns(stage: Stage, **options: Any) -> None:
    script = [think("Hm ", str(n)) + call("echo", x=n) + say(stop="tool_calls") for n in range(5)]
    answers = [think("So ", str(n)) + say(f"answer {n}") for n in range(5)]
    steps = [strict(step) for pair in zip(script, answers, strict=True) for step in pair]
    agent, provider = stage.agent(steps, stage.tool("echo", echo), **options)
    for n in range(5):
        ran = stage.run(agent, f"question {n}")
        assert ran.error is None
        assert texts(ran) == f"answer {n}"
    assert len(provider.requests) == 10
    assert [block.text for block in thoughts(agent.conversation)][:2] == ["Hm 0", "So 0"]  # kept, for display


def test_rt_05_an_unknown_host_gets_no_reasoning_from_the_first_turn_to_the_fifth(stage: Stage) -> None:
    five_turns(stage)


@pytest.mark.parametrize(
    "base_url", ["https://api.groq.com/openai/v1", "https://api.cerebras.ai/v1", "https://api.mistral.ai/v1"]
)
def test_rt_05_groq_cerebras_and_mistral_get_no_reasoning(face: Face, base_url: str) -> None:
    five_turns(Stage(face, "memory"), provider={"base_url": base_url})


# ---- RT-06: home is api_style, base_url and model


def moved(agent: Any, change: str) -> panto.Config:
    provider = agent._engine.config.provider
    match change:
        case "base_url":
            return with_provider(agent, base_url=provider.base_url + "/other")
        case "model":
            return with_provider(agent, model="another")
        case _:
            other = panto.OpenAIChatConfig(model=provider.model, api_key="k", base_url=provider.base_url + "/v1")
            return panto.Config(provider=other)


@pytest.mark.parametrize("change", ["base_url", "model", "api_style"])
def test_rt_06_signed_thinking_goes_home_only_and_home_is_host_model_and_wire(stage: Stage, change: str) -> None:
    script = [think("Hm", signature="c2ln") + call("echo", x=1), say("one"), say("two"), say("three")]
    agent, provider = stage.agent(script, stage.tool("echo", echo), style=MESSAGES, provider=PLAIN)
    home = agent._engine.config
    stage.run(agent, "first")
    agent.set_config(moved(agent, change))
    assert texts(stage.run(agent, "second")) == "two"
    away = str(provider.requests[2].messages)
    assert "c2ln" not in away
    assert "Hm" not in away
    assert "echo 1" in away
    agent.set_config(home)
    assert texts(stage.run(agent, "third")) == "three"
    back: Any = provider.requests[3].messages[1]["content"]
    assert back[0] == {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
    identities = [m.identity for m in agent.conversation.messages if m.role is panto.MessageRole.ASSISTANT]
    assert [identity == identities[0] for identity in identities] == [True, True, False, True]
    all_valid(provider)


# ---- RT-07: order


def test_rt_07_interleaved_thinking_is_sent_in_received_order_and_texts_are_not_joined(stage: Stage) -> None:
    first = messages(
        thought("A", "s1"), text("one"), text("two"), used("t1", "echo", '{"x":1}'), thought("B", "s2"),
        used("t2", "echo", '{"x":2}'), stop="tool_use",
    )  # fmt: skip
    second = messages(thought("C", "s3"), used("t3", "echo", '{"x":3}'), stop="tool_use")
    agent, provider = stage.agent(
        [first, second, say("ok"), say("more")], stage.tool("echo", echo), style=MESSAGES, provider=PLAIN
    )
    assert texts(stage.run(agent)) == "onetwook"
    stage.run(agent, "and?")
    one = [
        {"type": "thinking", "thinking": "A", "signature": "s1"},
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
        {"type": "tool_use", "id": "t1", "name": "echo", "input": {"x": 1}},
        {"type": "thinking", "thinking": "B", "signature": "s2"},
        {"type": "tool_use", "id": "t2", "name": "echo", "input": {"x": 2}},
    ]
    two = [
        {"type": "thinking", "thinking": "C", "signature": "s3"},
        {"type": "tool_use", "id": "t3", "name": "echo", "input": {"x": 3}},
    ]
    assert provider.requests[1].messages[1] == {"role": "assistant", "content": one}
    for request in provider.requests[2:]:
        assert [m["content"] for m in request.messages if m["role"] == "assistant"][:2] == [one, two]
    assert kinds(provider.requests[1].messages[2]) == ["tool_result", "tool_result"]
    all_valid(provider)


# ---- RT-08: thinking switched on under a pending tool turn


def thinking(request: RecordedRequest) -> Any:
    field: Any = request.body.get("thinking")
    return field and field["type"]


def test_rt_08_thinking_switched_on_under_a_pending_tool_turn_waits_until_it_is_done_and_says_so(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    agent, provider = stage.agent(
        [call("echo", x=1), say("done"), say("more")],
        stage.tool("echo", echo),
        style=MESSAGES,
        provider={"reasoning": "off"},
        limits=panto.Limits(max_calls=1),
    )
    higher = with_provider(agent, reasoning=panto.ReasoningEffort.HIGH)

    def change(event: panto.Event) -> bool:
        if isinstance(event, panto.ToolDispatchStart):
            with pytest.raises(panto.StateError):
                agent.set_config(higher)  # between turns only
        return False

    assert stage.run(agent, "look", stop=change).last.stop_reason is panto.StopReason.LIMIT
    assert [result.text for result in results(agent.conversation)] == ["echo 1"]
    agent.set_config(higher)
    with caplog.at_level(logging.WARNING, "panto"):
        assert texts(stage.run(agent, None)) == "done"
    assert "thinking is off until the tool calls that began without it are done" in caplog.text
    assert texts(stage.run(agent, "and now?")) == "more"
    assert [thinking(request) for request in provider.requests] == ["disabled", "disabled", "enabled"]


def test_rt_08_a_session_resumed_with_another_reasoning_level_does_the_same(stage: Stage, tmp_path: Path) -> None:
    store, tool = panto.FileSystemJSONLStore(tmp_path, fsync=False), stage.tool("echo", echo)
    agent, provider = stage.agent(
        [call("echo", x=1), say("done"), say("more")],
        tool,
        style=MESSAGES,
        session=store.create(),
        provider={"reasoning": "off"},
        limits=panto.Limits(max_calls=1),
    )
    stage.run(agent, "look")
    agent.set_config(with_provider(agent, reasoning=panto.ReasoningEffort.HIGH))
    session = panto.FileSystemJSONLStore(tmp_path).latest()
    resumed = agent_again(stage, agent, provider, tool, session=session)
    assert texts(stage.run(resumed, None)) == "done"
    assert texts(stage.run(resumed, "and now?")) == "more"
    assert [thinking(request) for request in provider.requests] == ["disabled", "disabled", "enabled"]
