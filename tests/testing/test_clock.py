"""A clock for tests: what would take long takes no time, and happens in the same order as if it had."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.faces import Face

from panto import Config, ContentDelta, Limits, ProviderRetry, RetryConfig, Timeouts, Tool, ToolDispatchComplete
from panto._drive.clock import Clock, RealClock, current
from panto.testing import FakeClock, ScriptedProvider, call, drop, fail, say, wait


@pytest.fixture(autouse=True)
def _in_no_time() -> Iterator[None]:
    before = time.monotonic()
    yield
    assert time.monotonic() - before < 5


def test_both_clocks_are_what_a_driver_needs() -> None:
    assert isinstance(RealClock(), Clock)
    assert isinstance(FakeClock(), Clock)


def test_retries_of_an_agent_with_a_scripted_provider_take_no_time(face: Face) -> None:
    provider = ScriptedProvider([fail(429, retry_after=40), fail(500), drop("silence"), say("Hello")])
    config = Config(provider=provider.config(timeouts=Timeouts(idle=100)), retry=RetryConfig(initial_delay=8))
    start = provider.clock.time()
    ran = face.run(face.agent(config, transport=provider), "Hi")
    assert [event.info.delay for event in ran.of(ProviderRetry)] == [40, 8, 16]
    assert provider.clock.sleeps == [40, 8, 16]
    assert provider.clock.time() - start == 40 + 8 + 100 + 16
    provider.done()


def test_the_random_part_of_a_delay_is_what_the_clock_says(face: Face) -> None:
    provider = ScriptedProvider([fail(500), say("Hello")], clock=FakeClock(chance=0.5))
    config = Config(provider=provider.config(), retry=RetryConfig(initial_delay=8))
    face.run(face.agent(config, transport=provider), "Hi")
    assert provider.clock.sleeps == [8 * 0.75]


def test_a_date_in_retry_after_is_reckoned_by_the_clock(face: Face) -> None:
    provider = ScriptedProvider(
        [fail(429, retry_after="Tue, 01 Dec 2026 12:00:30 GMT"), say("Hello")], clock=FakeClock(1_796_126_400.0)
    )
    face.run(face.agent(Config(provider=provider.config()), transport=provider), "Hi")
    assert provider.clock.sleeps == [30]


def test_delays_of_the_script_move_the_clock(face: Face) -> None:
    provider = ScriptedProvider([say("a", delay=100) + wait(20) + say("b", "c")])
    start = provider.clock.time()
    ran = face.run(face.agent(Config(provider=provider.config()), transport=provider), "Hi")
    assert [event.text for event in ran.of(ContentDelta)] == ["a", "b", "c"]
    assert provider.clock.time() - start == 120
    assert provider.clock.sleeps == []


def test_as_a_context_manager_it_is_the_clock_of_the_process(face: Face) -> None:
    provider = ScriptedProvider([fail(429, retry_after=50), say("Hello")])
    real = current()
    with FakeClock() as clock, provider.serve() as server:
        assert current() is clock
        face.run(face.agent(Config(provider=server.config())), "Hi")
    assert clock.sleeps == [50]
    assert current() is real


def slow(face: Face, clock: FakeClock, seconds: float, ended: list[str]) -> Callable[..., Any]:
    if face.name == "sync":

        def tool(arguments: object) -> str:
            clock.sleep(seconds)
            ended.append("late")
            return "done"

        return tool

    async def later(arguments: object) -> str:
        try:
            await clock.sleep_async(seconds)
        except asyncio.CancelledError:
            ended.append("late")
            raise
        ended.append("done")
        return "done"

    return later


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("turn", range(20))
def test_a_tool_over_its_time_limit_times_out_in_no_time(face: Face, turn: int, blocking: bool) -> None:
    provider = ScriptedProvider([call("slow"), say("Too bad.")])
    agent = face.agent(Config(provider=provider.config(), limits=Limits(tool_timeout=600)), transport=provider)
    function: Callable[..., Any]
    if blocking:
        function = lambda arguments: provider.clock.sleep(601)  # noqa: E731
    else:
        function = slow(face, provider.clock, 601, [])
    agent.register_tool(Tool("slow", "Slow.", {"type": "object"}, function))
    ran = face.run(agent, "Go")
    (complete,) = ran.of(ToolDispatchComplete)
    assert complete.result.is_error
    assert "timed out after 600 seconds" in complete.result.parts[0].text


@pytest.mark.parametrize("turn", range(20))
def test_a_tool_within_its_time_limit_is_done_in_no_time(face: Face, turn: int) -> None:
    provider = ScriptedProvider([call("slow"), say("Good.")])
    agent = face.agent(Config(provider=provider.config(), limits=Limits(tool_timeout=600)), transport=provider)
    agent.register_tool(Tool("slow", "Slow.", {"type": "object"}, slow(face, provider.clock, 599, [])))
    ran = face.run(agent, "Go")
    assert [event.result.parts[0].text for event in ran.of(ToolDispatchComplete)] == ["done"]
    assert provider.clock.sleeps == [599]


def test_of_two_tools_the_one_over_its_own_limit_times_out_alone(face: Face) -> None:
    provider = ScriptedProvider([call("short") + call("long"), say("Well.")])
    agent = face.agent(Config(provider=provider.config()), transport=provider)
    for name, limit in (("short", 10.0), ("long", 1000.0)):
        agent.register_tool(Tool(name, name, {"type": "object"}, slow(face, provider.clock, 100, []), timeout=limit))
    ran = face.run(agent, "Go")
    told = {event.call.name: event.result.is_error for event in ran.of(ToolDispatchComplete)}
    assert told == {"short": True, "long": False}


def test_a_tool_that_waits_for_real_still_has_its_limit(face: Face) -> None:
    provider = ScriptedProvider([call("stuck"), say("Too bad.")])
    agent = face.agent(Config(provider=provider.config(), limits=Limits(tool_timeout=0.1)), transport=provider)
    never = threading.Event()
    agent.register_tool(Tool("stuck", "Stuck.", {"type": "object"}, lambda arguments: never.wait(30)))
    ran = face.run(agent, "Go")
    never.set()
    assert "timed out" in ran.of(ToolDispatchComplete)[0].result.parts[0].text


def test_advancing_lets_a_time_limit_of_others_go_off() -> None:
    clock = FakeClock()

    async def body() -> bool:
        limit = clock.limit(60)
        with pytest.raises(TimeoutError):
            async with limit:
                clock.advance(61)
                await asyncio.sleep(30)
        return limit.expired()

    assert asyncio.run(body())


def test_a_limit_of_zero_is_none() -> None:
    clock = FakeClock()
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    assert clock.timer(0, signals).at == RealClock().timer(0, signals).at == float("inf")

    async def body() -> None:
        async with clock.limit(0), RealClock().limit(0):
            await clock.sleep_async(10_000)

    asyncio.run(body())


def test_the_real_clock_waits_at_a_queue_until_its_time() -> None:
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    clock = RealClock()
    timer = clock.timer(0.01, signals)
    with pytest.raises(queue.Empty):
        clock.get(signals, timer.at)
    signals.put(1)
    assert clock.get(signals, timer.at) == 1
