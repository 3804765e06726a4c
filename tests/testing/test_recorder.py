"""A journal of a run replays it: the same events, the same conversation, the same error, in either colour."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.faces import FACES, Face, Ran

from panto import (
    Allow,
    Ask,
    Change,
    Config,
    ConfigError,
    ContentDelta,
    Conversation,
    Deny,
    Hooks,
    Limits,
    MediaPart,
    MemoryStore,
    ProviderError,
    RetryConfig,
    StateError,
    StoreError,
    TextPart,
    Tool,
    ToolCall,
    ToolCallResult,
    ToolDecl,
)
from panto._drive import journal as written
from panto.testing import (
    Journal,
    Replayed,
    ReplayMismatch,
    ScriptedProvider,
    call,
    drop,
    fail,
    overflow,
    raw,
    record,
    replay,
    say,
    think,
)

OBJECT = {"type": "object"}
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC"
NAMES = ("echo", "broken", "media")


def echo(arguments: dict[str, Any]) -> ToolCallResult:
    return ToolCallResult((TextPart(json.dumps(arguments)),), details={"n": 1})


def broken(arguments: object) -> str:
    raise ValueError("it broke \ud800")


def media(arguments: object) -> list[MediaPart | str]:
    return ["here", MediaPart("image/png", base64.b64decode(DOT))]


def never(*arguments: object) -> Any:
    raise AssertionError("a replay runs none of the user's code")


TOOLS = (Tool("echo", "", OBJECT, echo), Tool("broken", "", OBJECT, broken), Tool("media", "", OBJECT, media))
STUBS = tuple(Tool(tool.name, "", OBJECT, never) for tool in TOOLS)


def agent_of(
    face: Face, provider: ScriptedProvider, wire: str, tools: tuple[Tool, ...], hooks: Hooks = Hooks(), **config: Any
) -> Any:
    options = {"retry": RetryConfig(max_retries=2), "limits": Limits(max_calls=4), **config}
    agent = face.agent(Config(provider=provider.config(wire), **options), hooks=hooks, transport=provider)
    for tool in tools:
        agent.register_tool(tool)
    return agent


def replayed(
    face: Face, journal: Journal, wire: str = "openai_chat", hooks: Hooks = Hooks(), **config: Any
) -> Replayed:
    """A journal replayed by an agent that can do nothing of itself."""
    nothing = ScriptedProvider([])
    done = replay(Journal.loads(journal.dumps()), agent_of(face, nothing, wire, STUBS, hooks, **config))
    assert nothing.requests == []
    return done


def same(ran: list[Ran], agent: Any, done: Replayed) -> None:
    assert done.runs == [one.events for one in ran]
    assert [str(error) for error in done.errors] == [str(one.error) for one in ran]
    assert [type(error) for error in done.errors] == [type(one.error) for one in ran]
    assert done.conversation == agent.conversation


pieces = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), min_size=1, max_size=4)
calls = st.builds(
    lambda names: sum((call(name, n=at) for at, name in enumerate(names[1:])), start=call(names[0])),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
)
words = st.builds(lambda said, cut: say(*said, cut=cut), pieces, st.sampled_from(["events", "whole", 1, 13]))
answers = st.one_of(
    words,
    calls,
    st.builds(lambda a, b: a + b, words, calls),
    st.builds(lambda said, a: think(*said) + a, pieces, st.one_of(words, calls)),
)
breaks = st.sampled_from([drop("reset"), drop("end"), drop("silence"), fail(529), fail(400, "no")])
steps = st.one_of(
    answers,
    answers,
    st.builds(lambda a, how: a + how, answers, breaks),
    st.sampled_from(
        [fail(429, retry_after=3), fail(500), fail(401), overflow(), drop(), drop("refused"), drop("silence")]
    ),
    st.just(call("echo", '{"torn": ')),
    st.just(raw(b"data: nonsense \xff\n\n")),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("wire", ["openai_chat", "anthropic_messages"])
@pytest.mark.parametrize("colour", FACES)
@given(
    script=st.lists(steps, min_size=1, max_size=6),
    stops=st.lists(st.one_of(st.none(), st.integers(1, 12)), min_size=1, max_size=3),
)
def test_any_run_replays_to_the_same_events_and_the_same_conversation(
    colour: str, wire: str, script: list[Any], stops: list[int | None]
) -> None:
    provider = ScriptedProvider([*script, *["The end."] * 30])
    face = FACES[colour]()
    faces = [face, *(kind() for kind in FACES.values())]
    try:
        agent = agent_of(face, provider, wire, TOOLS)
        ran: list[Ran] = []
        with record(agent) as journal:
            for number, stop in enumerate(stops):
                left = [stop]

                def enough(event: object, left: list[int | None] = left) -> bool:
                    left[0] = None if left[0] is None else left[0] - 1
                    return left[0] == 0

                ran.append(face.run(agent, "Go" if number % 2 == 0 else None, stop=enough))
        for other in faces[1:]:
            same(ran, agent, replayed(other, journal, wire))
    finally:
        for one in faces:
            one.end()


@pytest.mark.parametrize("other", FACES)
def test_a_task_that_is_cancelled_at_any_moment_replays(other: str) -> None:
    """Every step of the event loop in turn is when the task is cancelled."""
    for moment in range(1, 60):
        face = FACES["async"]()
        reader = FACES[other]()
        script = [say("a", "b") + call("echo", x=1) + call("broken"), fail(500), say("c"), *["d"] * 9]
        provider = ScriptedProvider(script)
        agent = agent_of(face, provider, "openai_chat", TOOLS)
        ran = Ran()

        async def read(ran: Ran = ran, agent: Any = agent) -> None:
            async with agent.run("Go") as stream:
                async for event in stream:
                    ran.events.append(event)

        async def body(read: Callable[[], Any] = read, moment: int = moment) -> bool:
            task = asyncio.ensure_future(read())
            for _ in range(moment):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            return task.cancelled()

        with record(agent) as journal:
            cancelled = face.call(body())
        if any("begin" in line for line in journal.lines):
            same([ran], agent, replayed(reader, journal))
        face.end()
        reader.end()
        if not cancelled:
            return
    pytest.fail("the run never came to its end")


def test_hooks_are_not_run_again_and_what_they_did_is_done(face: Face) -> None:
    def before(asked: ToolCall) -> Any:
        return {"a": Allow(), "b": Deny("no"), "c": Change({"n": 9}), "d": Ask("sure?")}[str(asked.arguments["w"])]

    def bag(message: Any, conversation: Conversation) -> None:
        message.metadata = '{"seen": true}'

    hooks = Hooks(
        before_append=bag,
        before_tool_call=before,
        after_tool_call=lambda asked, result: ToolCallResult((TextPart(f"{result.text}!"),), result.is_error),
        on_ask=lambda question: question == "sure?",
    )
    script = [call("echo", w="a") + call("echo", w="b") + call("echo", w="c") + call("echo", w="d"), "Done."]
    agent = agent_of(face, ScriptedProvider(script), "openai_chat", TOOLS, hooks)
    with record(agent) as journal:
        ran = face.run(agent, "Go")
    stubs = Hooks(before_append=never, before_tool_call=never, after_tool_call=never, on_ask=never)
    done = replayed(face, journal, hooks=stubs)
    same([ran], agent, done)
    assert {message.metadata for message in done.conversation.messages} == {'{"seen": true}'}


def test_a_hook_that_raises_raises_again(face: Face) -> None:
    class Refused(Exception):
        pass

    for error, kind in ((KeyError("x"), "KeyError"), (Refused("y"), "ReplayedError"), (StoreError("z"), "StoreError")):

        def before(asked: ToolCall, error: Exception = error) -> Any:
            raise error

        agent = agent_of(face, ScriptedProvider([call("echo")]), "openai_chat", TOOLS, Hooks(before_tool_call=before))
        with record(agent) as journal, pytest.raises(type(error)):
            if (failed := face.run(agent, "Go").error) is not None:
                raise failed
        done = replayed(face, journal, hooks=Hooks(before_tool_call=never))
        assert type(done.error).__name__ == kind
        assert done.conversation == agent.conversation


def test_a_store_that_fails_fails_again_and_nothing_is_stored(face: Face) -> None:
    class Full(MemoryStore):
        def append_messages(self, session_id: str, messages: Any) -> None:
            raise StoreError("the disk is full")

    provider = ScriptedProvider(["Hi"])
    agent = face.agent(Config(provider=provider.config()), Full().create(), transport=provider)
    with record(agent) as journal:
        ran = face.run(agent, "Go")
    store = MemoryStore()
    other = face.agent(Config(provider=provider.config()), store.create())
    done = replay(journal, other)
    same([ran], agent, done)
    assert isinstance(done.error, StoreError)
    assert store.list() == []


def test_changes_of_the_system_prompt_are_replayed(face: Face) -> None:
    agent = agent_of(face, ScriptedProvider(["Hi"]), "openai_chat", TOOLS)
    with record(agent) as journal:
        face.call(agent.set_system_prompt("Be brief."))
        face.call(agent.add_system_message("And kind."))
        face.run(agent, "Go")
    assert replayed(face, journal).conversation == agent.conversation


def test_tools_of_a_source_are_replayed_without_it(face: Face) -> None:
    class Source:
        def __init__(self, dead: bool) -> None:
            self.dead = dead

        def decls(self) -> list[ToolDecl]:
            return never() if self.dead else [ToolDecl("echo", "", OBJECT)]

        def call(self, asked: Any) -> list[str]:
            return never() if self.dead else [f"{one.name} of the source" for one in asked]

    provider = ScriptedProvider([call("echo") + call("echo"), "Done."])
    agent = face.agent(Config(provider=provider.config()), transport=provider)
    agent.register_tool_source(Source(dead=False))
    with record(agent) as journal:
        ran = face.run(agent, "Go")
    other = face.agent(Config(provider=provider.config()))
    other.register_tool_source(Source(dead=True))
    same([ran], agent, replay(journal, other))


def test_a_replay_takes_no_time(face: Face) -> None:
    provider = ScriptedProvider([fail(429, retry_after=50), "Hi"])
    agent = agent_of(face, provider, "openai_chat", TOOLS)
    with record(agent) as journal:
        face.run(agent, "Go")
    other = face.agent(Config(provider=provider.config(), retry=RetryConfig(max_retries=2), limits=Limits(max_calls=4)))
    for tool in STUBS:
        other.register_tool(tool)
    before = time.monotonic()
    replay(journal, other)
    assert time.monotonic() - before < 2


def test_a_journal_is_saved_and_loaded(face: Face, tmp_path: Path) -> None:
    agent = agent_of(face, ScriptedProvider([call("broken"), "Grüße"]), "openai_chat", TOOLS)
    with record(agent) as journal:
        ran = face.run(agent, "Go")
    journal.save(tmp_path / "run.jsonl")
    same([ran], agent, replayed(face, Journal.load(tmp_path / "run.jsonl")))
    assert repr(journal).startswith("<Journal: 1 runs, ")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"panto_journal": 99}'])
def test_what_is_no_journal_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no journal"):
        Journal.loads(text)


def recorded(face: Face, *script: Any) -> Journal:
    agent = agent_of(face, ScriptedProvider(script), "openai_chat", TOOLS)
    with record(agent) as journal:
        face.run(agent, "Go")
    return journal


def test_another_config_is_a_mismatch_that_names_the_first_difference(face: Face) -> None:
    journal = recorded(face, "Hi")
    provider = ScriptedProvider([])
    agent = face.agent(Config(provider=provider.config(model="another")))
    with pytest.raises(ReplayMismatch) as caught:
        replay(journal, agent)
    assert "the `open` in line" in str(caught.value)
    assert "at open.body.model\n  expected: 'scripted'\n  but it is: 'another'" in str(caught.value)


def test_another_effect_is_a_mismatch_that_names_both(face: Face) -> None:
    journal = recorded(face, fail(500), "Hi")
    with pytest.raises(ReplayMismatch, match=r"`jitter`, but the code ends with ProviderError"):
        replayed(face, journal, retry=RetryConfig(max_retries=0))
    at = next(at for at, line in enumerate(journal.lines) if line.get("effect") == "recv")
    journal.lines[at]["effect"] = "sleep"
    with pytest.raises(
        ReplayMismatch, match=rf"line {at + 1} of the journal holds `sleep`, but the code asks for `recv`"
    ):
        replayed(face, journal)


def test_a_journal_that_is_cut_off_replays_as_far_as_it_goes(face: Face) -> None:
    journal = recorded(face, say("a", "b"))
    at = [at for at, line in enumerate(journal.lines) if line.get("effect") == "recv"][1]
    done = replayed(face, Journal(journal.lines[: at + 1]))
    assert [event.text for event in done.events if isinstance(event, ContentDelta)] == ["a"]


def test_the_recorded_agent_works_as_ever_after_the_block(face: Face) -> None:
    agent = agent_of(face, ScriptedProvider(["a", "b"]), "openai_chat", TOOLS)
    with record(agent) as journal:
        face.run(agent, "Go")
        with pytest.raises(StateError, match="recorded already"), record(agent):
            pass
    lines = len(journal.lines)
    face.run(agent, "Go")
    assert len(journal.lines) == lines


CANARY = "sk-canary-0123456789"


@pytest.mark.parametrize("cut", [1, 7, "whole", "events"])
@pytest.mark.parametrize("status", [200, 401])
def test_no_key_is_in_a_journal_even_when_the_provider_says_it(face: Face, cut: Any, status: int) -> None:
    body = json.dumps({"error": {"message": f"Incorrect key: {CANARY}."}}).encode()
    size = len(body) if isinstance(cut, str) else cut
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    if status == 200:
        step: Any = say(f"your key is {CANARY}", cut=cut)
    else:
        step = raw(*pieces, status=401, headers={"set-cookie": CANARY, "x-key": CANARY})
    provider = ScriptedProvider([step])
    agent = face.agent(Config(provider=provider.config(api_key=lambda: CANARY)), transport=provider)
    with record(agent) as journal:
        ran = face.run(agent, "Go")
    assert provider.requests[0].headers["authorization"] == f"Bearer {CANARY}"
    told = "".join(str(line["reply"]) for line in journal.lines if line.get("effect") == "recv")
    assert "***" in told
    assert CANARY not in told
    if status == 401:
        assert CANARY not in journal.dumps()
        assert isinstance(ran.error, ProviderError)
        other = face.agent(Config(provider=provider.config(api_key=lambda: CANARY)))
        assert str(replay(journal, other).error) == str(ran.error)


def test_keys_are_struck_out_wherever_an_answer_is_cut() -> None:
    def strike(text: str) -> str:
        return text.replace("secret", "***")

    whole = b"a secret and a secret."
    for at in range(len(whole) + 1):
        first, second = written.without([whole[:at], whole[at:]], strike)
        assert b"secret" not in first + second
        assert first + second == b"a *** and a ***."


def test_bytes_that_are_no_text_are_kept() -> None:
    for data in (b"", b"a", b"\xff\x00", "ü".encode()):
        assert written.read(written.written(data)) == data
