"""Sync and async, any cut of the bytes, either wire: the same events in the same order.

Random scripts, in process, through the public agents. One tool runs at a time, so that the order of results is told by
the script and not by threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import panto
from panto.testing import Answer, ScriptedProvider, Step, call, drop, fail, say, think

STYLES = ("openai_chat", "anthropic_messages")

WORDS = st.text(st.sampled_from('ab æ🦊日\u2028\n"\\{}\r'), min_size=1, max_size=6)
ARGUMENTS = st.one_of(
    st.dictionaries(st.sampled_from(["x", "yé"]), st.integers() | WORDS, max_size=2),
    st.sampled_from(["", "null", "{", '{"x": ', "[]", '{"x":1}', '{"x":"\\ud83d\\ude00"}']),
)
PARTS = st.one_of(
    st.lists(WORDS, min_size=1, max_size=4).map(lambda pieces: say(*pieces)),
    st.lists(WORDS, min_size=1, max_size=3).map(lambda pieces: think(*pieces, signature="c2ln")),
    st.builds(lambda name, arguments: call(name, arguments), st.sampled_from(["echo", "boom", "nope"]), ARGUMENTS),
)
BREAKS = st.sampled_from(
    [None, None, None, None, drop("reset"), drop("end"), fail(529, "busy", type="overloaded_error"), fail(400, "no")]
)
STOPS = st.sampled_from([None, None, None, "length", "content_filter", "odd"])
USAGES = st.sampled_from([None, msgspec.UNSET, panto.Usage(input_tokens=3, output_tokens=4, cache_read_tokens=2)])


@st.composite
def answers(draw: st.DrawFn) -> Step:
    """One step: an answer, whole or broken, or a failure instead of one."""
    if draw(st.sampled_from([False] * 7 + [True])):
        return draw(st.sampled_from([fail(503, "later"), drop("refused"), fail(429, "slow", retry_after=1)]))
    parts = draw(st.lists(PARTS, max_size=4))
    step = say(stop=draw(STOPS), usage=draw(USAGES))
    for part in parts:
        step = step + part
    broken = draw(BREAKS)
    return step if broken is None else step + broken


SCRIPTS = st.lists(answers(), min_size=1, max_size=4)
CUTS = st.one_of(
    st.sampled_from(["events", "whole", 1, 7]), st.lists(st.integers(1, 90), min_size=1, max_size=5).map(tuple)
)


def cut(script: Sequence[Step], how: Any) -> list[Step]:
    """The script with the bytes of each answer split anew."""
    return [msgspec.structs.replace(step, cut=how) if isinstance(step, Answer) else step for step in script]


def told(event: panto.Event) -> Any:
    """An event without what differs from run to run: ids that panto makes."""
    if isinstance(event, panto.MessageComplete):
        return ("message", event.message.role, event.message.content, event.message.stop_raw, event.usage,
                event.stop_reason)  # fmt: skip
    return event


def ending(error: BaseException | None) -> Any:
    if isinstance(error, panto.ProviderError):
        partial = error.partial.content if isinstance(error.partial, panto.Message) else None
        return type(error), error.kind, error.status, str(error), partial
    return error


Seen = tuple[list[Any], Any, list[Any], list[bytes]]
"""Events, how it ended, what the history holds, and the bodies that were sent."""


def tools() -> list[panto.Tool]:
    def boom(arguments: dict[str, Any]) -> str:
        raise ValueError("boom")

    schema: dict[str, Any] = {"type": "object", "properties": {}}
    return [
        panto.Tool("echo", "echoes", schema, lambda arguments: f"echo {arguments}", parallel=False),
        panto.Tool("boom", "fails", schema, boom, parallel=False),
    ]


def setting(script: Sequence[Step], style: str) -> tuple[ScriptedProvider, panto.Config]:
    provider = ScriptedProvider([*script, *[say("the end")] * 8])
    config = panto.Config(
        provider=provider.config(style),
        limits=panto.Limits(max_calls=4),
        retry=panto.RetryConfig(max_retries=2, initial_delay=0.0, max_delay=0.0),
    )
    return provider, config


def seen(events: list[Any], error: BaseException | None, agent: Any, provider: ScriptedProvider) -> Seen:
    history = [(m.role, m.content, m.stop_reason) for m in agent.conversation.messages]
    return events, ending(error), history, [request.raw for request in provider.requests]


def pull(script: Sequence[Step], style: str) -> Seen:
    provider, config = setting(script, style)
    events: list[Any] = []
    error: BaseException | None = None
    with panto.Agent(config, panto.NullStore().create(), transport=provider) as agent:
        for tool in tools():
            agent.register_tool(tool)
        try:
            with agent.run("go") as stream:
                events.extend(told(event) for event in stream)
        except panto.PantoError as raised:
            error = raised
        return seen(events, error, agent, provider)


async def pull_async(script: Sequence[Step], style: str) -> Seen:
    provider, config = setting(script, style)
    events: list[Any] = []
    error: BaseException | None = None
    async with panto.AsyncAgent(config, panto.NullStore().create(), transport=provider) as agent:
        for tool in tools():
            agent.register_tool(tool)
        try:
            async with agent.run("go") as stream:
                async for event in stream:
                    events.append(told(event))
        except panto.PantoError as raised:
            error = raised
        return seen(events, error, agent, provider)


@settings(max_examples=200, deadline=None)
@given(SCRIPTS, st.sampled_from(STYLES), CUTS)
def test_sync_and_async_give_the_same_events_in_the_same_order(script: list[Step], style: str, how: Any) -> None:
    script = cut(script, how)
    assert asyncio.run(pull_async(script, style)) == pull(script, style)


@settings(max_examples=200, deadline=None)
@given(SCRIPTS, st.sampled_from(STYLES), CUTS)
def test_any_cut_of_the_bytes_gives_the_same_events(script: list[Step], style: str, how: Any) -> None:
    assert pull(cut(script, how), style) == pull(cut(script, "whole"), style)


PLAIN = st.lists(
    st.one_of(
        st.lists(WORDS.filter(str.strip), min_size=1, max_size=3).map(lambda pieces: say(*pieces)),
        st.builds(call, st.sampled_from(["echo", "boom", "nope"]), st.just({"x": 1})),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(PLAIN, min_size=1, max_size=3))
def test_both_wires_give_the_same_events_for_what_both_can_say(answers: list[list[Answer]]) -> None:
    script: list[Step] = []
    for parts in answers:
        step = parts[0]
        for part in parts[1:]:
            step = step + part
        script.append(step)
    # A call may complete later on the chat wire, which says nothing of the end of a block; the rest is in order.
    chat, messages = (pull(script, style) for style in STYLES)
    assert outline(chat) == outline(messages)


def outline(run: Seen) -> Any:
    events, end, history, bodies = run
    shown: list[Any] = []
    for event in events:
        match event:
            case ("message", role, content, _, usage, stop):
                shown.append(("message", role, apart(content), usage, stop))
            case panto.ContentDelta(index, kind, text):
                shown.append(("delta", index, kind, text))
            case panto.BlockStart(index, kind):
                shown.append(("start", index, kind))
            case panto.ToolDispatchComplete(asked, result):
                shown.append(("ran", asked.name, asked.arguments, result))
            case _:
                pass
    return shown, end, [(role, len(content), stop) for role, content, stop in history], len(bodies)


def apart(content: list[Any]) -> list[Any]:
    """Blocks without the ids that the scripted wires make, each in its own way."""
    return [(b.name, b.arguments) if isinstance(b, panto.ToolUseBlock) else b for b in content]


def test_the_events_of_a_plain_run_are_these() -> None:
    for style in STYLES:
        events, error, history, bodies = pull([say("a", "b") + call("echo", x=1), say("c")], style)
        assert error is None
        kinds = [event[0] if isinstance(event, tuple) else type(event).__name__ for event in events]
        assert kinds[:3] == ["BlockStart", "ContentDelta", "ContentDelta"]
        assert kinds[-1] == "TurnComplete"
        assert kinds.count("message") == 2
        assert len(history) == 4
        assert len(bodies) == 2
