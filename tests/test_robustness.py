"""What must hold whatever the caller's own code, store, tools or signals do in the middle of a run."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import threading
import time
from typing import Any

import pytest

import panto
from panto.testing import ScriptedProvider, call, drop, fail, say, think, wait

from .faces import Face
from .stage import Stage, results, texts


def echo(arguments: dict[str, Any]) -> str:
    return f"echo {arguments.get('x')}"


# ---- interrupts in panto's own code


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers on this platform")
def test_ctrl_c_at_any_moment_keeps_what_was_shown_and_leaves_a_stored_history() -> None:
    armed = False

    def interrupt(*_: object) -> None:
        nonlocal armed
        if armed:  # one that comes late is not this test's
            armed = False
            raise KeyboardInterrupt

    def read(stream: panto.Stream, shown: list[str]) -> None:
        while (event := stream.next()) is not None:
            if isinstance(event, panto.ContentDelta):
                shown.append(event.text)

    before = signal.signal(signal.SIGALRM, interrupt)
    chance, hit = random.Random(7), 0
    gc.disable()  # an interrupt in somebody's callback of the collector would reach nobody
    try:
        for round_ in range(60):
            provider = ScriptedProvider([say(*["word "] * 400), say("again")])
            store = panto.MemoryStore()
            with panto.Agent(panto.Config(provider=provider.config()), store.create(), transport=provider) as agent:
                shown: list[str] = []
                stream = agent.run("go")
                try:
                    armed = round_ > 0  # the first imports what is needed
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0003, 0.006))
                    read(stream, shown)
                    armed = False
                except KeyboardInterrupt:
                    hit += 1
                stream.close()
                said = [m.text for m in agent.conversation.messages if m.role == "assistant"]
                if shown:
                    assert len(said) == 1
                    assert said[0].startswith("".join(shown))
                assert agent.conversation.problems() == []
                assert agent.state is panto.State.IDLE
                if agent.conversation.messages:
                    assert store.load(agent.session_id) == agent.conversation
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert hit > 20


# ---- closing from elsewhere


@pytest.mark.parametrize("where", ["stream", "tool", "backoff"])
def test_close_from_another_thread_ends_the_wait_of_the_reader(where: str) -> None:
    release = threading.Event()
    script: list[Any] = {
        "stream": [say("one") + wait(30.0) + say("two")],
        "tool": [call("wait"), say("never")],
        "backoff": [fail(529, "busy")],
    }[where]
    provider = ScriptedProvider(script)
    with provider.serve() as server:
        config = panto.Config(provider=server.config(), retry=panto.RetryConfig(initial_delay=30.0))
        with panto.Agent(config, panto.MemoryStore().create()) as agent:
            schema: dict[str, Any] = {"type": "object", "properties": {}}
            agent.register_tool(panto.Tool("wait", "waits", schema, lambda arguments: release.wait(30)))
            stream = agent.run("go")
            seen: list[panto.Event | None] = []
            waits = threading.Event()

            def read() -> None:
                while True:
                    seen.append(stream.next())
                    if isinstance(seen[-1], panto.BlockStart | panto.ToolDispatchStart | panto.ProviderRetry):
                        waits.set()
                    if seen[-1] is None:
                        break

            reader = threading.Thread(target=read)
            reader.start()
            assert waits.wait(5)
            time.sleep(0.05)
            stream.close()
            reader.join(5)
            release.set()
            assert not reader.is_alive()
            assert seen[-1] is None
            assert stream.state is panto.State.ABORTED
            assert agent.conversation.problems() == []
        provider._script.clear()  # the rest was not to be asked for
        provider._used = 0


@pytest.mark.parametrize("where", ["stream", "tool", "backoff"])
def test_close_from_another_task_ends_the_wait_of_the_reader(where: str) -> None:
    script: list[Any] = {
        "stream": [say("one") + wait(30.0) + say("two")],
        "tool": [call("wait"), say("never")],
        "backoff": [fail(529, "busy")],
    }[where]

    async def slow(arguments: dict[str, Any]) -> str:
        await asyncio.sleep(30)
        return "late"

    async def main(config: panto.Config) -> None:
        async with panto.AsyncAgent(config, panto.MemoryStore().create()) as agent:
            agent.register_tool(panto.Tool("wait", "waits", {"type": "object", "properties": {}}, slow))
            stream = agent.run("go")
            waits = asyncio.Event()

            async def read() -> str:
                async for event in stream:
                    if isinstance(event, panto.BlockStart | panto.ToolDispatchStart | panto.ProviderRetry):
                        waits.set()
                return "ended"

            reader = asyncio.create_task(read())
            await asyncio.wait_for(waits.wait(), 5)
            await asyncio.sleep(0.05)
            await asyncio.wait_for(stream.close(), 5)
            assert await asyncio.wait_for(reader, 5) == "ended"
            assert stream.state is panto.State.ABORTED
            assert agent.conversation.problems() == []

    provider = ScriptedProvider(script)
    with provider.serve() as server:
        config = panto.Config(provider=server.config(), retry=panto.RetryConfig(initial_delay=30.0))
        asyncio.run(main(config))
        provider._script.clear()
        provider._used = 0


def test_a_second_reader_is_told_so_and_disturbs_nothing() -> None:
    provider = ScriptedProvider([call("echo", x=1), say("done")])
    told: list[str] = []
    config = panto.Config(provider=provider.config())

    def decide(_: panto.ToolCall) -> panto.Deny:
        with pytest.raises(panto.StateError) as refused:
            stream.next()
        told.append(str(refused.value))
        with pytest.raises(panto.StateError):
            agent.run("inside")
        return panto.Deny("no")

    hooks = panto.Hooks(before_tool_call=decide)
    with panto.Agent(config, panto.MemoryStore().create(), hooks=hooks, transport=provider) as agent:
        agent.register_tool(panto.Tool("echo", "echoes", {"type": "object", "properties": {}}, echo))
        stream = agent.run("go")
        events = list(stream)
        assert [r.text for r in results(agent.conversation)] == ["no"]
        assert isinstance(events[-1], panto.TurnComplete)
    assert "one reader" in told[0]


def test_two_tasks_cannot_read_one_stream_at_once() -> None:
    async def main() -> None:
        provider = ScriptedProvider([say("one", delay=0.01)])
        config = panto.Config(provider=provider.config())
        async with panto.AsyncAgent(config, panto.MemoryStore().create(), transport=provider) as agent:

            async def before(message: panto.Message, conversation: panto.Conversation) -> None:
                await asyncio.sleep(0.01)

            agent._engine.hooks = panto.Hooks(before_append=before)
            stream = agent.run("go")
            told = await asyncio.gather(stream.next(), stream.next(), return_exceptions=True)
            assert sum(isinstance(one, panto.StateError) for one in told) == 1
            assert [e.text async for e in stream if isinstance(e, panto.ContentDelta)] == ["one"]

    asyncio.run(main())


def test_a_stream_refused_because_another_is_open_can_be_read_afterwards() -> None:
    provider = ScriptedProvider([say("one"), say("two")])
    config = panto.Config(provider=provider.config())
    with panto.Agent(config, panto.NullStore().create(), transport=provider) as agent:
        first, second = agent.run("a"), agent.run("b")
        first.next()
        with pytest.raises(panto.StateError, match="still open"):
            second.next()
        list(first)
        assert [e.text for e in second if isinstance(e, panto.ContentDelta)] == ["two"]


# ---- dropped streams


def test_after_a_drop_the_history_is_in_order_at_once_and_stored_at_the_end(face: Face) -> None:
    provider = ScriptedProvider([think("Hm", signature="SIG") + say("one", " two") + call("echo", x=1)])
    session = panto.MemoryStore().create()
    stage = Stage(face, "memory")
    agent = face.agent(
        panto.Config(provider=provider.config("anthropic_messages", model="m1")), session, transport=provider
    )
    agent.register_tool(stage.tool("echo", echo))

    def read() -> None:
        stream = agent.run("go")
        while not isinstance(face.call(stream.next()), panto.MessageComplete):
            pass

    with pytest.warns(ResourceWarning):
        read()
    assert agent.conversation.problems() == []
    other = panto.AnthropicMessagesConfig(model="m2", api_key="k", base_url="http://other")
    agent.set_config(panto.Config(provider=other))
    answer = agent.conversation.messages[1]
    assert answer.identity.model == "m1"
    assert results(agent.conversation)[0].is_error
    face.call(agent.close())
    assert session.store.load(session.info.id) == agent.conversation


# ---- stores and hooks


class Broken(panto.MemoryStore):
    """Raises what is no `StoreError`."""

    def __init__(self, fails: set[int]) -> None:
        super().__init__()
        self.fails, self.count = fails, 0

    def create(self) -> panto.Session:
        return panto.Session(super().create().info, self)

    def append_messages(self, session_id: str, messages: Any) -> None:
        self.count += 1
        if self.count in self.fails:
            raise OSError(28, "No space left on device")
        super().append_messages(session_id, messages)


def test_whatever_a_store_raises_is_a_store_error_and_the_answer_is_delivered(stage: Stage) -> None:
    agent, _ = stage.agent([say("one"), say("two")], session=Broken({1, 2}).create())
    ran = stage.run(agent)
    assert texts(ran) == "one"
    assert len(ran.of(panto.MessageComplete)) == 1
    assert isinstance(ran.error, panto.StoreError)
    assert "Broken" in str(ran.error)
    assert "No space left" in str(ran.error)
    assert texts(stage.run(agent, "on")) == "two"


def test_a_hook_that_fails_on_the_answer_does_not_keep_it_from_the_reader(face: Face) -> None:
    stage = Stage(face, "memory")

    def hook(message: panto.Message, conversation: panto.Conversation) -> None:
        if message.role == "assistant":
            message.metadata = {"no": "text"}  # type: ignore[assignment]

    agent, _ = stage.agent([say("one")], hooks=panto.Hooks(before_append=face.tool(hook)))
    ran = stage.run(agent)
    assert len(ran.of(panto.MessageComplete)) == 1
    assert isinstance(ran.error, panto.ConfigError)
    assert "metadata" in str(ran.error)


def test_a_source_that_is_down_takes_no_other_tool_with_it(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    class Down:
        def decls(self) -> list[panto.ToolDecl]:
            raise ConnectionError("src down")

        def call(self, calls: list[panto.ToolCall]) -> list[panto.ToolCallResult]:
            return []

    agent, provider = stage.agent([call("echo", x=1), say("ok")], stage.tool("echo", echo))
    agent.register_tool_source(Down())
    assert texts(stage.run(agent)) == "ok"
    assert provider.requests[0].tools == ["echo"]
    assert "Down" in caplog.text
    assert "src down" in caplog.text


# ---- tools


@pytest.mark.parametrize(
    "returned",
    [
        panto.ToolCallResult(["hello"]),  # type: ignore[list-item]
        panto.ToolCallResult("hello"),  # type: ignore[arg-type]
        panto.ResultParts(["hello"]),  # type: ignore[list-item]
        panto.MediaPart("image/png", "hello"),  # type: ignore[arg-type]
        panto.TextPart(None),  # type: ignore[arg-type]
        panto.ToolCallResult((panto.TextPart(None),)),  # type: ignore[arg-type]
        panto.ToolCallResult(7),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_a_result_with_parts_that_are_none_is_a_result_all_the_same(face: Face, returned: Any) -> None:
    stage = Stage(face, "memory")
    agent, _ = stage.agent([call("odd"), say("ok")], stage.tool("odd", lambda arguments: returned))
    assert texts(stage.run(agent)) == "ok"
    [result] = results(agent.conversation)
    assert result.text == "hello" or result.is_error
    assert agent.conversation.problems() == []


def test_deeply_nested_arguments_are_refused_and_the_run_goes_on(stage: Stage) -> None:
    for style in ("openai_chat", "anthropic_messages"):
        deep = '{"a":' + "[" * 5000 + "]" * 5000 + "}"
        agent, _ = stage.agent([call("echo", deep), say("ok")], stage.tool("echo", echo), style=style)
        assert texts(stage.run(agent)) == "ok"
        assert results(agent.conversation)[0].is_error


def test_a_tool_cannot_change_what_the_model_said(stage: Stage) -> None:
    def spoil(arguments: dict[str, Any]) -> str:
        arguments["l"].append("more")
        return "ok"

    agent, _ = stage.agent([call("spoil", l=[1]), say("ok")], stage.tool("spoil", spoil))
    ran = stage.run(agent)
    assert ran.of(panto.ToolDispatchComplete)[0].call.arguments == {"l": [1]}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_an_async_hook_works_in_a_forked_child_of_a_used_agent() -> None:
    async def hook(message: panto.Message, conversation: panto.Conversation) -> None:
        await asyncio.sleep(0)

    provider = ScriptedProvider([say("one"), say("two")])
    hooks = panto.Hooks(before_append=hook)
    config = panto.Config(provider=provider.config())
    with panto.Agent(config, panto.MemoryStore().create(), hooks=hooks, transport=provider) as agent:
        list(agent.run("go"))
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            list(agent.run("in the child"))
            os._exit(0 if agent.conversation.messages[-1].text == "two" else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        provider._used = 2


def test_a_key_callable_is_asked_before_each_request(stage: Stage) -> None:
    keys = iter(["sk-1", "sk-2", "sk-3"])
    agent, provider = stage.agent(
        [fail(529, "busy"), fail(529, "busy"), say("ok")], provider={"api_key": lambda: next(keys)}
    )
    assert texts(stage.run(agent)) == "ok"
    assert next(keys, None) is None
    assert len(provider.requests) == 3


def test_an_async_agent_goes_on_in_another_event_loop_and_leaves_no_connection() -> None:
    provider = ScriptedProvider([say("one"), say("two")])
    with provider.serve() as server:
        agent = panto.AsyncAgent(panto.Config(provider=server.config()), panto.MemoryStore().create())

        async def turn(last: bool) -> str:
            text = ""
            async with agent.run("go") as stream:
                async for event in stream:
                    text += event.text if isinstance(event, panto.ContentDelta) else ""
            if last:
                await agent.close()
            return text

        assert asyncio.run(turn(False)) == "one"
        assert asyncio.run(turn(True)) == "two"


# ---- ordinary mistakes


def test_the_content_of_a_message_may_be_given_as_text() -> None:
    message = panto.Message("user", "hello")  # type: ignore[arg-type]
    assert message.content == [panto.TextualBlock("hello")]
    assert message.role is panto.MessageRole.USER


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda: panto.Conversation().add_user_message(3), "a str, not int"),  # type: ignore[arg-type]
        (lambda: panto.Conversation().add_user_message("x", ["pic.png"]), "MediaPart"),  # type: ignore[list-item]
        (lambda: panto.Conversation().add_user_message("x", [panto.MediaPart("image/png", "abc")]), "bytes"),  # type: ignore[arg-type]
        (lambda: panto.Config(provider="gpt"), "provider"),  # type: ignore[arg-type]
        (lambda: panto.Config(panto.OpenAIChatConfig(model="m"), limits=None), "limits"),  # type: ignore[arg-type]
        (lambda: panto.Limits(tool_timeout="x"), "tool_timeout"),  # type: ignore[arg-type]
        (lambda: panto.Limits(max_cost=1), "max_cost"),
        (lambda: panto.RetryConfig(max_retries=-1), "max_retries"),
        (lambda: panto.OpenAIChatConfig(model="m", temperature="hot"), "temperature"),  # type: ignore[arg-type]
        (lambda: panto.OpenAIChatConfig(model="m", timeouts=5), "timeouts"),  # type: ignore[arg-type]
        (lambda: panto.OpenAIChatConfig(model="m", stop=[None]), "stop"),  # type: ignore[list-item]
        (lambda: panto.OpenAIChatConfig(model="m", overflow_patterns=["["]), "overflow_patterns"),
        (lambda: panto.OpenAIChatConfig(model="m", headers={"Content-Length": "3"}), "Content-Length"),
        (lambda: panto.OpenAIChatConfig(model="m", reasoning="loud"), "loud"),  # type: ignore[arg-type]
        (lambda: panto.OpenAIChatConfig(model=" "), "model"),
        (lambda: panto.OpenAIChatConfig(model="m", base_url="localhost:80"), "http"),
        (lambda: panto.Agent(panto.Config(panto.OpenAIChatConfig(model="m")), None), "store.create"),  # type: ignore[arg-type]
        (lambda: panto.Agent(None, panto.NullStore().create()), "Config"),  # type: ignore[arg-type]
    ],
)
def test_an_ordinary_mistake_is_a_config_error_that_names_it(mistake: Any, told: str) -> None:
    with pytest.raises(panto.ConfigError, match=told):
        mistake()


def test_what_is_no_message_or_no_block_is_named_before_anything_is_sent(face: Face) -> None:
    stage = Stage(face, "memory")
    for wrong in ({"role": "user"}, panto.Message(panto.MessageRole.USER, ["hello"])):  # type: ignore[list-item]
        agent, provider = stage.agent([])
        agent.conversation.messages.append(wrong)
        ran = stage.run(agent)
        assert isinstance(ran.error, panto.ConfigError)
        assert "message 0" in str(ran.error)
        assert provider.requests == []
        with pytest.raises(panto.ConfigError, match="message 0"):
            agent.conversation.problems()


def test_a_tool_choice_that_names_no_tool_is_refused(face: Face) -> None:
    stage = Stage(face, "memory")
    agent, provider = stage.agent([], stage.tool("echo", echo), provider={"tool_choice": "nope"})
    assert isinstance(stage.run(agent).error, panto.ConfigError)
    assert provider.requests == []


def test_the_last_error_tells_how_often_it_was_tried(stage: Stage) -> None:
    agent, _ = stage.agent([fail(529, "busy")] * 5)
    assert "tried 5 times" in str(stage.run(agent).error)


# ---- closing, once more


def test_close_from_another_thread_at_any_moment_leaves_the_agent_free(face: Face) -> None:
    if face.name == "async":
        return
    for round_ in range(60):
        provider = ScriptedProvider([say(*["w "] * 300), say("next")])
        config = panto.Config(provider=provider.config())
        with panto.Agent(config, panto.MemoryStore().create(), transport=provider) as agent:
            stream = agent.run("go")
            reader = threading.Thread(target=lambda stream=stream: list(stream))  # type: ignore[misc]
            reader.start()
            time.sleep(0.00005 * round_)
            stream.close()
            reader.join(5)
            assert not reader.is_alive()
            assert stream.state in (panto.State.IDLE, panto.State.ABORTED, panto.State.DONE)
            if len(provider.requests) == 0:
                provider._script.pop(0)
            assert [e.text for e in agent.run("on") if isinstance(e, panto.ContentDelta)] == ["next"]
            assert agent.conversation.problems() == []


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_hook_may_close_the_stream_it_is_called_from(kind: str) -> None:
    provider = ScriptedProvider([call("echo", x=1)])
    config = panto.Config(provider=provider.config())

    def plain(_: panto.ToolCall) -> None:
        stream.close()

    async def later(_: panto.ToolCall) -> None:
        stream.close()

    hooks = panto.Hooks(before_tool_call=plain if kind == "sync" else later)
    with panto.Agent(config, panto.MemoryStore().create(), hooks=hooks, transport=provider) as agent:
        agent.register_tool(panto.Tool("echo", "echoes", {"type": "object", "properties": {}}, echo))
        stream = agent.run("go")
        list(stream)
        assert stream.state is panto.State.ABORTED
        assert agent.conversation.problems() == []


def test_a_store_error_that_was_borne_is_not_raised_again_by_closing(face: Face) -> None:
    stage = Stage(face, "memory")
    agent, _ = stage.agent([say("one", " two", " three")], session=Broken({1}).create())
    ran = stage.run(agent, stop=lambda event: isinstance(event, panto.ContentDelta))
    assert ran.error is None
    assert [m.text for m in agent.conversation.messages] == ["go", "one"]


def test_a_cancellation_while_a_stream_is_being_closed_goes_on_afterwards() -> None:
    class Slow(panto.MemoryStore):
        def create(self) -> panto.Session:
            return panto.Session(super().create().info, self)

        async def append_messages(self, session_id: str, messages: Any) -> None:  # type: ignore[override]
            await asyncio.sleep(0.05)
            super().append_messages(session_id, messages)

    async def main() -> bool:
        provider = ScriptedProvider([say("one", " two")])
        config = panto.Config(provider=provider.config())
        agent = panto.AsyncAgent(config, Slow().create(), transport=provider)
        closing = asyncio.Event()

        async def work() -> None:
            async with agent.run("go") as stream:
                async for event in stream:
                    if isinstance(event, panto.ContentDelta):
                        asyncio.get_running_loop().call_later(0.02, closing.set)
                        break
            await asyncio.sleep(5)

        task = asyncio.create_task(work())
        await closing.wait()
        task.cancel()
        await asyncio.wait({task}, timeout=2)
        assert [m.text for m in agent.conversation.messages] == ["go", "one"]
        await agent.close()
        return task.cancelled()

    assert asyncio.run(main())


def test_what_a_failed_run_left_is_stored_when_the_agent_is_closed(face: Face) -> None:
    def refuse(_: panto.ToolCall) -> None:
        raise ValueError("the hook is broken")

    provider = ScriptedProvider([call("echo", x=1)])
    session = panto.MemoryStore().create()
    agent = face.agent(
        panto.Config(provider=provider.config()),
        session,
        transport=provider,
        hooks=panto.Hooks(before_tool_call=refuse),
    )
    agent.register_tool(panto.Tool("echo", "echoes", {"type": "object", "properties": {}}, echo))
    with pytest.raises(ValueError, match="broken"):
        face.run(agent, "go")
    face.call(agent.close())
    assert session.store.load(session.info.id) == agent.conversation
    assert agent.conversation.problems() == []


def test_a_stream_dropped_after_a_retry_is_gone_at_once(face: Face) -> None:
    stage = Stage(face, "memory")
    agent, _ = stage.agent([say("a", cut_after=1), drop("reset"), say("one", "two"), say("next")])
    gc.collect()
    gc.disable()
    try:

        def begin() -> None:
            stream = agent.run("go")
            while not (isinstance(event := face.call(stream.next()), panto.ContentDelta) and event.text == "one"):
                pass

        with pytest.warns(ResourceWarning):
            begin()
        assert texts(stage.run(agent, "on")) == "next"
    finally:
        gc.enable()


def test_a_tool_that_moves_to_another_source_is_answered_by_that() -> None:
    class Source:
        def __init__(self, name: str) -> None:
            self.name, self.on = name, True

        def decls(self) -> list[panto.ToolDecl]:
            return [panto.ToolDecl("x", "x", {"type": "object"})] if self.on else []

        def call(self, calls: list[panto.ToolCall]) -> list[panto.ToolCallResult]:
            return [panto.ToolCallResult((panto.TextPart(self.name),)) for _ in calls]

    provider = ScriptedProvider([call("x"), say("ok"), call("x"), say("ok")])
    first, second = Source("first"), Source("second")
    second.on = False
    config = panto.Config(provider=provider.config())
    with panto.Agent(config, panto.MemoryStore().create(), transport=provider) as agent:
        agent.register_tool_source(first)
        agent.register_tool_source(second)
        list(agent.run("go"))
        first.on, second.on = False, True
        list(agent.run("go"))
        assert [r.text for r in results(agent.conversation)] == ["first", "second"]


def test_a_drop_followed_by_another_run_replays(face: Face) -> None:
    from panto.testing import record, replay

    provider = ScriptedProvider([say("one", "two"), say("next")])
    config = panto.Config(provider=provider.config())
    agent = face.agent(config, panto.MemoryStore().create(), transport=provider)
    with record(agent) as journal:

        def begin() -> None:
            stream = agent.run("go")
            while not isinstance(face.call(stream.next()), panto.ContentDelta):
                pass

        with pytest.warns(ResourceWarning):
            begin()
        face.run(agent, "on")
    again = panto.Agent(config, panto.MemoryStore().create())
    assert replay(journal, again).conversation == agent.conversation
