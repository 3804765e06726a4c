"""Whole runs, as a user sees them: in both colours, in process and over loopback."""

from __future__ import annotations

import base64
import threading
import time
from typing import Any

import pytest

import panto
from panto.testing import call, fail, say

from .faces import Face
from .stage import Stage, results, texts

TEXT = panto.ContentBlockType.TEXT
DOT = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC")


def echo(arguments: dict[str, Any]) -> str:
    return f"echo {arguments.get('x')}"


# ---- a plain turn


def test_an_answer_streams_and_joins_the_conversation(stage: Stage) -> None:
    agent, provider = stage.agent([say("Hel", "lo")])
    ran = stage.run(agent, "Hi")
    assert texts(ran) == "Hello"
    assert isinstance(ran.last, panto.TurnComplete)
    assert ran.last.stop_reason is panto.StopReason.STOP
    assert [(m.role, m.text) for m in agent.conversation.messages] == [("user", "Hi"), ("assistant", "Hello")]
    assert [event.index for event in ran.of(panto.ContentDelta)] == [0, 0]
    [complete] = ran.of(panto.MessageComplete)
    assert complete.message == agent.conversation.messages[-1]
    assert complete.message is not agent.conversation.messages[-1]
    provider.requests[0].expect(messages=[{"role": "user", "content": "Hi"}])


def test_the_message_of_an_event_does_not_change_with_later_surgery(stage: Stage) -> None:
    agent, _ = stage.agent([say("Hello")])
    [complete] = stage.run(agent).of(panto.MessageComplete)
    agent.conversation.messages[-1].content.clear()
    assert complete.message.text == "Hello"


def test_a_conversation_goes_on_over_turns_and_a_change_of_wire(stage: Stage) -> None:
    agent, provider = stage.agent([say("one"), say("two"), say("three")])
    stage.run(agent, "first")
    stage.run(agent, "second")
    assert len(provider.requests[1].messages) == 3
    style = "anthropic_messages"
    base = agent._engine.config.provider.base_url.removesuffix("/v1")
    other = panto.AnthropicMessagesConfig(model="m", api_key="k", base_url=base)
    agent.set_config(panto.Config(provider=other))
    assert texts(stage.run(agent, "third")) == "three"
    assert provider.requests[2].wire == style
    assert [m.identity.api_style for m in agent.conversation.messages if m.identity] == ["openai_chat"] * 2 + [style]


def test_run_none_goes_on_from_where_the_history_stands(stage: Stage) -> None:
    agent, provider = stage.agent([fail(400, "no"), say("there")])
    assert isinstance(stage.run(agent, "Are you there?").error, panto.ProviderError)
    assert texts(stage.run(agent, None)) == "there"
    assert [m.text for m in agent.conversation.messages] == ["Are you there?", "there"]
    assert provider.requests[0].body == provider.requests[1].body


def test_run_none_with_nothing_said_is_refused_before_anything_is_sent(stage: Stage) -> None:
    agent, provider = stage.agent([])
    assert isinstance(stage.run(agent, None).error, panto.ConfigError)
    assert provider.requests == []


@pytest.mark.parametrize("blank", ["", " \n", panto.UserMessage("  ")])
def test_a_blank_message_without_media_is_refused_before_anything_is_sent(stage: Stage, blank: Any) -> None:
    agent, provider = stage.agent([])
    with pytest.raises(panto.ConfigError, match="blank"):
        agent.run(blank)
    assert provider.requests == []
    assert agent.conversation.messages == []


def test_system_prompts_are_sent_once_and_first_and_replaced(stage: Stage) -> None:
    agent, provider = stage.agent([say("a"), say("b")])
    stage.face.call(agent.set_system_prompt("Be brief."))
    stage.face.call(agent.add_system_message("Be kind."))
    stage.run(agent)
    assert provider.requests[0].system == "Be brief.\n\nBe kind."
    stage.face.call(agent.set_system_prompt("Be long."))
    stage.run(agent)
    assert provider.requests[1].system == "Be long."
    assert [m["role"] for m in provider.requests[1].messages].count("system") == 1


def test_a_user_message_brings_its_media_and_its_metadata(stage: Stage) -> None:
    agent, provider = stage.agent([say("a dot")])
    stage.run(agent, panto.UserMessage("What is it?", [panto.MediaPart("image/png", DOT)], '{"n":1}'))
    said = agent.conversation.messages[0]
    assert (said.metadata, said.content[0].type if hasattr(said.content[0], "type") else type(said.content[0])) == (
        '{"n":1}',
        panto.MediaBlock,
    )
    kinds = [part["type"] for part in provider.requests[0].messages[0]["content"]]  # type: ignore[union-attr,index,call-overload]
    assert kinds == ["image_url", "text"]


# ---- tools


def test_a_tool_loop_runs_to_its_end(stage: Stage) -> None:
    agent, provider = stage.agent([call("echo", x=1), say("done")], stage.tool("echo", echo))
    ran = stage.run(agent)
    assert texts(ran) == "done"
    assert [r.text for r in results(agent.conversation)] == ["echo 1"]
    kinds = [type(event).__name__ for event in ran.events]
    assert kinds.index("MessageComplete") < kinds.index("ToolDispatchStart") < kinds.index("ToolDispatchComplete")
    assert provider.requests[0].tools == ["echo"]
    assert ran.last.usage.output_tokens == 10
    assert agent.conversation.problems() == []


def test_calls_of_one_message_run_beside_each_other_and_results_are_in_call_order(stage: Stage) -> None:
    gate = threading.Barrier(2, timeout=10)

    def meet(arguments: dict[str, Any]) -> str:
        gate.wait()
        time.sleep(0.02 if arguments["x"] == 1 else 0)
        return f"met {arguments['x']}"

    schema: dict[str, Any] = {"type": "object", "properties": {}}
    tool = panto.Tool("meet", "meets", schema, meet)  # a blocking one, in both colours: it gets a thread
    agent, provider = stage.agent([call("meet", x=1) + call("meet", x=2), say("done")], tool)
    ran = stage.run(agent)
    assert [r.text for r in results(agent.conversation)] == ["met 1", "met 2"]
    assert [e.call.arguments["x"] for e in ran.of(panto.ToolDispatchComplete)] == [2, 1]
    sent = [m["content"] for m in provider.requests[1].messages if m["role"] == "tool"]
    assert sent == ["met 1", "met 2"]


def test_a_tool_that_wants_to_be_alone_runs_alone(stage: Stage) -> None:
    running, most = 0, 0

    def alone(arguments: dict[str, Any]) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.005)
        running -= 1
        return "ok"

    tool = panto.Tool("alone", "runs alone", {"type": "object", "properties": {}}, alone, parallel=False)
    agent, _ = stage.agent([call("alone") + call("alone") + call("alone"), say("done")], tool)
    stage.run(agent)
    assert most == 1
    assert len(results(agent.conversation)) == 3


def test_to_01_a_failing_and_a_slow_tool_leave_the_others_their_results(stage: Stage) -> None:
    def boom(arguments: dict[str, Any]) -> str:
        raise ValueError("boom")

    def slow(arguments: dict[str, Any]) -> str:
        time.sleep(0.5)
        return "late"

    if stage.way == "memory":
        return  # its clock is a fake, which a tool that really sleeps does not move
    tools = [
        stage.tool("echo", echo),
        stage.tool("boom", boom),
        panto.Tool("slow", "is slow", {"type": "object", "properties": {}}, slow, timeout=0.05),
    ]
    agent, provider = stage.agent([call("echo", x=1) + call("boom") + call("slow"), say("ok")], *tools)
    ran = stage.run(agent)
    good, failed, late = results(agent.conversation)
    assert (good.text, good.is_error) == ("echo 1", False)
    assert (failed.text, failed.is_error) == ("ValueError: boom", True)
    assert late.is_error
    assert "timed out after 0.05 seconds" in late.text
    assert texts(ran) == "ok"
    assert [e.result.is_error for e in ran.of(panto.ToolDispatchComplete)].count(True) == 2
    assert "Traceback" not in str(provider.requests[1].messages)


def test_to_02_an_error_is_flagged_in_history_and_told_to_the_model_on_both_wires(stage: Stage) -> None:
    def broken(arguments: dict[str, Any]) -> panto.ToolCallResult:
        return panto.ToolCallResult((panto.TextPart("401"),), is_error=True)

    for style in ("openai_chat", "anthropic_messages"):
        agent, provider = stage.agent([call("broken"), say("ok")], stage.tool("broken", broken), style=style)
        stage.run(agent)
        assert results(agent.conversation)[0].is_error
        sent = str(provider.requests[1].messages)
        assert "Error: 401" in sent if style == "openai_chat" else "'is_error': True" in sent


def test_to_03_a_giant_result_is_cut_in_the_middle_before_it_enters_the_history(stage: Stage) -> None:
    agent, _ = stage.agent([call("big"), say("ok")], stage.tool("big", lambda arguments: "a" * 2_000_000 + "end"))
    ran = stage.run(agent)
    [kept] = results(agent.conversation)
    assert len(kept.text) < 60_000
    assert kept.text.startswith("aaa")
    assert kept.text.endswith("end")
    [event] = ran.of(panto.ToolDispatchComplete)
    assert event.result.text == kept.text


def test_an_unknown_tool_and_arguments_that_do_not_parse_get_error_results_and_both_events(stage: Stage) -> None:
    agent, _ = stage.agent([call("nope", x=1) + call("echo", '{"x": '), say("ok")], stage.tool("echo", echo))
    ran = stage.run(agent)
    unknown, torn = results(agent.conversation)
    assert unknown.is_error
    assert "echo" in unknown.text  # which tools there are
    assert torn.is_error
    assert "JSON" in torn.text
    assert len(ran.of(panto.ToolDispatchStart)) == len(ran.of(panto.ToolDispatchComplete)) == 2
    assert texts(ran) == "ok"


def test_tc_05_no_argument_text_at_all_runs_the_tool_with_no_arguments(stage: Stage) -> None:
    seen: list[Any] = []

    def now(arguments: dict[str, Any]) -> str:
        seen.append(arguments)
        return "noon"

    for style in ("openai_chat", "anthropic_messages"):
        for text in ("", " ", "null"):
            agent, _ = stage.agent([call("now", text), say("ok")], stage.tool("now", now), style=style)
            stage.run(agent)
    assert seen == [{}] * 6


def test_tc_08_complete_calls_run_whatever_the_finish_reason_says(stage: Stage) -> None:
    for stop in ("stop", "other"):
        agent, _ = stage.agent([say("On it", stop=stop) + call("echo", x=1), say("ok")], stage.tool("echo", echo))
        assert texts(stage.run(agent)) == "On itok"
        assert [r.text for r in results(agent.conversation)] == ["echo 1"]


def test_tc_09_a_finish_reason_of_calls_without_any_ends_the_turn_after_one_request(stage: Stage) -> None:
    for style, stop in (("openai_chat", "tool_calls"), ("anthropic_messages", "tool_use")):
        agent, provider = stage.agent([say(stop=stop)], style=style)
        ran = stage.run(agent)
        assert isinstance(ran.last, panto.TurnComplete)
        assert len(provider.requests) == 1


def test_tc_10_a_call_cut_by_the_output_limit_is_not_run_and_the_model_is_told(stage: Stage) -> None:
    ran_with: list[Any] = []
    for style, stop in (("openai_chat", "length"), ("anthropic_messages", "max_tokens")):
        for text in ('{"path": "a.txt", "text": "lorem', '{"path": "a.txt"}'):
            agent, provider = stage.agent(
                [call("write", text) + say(stop=stop), say("again")],
                stage.tool("write", lambda arguments: ran_with.append(arguments)),
                style=style,
            )
            ran = stage.run(agent)
            assert ran.last.stop_reason is panto.StopReason.LENGTH
            [cut] = results(agent.conversation)
            assert cut.is_error
            assert "length" in cut.text
            assert len(ran.of(panto.ToolDispatchComplete)) == 1
            assert texts(stage.run(agent, "go on")) == "again"
            assert len(provider.requests) == 2
            assert {p.rule for p in agent.conversation.problems()} <= {"arguments"}
    assert ran_with == []


def test_a_pause_of_the_provider_is_sent_back_as_it_is_and_the_loop_goes_on(stage: Stage) -> None:
    agent, provider = stage.agent([say("Searching", stop="pause_turn"), say("Found.")], style="anthropic_messages")
    ran = stage.run(agent)
    assert texts(ran) == "SearchingFound."
    assert [e.stop_reason for e in ran.of(panto.MessageComplete)] == [panto.StopReason.PAUSE, panto.StopReason.STOP]
    assert ran.last.stop_reason is panto.StopReason.STOP
    last = provider.requests[1].messages[-1]
    assert (last["role"], "Searching" in str(last["content"])) == ("assistant", True)


def test_pauses_without_end_are_counted_by_max_calls(stage: Stage) -> None:
    agent, provider = stage.agent(
        [say("on", stop="pause_turn")] * 3, style="anthropic_messages", limits=panto.Limits(max_calls=3)
    )
    assert stage.run(agent).last.stop_reason is panto.StopReason.LIMIT
    assert len(provider.requests) == 3


def test_a_limit_on_calls_ends_the_run_with_its_name(stage: Stage) -> None:
    agent, provider = stage.agent(
        [call("echo", x=1), call("echo", x=2)],
        stage.tool("echo", echo),
        limits=panto.Limits(max_calls=2),
    )
    ran = stage.run(agent)
    assert ran.last.stop_reason is panto.StopReason.LIMIT
    assert "max_calls" in ran.last.detail
    assert len(provider.requests) == 2
    assert agent.conversation.problems() == []


def test_a_tool_source_is_asked_at_each_run_and_called_once_for_all_its_calls(stage: Stage) -> None:
    class Source:
        asked: list[int] = []

        def decls(self) -> list[panto.ToolDecl]:
            return [panto.ToolDecl(name, "of a source", {"type": "object"}) for name in ("s.a", "s.b")]

        def call(self, calls: list[panto.ToolCall]) -> list[panto.ToolCallResult]:
            self.asked.append(len(calls))
            return [panto.ToolCallResult((panto.TextPart(c.name),)) for c in calls]

    agent, provider = stage.agent([call("s_a") + call("s_b"), say("ok")])
    agent.register_tool_source(Source())
    stage.run(agent)
    assert [r.text for r in results(agent.conversation)] == ["s.a", "s.b"]
    assert Source.asked[-1] == 2
    assert provider.requests[0].tools == ["s_a", "s_b"]


def test_tn_04_the_same_name_twice_is_an_error_at_registration(face: Face) -> None:
    stage = Stage(face, "memory")
    agent, _ = stage.agent([], stage.tool("search", echo))
    with pytest.raises(panto.ToolNameError, match="search"):
        agent.register_tool(stage.tool("search", echo))
    with pytest.raises(panto.ToolNameError):
        agent.register_tool(stage.tool(" ", echo))
    agent.unregister_tool("search")
    agent.register_tool(stage.tool("search", echo))
    with pytest.raises(panto.ConfigError):
        agent.unregister_tool("nope")


def test_a_function_is_made_a_tool_and_what_does_not_fit_goes_back_naming_the_field(stage: Stage) -> None:
    agent, _ = stage.agent([call("add", a="many", b=2), call("add", a=1, b=2), say("ok")])

    @agent.tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    stage.run(agent)
    misfit, good = results(agent.conversation)
    assert misfit.is_error
    assert "a" in misfit.text
    assert good.text == "3"
    assert add(1, 2) == 3


def test_hooks_allow_deny_change_ask_and_see_results(stage: Stage) -> None:
    asked: list[str] = []

    def decide(tool_call: panto.ToolCall) -> Any:
        return {
            "1": panto.Allow(),
            "2": panto.Deny("not that"),
            "3": panto.Change({"x": "changed"}),
            "4": panto.Ask("really?"),
            "5": None,
        }[str(tool_call.arguments["x"])]

    def on_ask(question: str) -> str:
        asked.append(question)
        return "no, not now"

    def after(tool_call: panto.ToolCall, result: panto.ToolCallResult) -> panto.ToolCallResult:
        return panto.ToolCallResult((panto.TextPart(result.text.upper()),))

    hooks = panto.Hooks(
        before_tool_call=stage.face.tool(decide), after_tool_call=stage.face.tool(after), on_ask=stage.face.tool(on_ask)
    )
    script = call("echo", x=1) + call("echo", x=2) + call("echo", x=3) + call("echo", x=4) + call("echo", x=5)
    agent, _ = stage.agent([script, say("ok")], stage.tool("echo", echo), hooks=hooks)
    stage.run(agent)
    got = [(r.text, r.is_error) for r in results(agent.conversation)]
    assert got == [
        ("ECHO 1", False),
        ("not that", True),
        ("ECHO CHANGED", False),
        ("no, not now", True),
        ("ECHO 5", False),
    ]
    assert asked == ["really?"]


def test_a_tool_shows_progress_and_stores_details(stage: Stage) -> None:
    def work(arguments: dict[str, Any], context: panto.ToolContext) -> str:
        context.progress("half way")
        context.details = {"rows": 3}
        return "done"

    agent, _ = stage.agent([call("work"), say("ok")], stage.tool("work", work, takes_context=True))
    ran = stage.run(agent)
    assert [event.text for event in ran.of(panto.ToolProgress)] == ["half way"]
    assert results(agent.conversation)[0].details == {"rows": 3}


def test_a_forcing_tool_choice_holds_for_the_first_call_of_a_run_only(stage: Stage) -> None:
    for style, forced in (("openai_chat", "required"), ("anthropic_messages", {"type": "any"})):
        agent, provider = stage.agent(
            [call("echo", x=1), say("ok")], stage.tool("echo", echo), style=style, provider={"tool_choice": "required"}
        )
        stage.run(agent)
        choices = [request.body.get("tool_choice") for request in provider.requests]
        assert choices[0] == forced
        assert choices[1] != forced


# ---- one stream at a time


def test_an_agent_with_an_open_stream_refuses_everything_else_and_says_what_to_do() -> None:
    from panto.testing import ScriptedProvider

    provider = ScriptedProvider([say("a", "b")])
    config = panto.Config(provider=provider.config())
    with panto.Agent(config, panto.NullStore().create(), transport=provider) as agent:
        stream = agent.run("go")
        assert agent.state is panto.State.IDLE
        stream.next()
        assert agent.state is panto.State.STREAMING
        tool = panto.Tool("t", "", {"type": "object"}, echo)
        for use in (
            lambda: agent.run("again"),
            lambda: agent.set_config(config),
            lambda: agent.set_system_prompt("x"),
            lambda: agent.add_system_message("x"),
            lambda: agent.register_tool(tool),
        ):
            with pytest.raises(panto.StateError, match=r"read it to its end, or close\(\) it"):
                use()
        stream.close()
        stream.close()
        assert stream.state is panto.State.ABORTED
        with pytest.raises(panto.StateError, match="read once"):
            iter(stream)
        agent.set_config(config)
    with pytest.raises(panto.StateError, match="closed"):
        agent.run("again")


def test_a_stream_that_was_never_started_leaves_nothing(face: Face) -> None:
    stage = Stage(face, "memory")
    agent, provider = stage.agent([say("hello")])
    agent.run("never read")
    assert agent.conversation.messages == []
    assert texts(stage.run(agent)) == "hello"
    assert len(provider.requests) == 1


def test_ca_02_a_break_after_the_first_delta_keeps_what_was_shown_and_closes_the_connection(stage: Stage) -> None:
    agent, provider = stage.agent([say("one", " two", " three"), say("next")])
    ran = stage.run(agent, stop=lambda event: isinstance(event, panto.ContentDelta))
    kept = agent.conversation.messages[-1]
    assert (kept.text, kept.stop_reason) == ("one", panto.StopReason.ABORTED)
    assert ran.of(panto.MessageComplete) == []
    assert texts(stage.run(agent, "again")) == "next"
    sent = provider.requests[1].messages
    assert [m["role"] for m in sent] == ["user", "assistant", "user"]


def test_a_stream_that_was_dropped_warns_and_the_next_use_of_its_agent_settles_the_history() -> None:
    from panto.testing import ScriptedProvider

    provider = ScriptedProvider([say("one", " two"), say("next")])
    session = panto.MemoryStore().create()
    with panto.Agent(panto.Config(provider=provider.config()), session, transport=provider) as agent:
        stream = agent.run("go")
        while not isinstance(stream.next(), panto.ContentDelta):
            pass
        with pytest.warns(ResourceWarning, match="dropped"):
            del stream
        with agent.run("again") as stream:
            assert [e.text for e in stream if isinstance(e, panto.ContentDelta)] == ["next"]
        assert [m.text for m in agent.conversation.messages] == ["go", "one", "again", "next"]
        assert session.load() == agent.conversation


# ---- failures


def test_after_a_failed_turn_the_question_stays_and_nothing_of_the_answer_does(stage: Stage) -> None:
    none = panto.RetryConfig(max_retries=0)
    agent, _ = stage.agent([say("part", "ial", cut_after=1), say("ok")], retry=none)
    ran = stage.run(agent, "Q")
    assert isinstance(ran.error, panto.ProviderError)
    assert ran.error.retryable
    assert ran.error.partial is not None
    assert ran.error.partial.text == "part"  # type: ignore[attr-defined]
    assert [m.text for m in agent.conversation.messages] == ["Q"]
    assert texts(stage.run(agent, None)) == "ok"


def test_cf_02_a_404_prints_the_url_that_was_called_without_secrets(stage: Stage) -> None:
    agent, _ = stage.agent([fail(404, "not here")])
    ran = stage.run(agent)
    assert "/v1/chat/completions" in str(ran.error)
    assert "base_url" in str(ran.error)


# ---- stores


class FullDisk:
    """A memory store whose appends fail as told."""

    in_memory = True

    def __init__(self, fails: set[int]) -> None:
        self.inner = panto.MemoryStore()
        self.fails = fails
        self.count = 0
        self.offered: list[list[str]] = []

    def create(self) -> panto.Session:
        return panto.Session(self.inner.create().info, self)

    def list(self) -> Any:
        return self.inner.list()

    def resolve(self, id: str) -> Any:
        return self.inner.resolve(id)

    def latest(self) -> Any:
        return self.inner.latest()

    def load(self, id: str) -> Any:
        return self.inner.load(id)

    def append_messages(self, session_id: str, messages: Any) -> None:
        self.count += 1
        self.offered.append([record.message.role.value for record in messages])
        if self.count in self.fails:
            raise panto.StoreError("no space left in /sessions")
        self.inner.append_messages(session_id, messages)


def test_a_question_that_could_not_be_stored_does_not_stop_the_answer_and_goes_with_it(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    store = FullDisk({1})
    agent, _ = stage.agent([say("ok")], session=store.create())
    assert texts(stage.run(agent)) == "ok"
    assert store.offered == [["user"], ["user", "assistant"]]
    assert "could not be stored yet" in caplog.text
    assert store.load(agent.session_id) == agent.conversation


def test_an_answer_that_could_not_be_stored_is_announced_then_the_error_raised_and_no_tool_runs(stage: Stage) -> None:
    store, ran_with = FullDisk({2}), []
    agent, _ = stage.agent(
        [call("echo", x=1), say("ok")], stage.tool("echo", lambda arguments: ran_with.append(1)), session=store.create()
    )
    ran = stage.run(agent)
    assert isinstance(ran.error, panto.StoreError)
    assert len(ran.of(panto.MessageComplete)) == 1
    assert ran_with == []
    assert results(agent.conversation)[0].is_error
    assert agent.conversation.problems() == []
    assert texts(stage.run(agent, "go on")) == "ok"
    assert store.load(agent.session_id) == agent.conversation


def test_every_message_is_stored_before_its_event_is_seen(stage: Stage) -> None:
    session = panto.MemoryStore().create()
    agent, _ = stage.agent([call("echo", x=1), say("ok")], stage.tool("echo", echo), session=session)
    seen: list[bool] = []

    def look(event: panto.Event) -> bool:
        if isinstance(event, panto.MessageComplete):
            stored = session.store.load(session.info.id)
            seen.append(stored is not None and event.message in stored.messages)  # type: ignore[union-attr]
        return False

    stage.run(agent, stop=look)
    assert seen == [True, True]


def test_a_store_is_offered_the_tools_the_conversation_and_the_identity_of_each_call(stage: Stage) -> None:
    offered: list[tuple[str, int, list[str], Any]] = []

    class Recording(panto.MemoryStore):
        def create(self) -> panto.Session:
            return panto.Session(super().create().info, self)

        def append_messages(self, session_id: str, messages: Any) -> None:
            for record in messages:
                names = [decl.name for decl in record.tools_available]
                offered.append((record.message.role.value, len(record.conversation.messages), names, record.identity))
            super().append_messages(session_id, messages)

    agent, provider = stage.agent(
        [call("echo", x=1), say("ok")], stage.tool("echo", echo), session=Recording().create()
    )
    stage.face.call(agent.set_system_prompt("s"))
    stage.run(agent)
    identity = agent._engine.config.provider.wire_identity()
    assert offered == [
        ("system", 1, [], None),
        ("user", 2, ["echo"], identity),
        ("assistant", 3, ["echo"], identity),
        ("user", 4, ["echo"], identity),
        ("assistant", 5, ["echo"], identity),
    ]
    assert [request.tools for request in provider.requests] == [["echo"], ["echo"]]


def test_before_append_may_set_metadata_that_every_store_keeps(stage: Stage) -> None:
    def mark(message: panto.Message, conversation: panto.Conversation) -> None:
        message.metadata = f"{message.role.value} {len(conversation.messages)}\u2028"

    session = panto.MemoryStore().create()
    agent, _ = stage.agent([say("ok")], session=session, hooks=panto.Hooks(before_append=stage.face.tool(mark)))
    stage.run(agent)
    assert [m.metadata for m in agent.conversation.messages] == ["user 1\u2028", "assistant 2\u2028"]
    assert session.store.load(session.info.id) == agent.conversation


def test_an_async_store_works_under_both_agents(stage: Stage) -> None:
    class Later:
        def __init__(self) -> None:
            self.inner = panto.MemoryStore()

        def create(self) -> panto.Session:
            return panto.Session(self.inner.create().info, self)

        async def list(self) -> Any:
            return self.inner.list()

        async def resolve(self, id: str) -> Any:
            return self.inner.resolve(id)

        async def latest(self) -> Any:
            return self.inner.latest()

        async def load(self, id: str) -> Any:
            return self.inner.load(id)

        async def append_messages(self, session_id: str, messages: Any) -> None:
            self.inner.append_messages(session_id, messages)

    store = Later()
    session = store.create()
    agent, _ = stage.agent([call("echo", x=1), say("ok")], stage.tool("echo", echo), session=session)
    stage.run(agent)
    assert store.inner.load(session.info.id) == agent.conversation
    assert session.info.model == "scripted"


def test_resume_goes_on_as_if_never_closed(stage: Stage) -> None:
    session = panto.MemoryStore().create()
    first, _ = stage.agent([say("one")], session=session)
    stage.run(first, "first")
    resolved = session.store.resolve(session.info.id)
    second, provider = stage.agent([say("two")], session=resolved)  # type: ignore[arg-type]
    stage.run(second, "second")
    assert [m["content"] for m in provider.requests[0].messages] == ["first", "one", "second"]


def test_a_given_conversation_must_begin_with_what_the_session_holds(face: Face) -> None:
    stage = Stage(face, "memory")
    session = panto.MemoryStore().create()
    agent, _ = stage.agent([say("one")], session=session)
    stage.run(agent, "first")
    grown = panto.Conversation(messages=agent.conversation.messages)
    grown.add_user_message("a note")
    again, _ = stage.agent([say("two")], session=session, conversation=grown)
    stage.run(again, "second")
    stored = session.store.load(session.info.id)
    assert [m.text for m in stored.messages] == ["first", "one", "a note", "second", "two"]  # type: ignore[union-attr]
    with pytest.raises(panto.SessionError, match="does not begin with"):
        stage.agent([], session=session, conversation=panto.Conversation())
