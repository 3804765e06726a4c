"""Family EM of the field cases: empty, odd and mis-ordered messages never make a session unusable."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.field.wires import (
    PLAIN,
    agent_again,
    all_valid,
    both_wires,
    chat,
    echo,
    flat,
    kinds,
    messages,
    roles,
    text,
    used,
)
from tests.stage import Stage, results, texts

import panto
from panto.testing import RecordedRequest, Step, call, fail, say

# ---- EM-01: empty blocks and empty answers


def with_an_empty_text(style: str) -> Step:
    if style == "anthropic_messages":
        return messages(text(""), used("c1", "echo", '{"x":1}'), stop="tool_use")
    function = {"name": "echo", "arguments": '{"x":1}'}
    called = {"index": 0, "id": "c1", "type": "function", "function": function}
    return chat({"role": "assistant", "content": ""}, {"tool_calls": [called]}, finish="tool_calls")


def no_block_at_all(style: str) -> Step:
    return messages() if style == "anthropic_messages" else chat({"role": "assistant"})


def one_empty_block(style: str) -> Step:
    return messages(text("")) if style == "anthropic_messages" else chat({"role": "assistant", "content": ""})


@both_wires
@pytest.mark.parametrize("empty", [no_block_at_all, one_empty_block])
def test_em_01_empty_texts_and_empty_answers_are_recorded_and_never_sent_back(
    stage: Stage, style: str, empty: Any
) -> None:
    session = panto.MemoryStore().create()
    agent, provider = stage.agent(
        [empty(style), with_an_empty_text(style), empty(style), say("ok")],
        stage.tool("echo", echo),
        style=style,
        session=session,
        provider=PLAIN,
    )
    for said in ("first", "second"):
        assert isinstance(stage.run(agent, said).last, panto.TurnComplete)
    assert texts(stage.run(agent, "third")) == "ok"
    all_valid(provider)
    _, second, third, fourth = provider.requests
    assert roles(second) == ["user"]  # the empty answer is gone, and its neighbours are one
    assert flat(second.messages[0]) == "first\n\nsecond"
    if style == "anthropic_messages":
        assert [kinds(message) for message in fourth.messages] == [["text"] * 2, ["tool_use"], ["tool_result", "text"]]
    else:
        assert third.messages[1]["content"] is None
        assert roles(fourth) == ["user", "assistant", "tool", "user"]
    assert flat(fourth.messages[-1]).endswith("third")
    answers = [m for m in agent.conversation.messages if m.role is panto.MessageRole.ASSISTANT]
    assert [(m.text, len(m.tool_calls)) for m in answers] == [("", 0), ("", 1), ("", 0), ("ok", 0)]
    assert session.load() == agent.conversation


@both_wires
@pytest.mark.parametrize("blank", ["", " \n\t"])
def test_em_01_a_history_that_holds_empty_texts_and_messages_can_be_sent(stage: Stage, style: str, blank: str) -> None:
    nothing = panto.TextualBlock(blank)
    talk = panto.Conversation()
    talk.add_user_message("first")
    talk.add_assistant_message([nothing])
    talk.add_assistant_message([])
    talk.add_user_message("second")
    talk.add_assistant_message([nothing, panto.ToolUseBlock("c1", "echo", "{}"), nothing])
    talk.messages.append(panto.Message(panto.MessageRole.USER, [panto.ToolResultBlock("c1", ()), nothing]))
    talk.add_assistant_message([nothing])
    agent, provider = stage.agent([say("ok")], style=style, conversation=talk, provider=PLAIN)
    assert texts(stage.run(agent, "third")) == "ok"
    [request] = provider.requests
    asked, answered, *rest = request.messages
    assert flat(asked) == "first\n\nsecond"
    if style == "anthropic_messages":
        assert kinds(answered) == ["tool_use"]
        assert [kinds(message) for message in rest] == [["tool_result", "text"]]
    else:
        assert answered["content"] is None
        assert [message["role"] for message in rest] == ["tool", "user"]
    assert flat(rest[-1]) == "third"
    assert agent.conversation.messages[1].content == [nothing]  # the history itself is left as it was
    all_valid(provider)


# ---- EM-02: the roles alternate


def alternating(answer: Step) -> Step:
    """A server whose chat template wants user and assistant by turns, and at most one system message, first."""

    def answered(request: RecordedRequest) -> Step:
        said = roles(request)
        if "system" in said[1:]:
            return fail(500, "System message must be at the beginning")
        spoken = [role for role in said if role not in ("system", "tool")]
        doubled = any(a == b == "user" for a, b in pairwise(said))
        if doubled or spoken[0] != "user" or any(flat(m) == "" for m in request.messages if m["role"] == "user"):
            return fail(500, "Conversation roles must alternate user/assistant/user/assistant/...")
        return answer

    return answered


NO_PARTS = {"compat": panto.ChatCompat(parts=False)}


@pytest.mark.parametrize(
    ("style", "options"),
    [("openai_chat", {}), ("openai_chat", NO_PARTS), ("anthropic_messages", {})],
    ids=["chat", "chat without parts", "messages"],
)
def test_em_02_user_messages_in_a_row_are_merged_with_a_blank_line_between(
    stage: Stage, style: str, options: dict[str, Any]
) -> None:
    talk = panto.Conversation()
    talk.add_user_message("one")
    talk.add_user_message("two")
    talk.add_assistant_message("an answer")
    talk.add_user_message("The user denied the action.")
    talk.add_user_message("go on")
    agent, provider = stage.agent([alternating(say("ok"))], style=style, conversation=talk, provider=options)
    assert texts(stage.run(agent, None)) == "ok"
    [request] = provider.requests
    assert [(message["role"], flat(message)) for message in request.messages] == [
        ("user", "one\n\ntwo"),
        ("assistant", "an answer"),
        ("user", "The user denied the action.\n\ngo on"),
    ]
    assert len(agent.conversation.messages) == 6  # the history itself is left as it was
    all_valid(provider)


@both_wires
def test_em_02_results_of_tools_stay_apart_from_what_the_user_says(stage: Stage, style: str) -> None:
    talk = panto.Conversation()
    talk.add_user_message("look")
    talk.add_assistant_message([panto.ToolUseBlock(f"c{n}", "echo", "{}") for n in (1, 2)])
    for n in (1, 2):
        block = panto.ToolResultBlock(f"c{n}", (panto.TextPart(f"r{n}"),))
        talk.messages.append(panto.Message(panto.MessageRole.USER, [block]))
    talk.add_user_message("note")
    agent, provider = stage.agent([alternating(say("ok"))], style=style, conversation=talk, provider=PLAIN)
    assert texts(stage.run(agent, "go on")) == "ok"
    [request] = provider.requests
    if style == "openai_chat":
        assert roles(request) == ["user", "assistant", "tool", "tool", "user"]
        assert [message["content"] for message in request.messages[2:4]] == ["r1", "r2"]
    else:
        assert roles(request) == ["user", "assistant", "user"]
        assert kinds(request.messages[2]) == ["tool_result", "tool_result", "text", "text"]
    assert flat(request.messages[-1]) == "note\n\ngo on"
    all_valid(provider)


# ---- EM-03: one system message, first


@both_wires
def test_em_03_there_is_exactly_one_system_message_and_notes_and_summaries_are_words_of_the_user(
    stage: Stage, style: str
) -> None:
    talk = panto.Conversation()
    talk.add_compaction_summary("so far: one", 2)
    talk.add_user_message("(note: the file has changed)")
    talk.add_assistant_message("noted")
    agent, provider = stage.agent(
        [alternating(say("a")), alternating(say("b"))], style=style, conversation=talk, provider=PLAIN
    )
    stage.face.call(agent.set_system_prompt("Be brief."))
    stage.face.call(agent.add_system_message("Be kind."))
    stage.face.call(agent.add_system_message("Be exact."))
    assert texts(stage.run(agent, "first")) == "a"
    stage.face.call(agent.add_system_message("It is late."))  # in the middle of the conversation
    assert texts(stage.run(agent, "second")) == "b"
    whole = ["Be brief.\n\nBe kind.\n\nBe exact.", "Be brief.\n\nBe kind.\n\nBe exact.\n\nIt is late."]
    assert [request.system for request in provider.requests] == whole
    for request in provider.requests:
        spoken = roles(request)
        if style == "openai_chat":
            assert spoken.pop(0) == "system"
        assert set(spoken) == {"user", "assistant"}
        said = next(flat(message) for message in request.messages if message["role"] == "user")
        assert "so far: one" in said
        assert said.endswith("\n\n(note: the file has changed)")
    all_valid(provider)


# ---- EM-04: `developer` is not known everywhere


def test_em_04_the_prompt_goes_as_system_and_as_developer_only_by_explicit_choice(stage: Stage) -> None:
    def unknown(request: RecordedRequest) -> Step:
        strange = [role for role in roles(request) if role not in ("system", "user", "assistant", "tool")]
        return fail(400, f"Unknown role: {strange[0]}") if strange else say("ok")

    agent, provider = stage.agent([unknown])
    stage.face.call(agent.set_system_prompt("Be brief."))
    assert texts(stage.run(agent)) == "ok"
    assert roles(provider.requests[0]) == ["system", "user"]

    chosen = {"compat": panto.ChatCompat(system_role="developer")}
    agent, provider = stage.agent([say("ok")], provider=chosen)
    stage.face.call(agent.set_system_prompt("Be brief."))
    assert texts(stage.run(agent)) == "ok"
    assert roles(provider.requests[0]) == ["developer", "user"]


# ---- EM-05: lone surrogates


def clean(value: Any) -> Any:
    """The request as any JSON reader sees it; raises where UTF-8 cannot carry it."""
    return json.dumps(value, ensure_ascii=False).encode().decode()


def arguments_sent(request: RecordedRequest) -> Any:
    """The arguments of the first call in a request."""
    answer: Any = next(message for message in request.messages if message["role"] == "assistant")
    if "tool_calls" in answer:
        return json.loads(answer["tool_calls"][0]["function"]["arguments"])
    return answer["content"][0]["input"]


@both_wires
def test_em_05_lone_surrogates_are_replaced_and_pairs_joined_wherever_they_come_from(
    stage: Stage, style: str, tmp_path: Path
) -> None:
    store = panto.FileSystemJSONLStore(tmp_path, fsync=False)
    got: list[Any] = []

    def listing(arguments: dict[str, Any]) -> str:
        got.append(arguments["x"])
        return "caf\udce9 \ud83d\ude00"  # os.listdir with surrogateescape, and a pair as two code units

    tool = stage.tool("listing", listing)
    agent, provider = stage.agent(
        [call("listing", '{"x": "arg\\ud83d"}'), say("ok"), say("more"), say("again")],
        tool,
        style=style,
        session=store.create(),
        provider=PLAIN,
    )
    stage.face.call(agent.set_system_prompt("Be \udce9."))
    ran = stage.run(agent, "half \ud83d")
    assert (texts(ran), ran.error) == ("ok", None)
    assert texts(stage.run(agent, "whole \ud83d\ude00")) == "more"
    assert got == ["arg\ufffd"]
    assert len(provider.requests) == 3  # no attempt failed
    last = clean(provider.requests[-1].body)
    for words in ("Be \ufffd.", "half \ufffd", "caf\ufffd \U0001f600", "whole \U0001f600"):
        assert words in last
    assert arguments_sent(provider.requests[-1]) == {"x": "arg\ufffd"}
    all_valid(provider)
    session = panto.FileSystemJSONLStore(tmp_path).latest()
    resumed = agent_again(stage, agent, provider, tool, session=session)
    assert texts(stage.run(resumed, "go on")) == "again"
    assert [result.is_error for result in results(resumed.conversation)] == [False]
    assert "half \ufffd" in clean(provider.requests[-1].body)


@both_wires
def test_em_05_a_lone_surrogate_in_an_answer_does_no_harm(stage: Stage, style: str) -> None:
    if style == "anthropic_messages":
        odd = messages(text("half \ud83d"), text("pair \ud83d\ude00"))
    else:
        odd = chat({"content": "half \ud83d"}, {"content": " pair \ud83d"}, {"content": "\ude00"})
    agent, provider = stage.agent([odd, say("ok")], style=style)
    shown = texts(stage.run(agent, "first"))
    assert clean(shown) in ('"half \ufffdpair \U0001f600"', '"half \ufffd pair \U0001f600"')
    assert texts(stage.run(agent, "second")) == "ok"
    assert "half \ufffd" in clean(provider.requests[1].messages)
    all_valid(provider)


@both_wires
def test_arguments_that_no_reader_can_take_are_not_run_and_do_not_end_the_session(stage: Stage, style: str) -> None:
    ran_with: list[Any] = []
    tool = stage.tool("note", lambda arguments: ran_with.append(arguments) or "noted")
    odd = ['{"x": ' + "[" * 50_000, '{"x": "\\ud83d", "y": 1e999}']
    calls = call("note", odd[0]) + call("note", odd[1]) + call("note", '{"x": "\\ud83d\\ude00"}')
    agent, provider = stage.agent([calls, say("ok")], tool, style=style)
    assert texts(stage.run(agent)) == "ok"
    assert ran_with == [{"x": "\U0001f600"}]
    assert [result.is_error for result in results(agent.conversation)] == [True, True, False]
    all_valid(provider)
