"""Closing is a drive, not a drop: however a run is left, the connection ends, the tools stop, the history is whole.

The field cases CA-02 and CA-03, over loopback, in each colour where it applies.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.drive.http_servers import Peer, Server, deaf
from tests.faces import AsyncFace, Face, Ran
from tests.stage import Stage, results, texts

import panto
from panto.testing import call, say

SOON = 5.0
"""Seconds within which the other side must have noticed; on an idle machine it takes a few milliseconds."""

INTERRUPTED = "interrupted by the user"


def delta(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


def tool_calls(*names: str) -> bytes:
    calls = [
        {"index": at, "id": f"c{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for at, name in enumerate(names)
    ]
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"


END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Talker:
    """A server that says `parts` and then nothing more, and notes when its client hangs up; later it answers wholly."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = parts
        self.waiting = threading.Event()
        self.gone = threading.Event()
        self.server = Server(self._script)
        self.bodies: list[dict[str, Any]] = []

    def _script(self, peer: Peer) -> None:
        while (request := peer.request()) is not None:
            self.bodies.append(json.loads(request.body))
            if len(self.server.requests) == 1 and self.parts != (b"",):
                peer.head("content-type: text/event-stream", "transfer-encoding: chunked")
                peer.chunks(*self.parts, end=False)
            if len(self.server.requests) == 1:
                self.waiting.set()
                if peer.gone(20):
                    self.gone.set()
                return
            peer.head("content-type: text/event-stream", "transfer-encoding: chunked")
            peer.chunks(delta("next"), END)

    def config(self, **more: Any) -> panto.Config:
        timeouts = panto.Timeouts(connect=20, idle=20)
        provider = panto.OpenAIChatConfig(model="m", base_url=f"{self.server.url}/v1", timeouts=timeouts)
        return panto.Config(provider=provider, **more)

    def __enter__(self) -> Talker:
        self.server.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.__exit__(*exc)


class Answers(Talker):
    """One that gives its first answer wholly, calls of tools, and the others too."""

    def _script(self, peer: Peer) -> None:
        while (request := peer.request()) is not None:
            self.bodies.append(json.loads(request.body))
            peer.head("content-type: text/event-stream", "transfer-encoding: chunked")
            peer.chunks(*(self.parts if len(self.server.requests) == 1 else (delta("next"), END)))


def shown(event: panto.Event) -> bool:
    return isinstance(event, panto.ContentDelta)


def whole(agent: Any, session: panto.Session) -> None:
    """The history is valid, and the store has all of it."""
    assert agent.conversation.problems() == []
    assert session.load() == agent.conversation


# ---------------------------------------------------------------- CA-02: the consumer stops reading


def leaves_by_break(face: Face, agent: Any) -> None:
    face.run(agent, "go", stop=shown)


def leaves_by_exception(face: Face, agent: Any) -> None:
    class Mine(Exception):
        pass

    def stop(event: panto.Event) -> bool:
        if shown(event):
            raise Mine
        return False

    with pytest.raises(Mine):
        face.run(agent, "go", stop=stop)


def begun(face: Face, agent: Any, kind: type[panto.Event] = panto.ContentDelta) -> Any:
    """A stream that was read to the first event of a kind."""
    stream = agent.run("go")
    while not isinstance(face.call(stream.next()), kind):
        pass
    return stream


def leaves_by_closing_twice(face: Face, agent: Any) -> None:
    stream = begun(face, agent)
    face.call(stream.close())
    face.call(stream.close())
    assert face.call(stream.next()) is None
    assert stream.state is panto.State.ABORTED


def leaves_by_dropping(face: Face, agent: Any, kind: type[panto.Event] = panto.ContentDelta) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        begun(face, agent, kind)
        gc.collect()
    assert [one.category for one in warned] == [ResourceWarning]
    face.call(asyncio.sleep(0.01) if face.name == "async" else None)  # a loop at rest closes nothing


def leaves_by_closing_the_agent(face: Face, agent: Any) -> None:
    stream = begun(face, agent)
    face.call(agent.close())
    assert face.call(stream.next()) is None


WAYS = [leaves_by_break, leaves_by_exception, leaves_by_closing_twice, leaves_by_dropping, leaves_by_closing_the_agent]


@pytest.mark.parametrize("leaves", WAYS, ids=lambda leaves: leaves.__name__)
def test_ca_02_leaving_ends_the_connection_at_once_and_the_history_is_whole(
    face: Face, leaves: Callable[[Face, Any], None]
) -> None:
    with Talker(delta("one")) as talker:
        session = panto.MemoryStore().create()
        agent = face.agent(talker.config(), session)
        leaves(face, agent)
        assert talker.gone.wait(SOON), "the server still has the connection"
        if leaves is leaves_by_closing_the_agent:
            whole(agent, session)
            agent = face.agent(talker.config(), session)
        assert texts(face.run(agent, "again")) == "next"
        kept = agent.conversation.messages
        assert [message.text for message in kept] == ["go", "one", "again", "next"]
        assert kept[1].stop_reason is panto.StopReason.ABORTED
        assert [message["content"] for message in talker.bodies[1]["messages"]] == ["go", "one", "again"]
        whole(agent, session)


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("leaves", ["break", "drop"])
def test_ca_02_tools_that_still_run_are_told_to_stop(face: Face, kind: str, leaves: str) -> None:
    stopped = threading.Event()

    def plain(arguments: dict[str, Any], context: panto.ToolContext) -> str:
        context.progress("begun")
        end = time.monotonic() + 20
        while not context.cancelled and time.monotonic() < end:
            time.sleep(0.002)
        stopped.set()
        return "late"

    async def later(arguments: dict[str, Any], context: panto.ToolContext) -> str:
        context.progress("begun")
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            stopped.set()
            raise
        return "late"

    wait = panto.Tool("wait", "waits", {"type": "object"}, plain if kind == "plain" else later, takes_context=True)
    session = panto.MemoryStore().create()
    with Answers(tool_calls("wait")) as server:
        agent = face.agent(server.config(), session)
        agent.register_tool(wait)
        if leaves == "break":
            face.run(agent, "go", stop=lambda event: isinstance(event, panto.ToolProgress))
        else:
            leaves_by_dropping(face, agent, panto.ToolProgress)
        assert stopped.wait(SOON)
        assert len(server.bodies) == 1
        assert texts(face.run(agent, "again")) == "next"
        (result,) = results(agent.conversation)
        assert (result.is_error, INTERRUPTED in result.text) == (True, True)
        whole(agent, session)


def test_ca_02_a_stream_that_is_read_to_its_end_can_be_closed_as_often_as_one_likes(stage: Stage) -> None:
    agent, _ = stage.agent([say("one"), say("two")])
    stream = agent.run("go")
    while stage.face.call(stream.next()) is not None:
        pass
    stage.face.call(stream.close())
    stage.face.call(stream.close())
    assert stream.state is panto.State.DONE
    assert agent.conversation.messages[-1].stop_reason is panto.StopReason.STOP
    assert texts(stage.run(agent)) == "two"


def test_ca_02_a_stream_closed_before_its_first_event_leaves_nothing(stage: Stage) -> None:
    agent, provider = stage.agent([say("one")])
    stream = agent.run("go")
    stage.face.call(stream.close())
    assert stage.face.call(stream.next()) is None
    assert (agent.conversation.messages, provider.requests) == ([], [])
    assert texts(stage.run(agent)) == "one"


# ---------------------------------------------------------------- CA-03: cancellation of a task


@pytest.fixture
def loop_face() -> Iterator[AsyncFace]:
    """The async colour: only a task can be cancelled."""
    made = AsyncFace()
    yield made
    made.end()


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens elsewhere."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def reading(agent: panto.AsyncAgent, ran: Ran) -> None:
    async with agent.run("go") as stream:
        async for event in stream:
            ran.events.append(event)


def cancelled_when(
    face: AsyncFace, agent: Any, ready: Callable[[Ran], object], after: Callable[[Any], Coroutine[Any, Any, None]]
) -> Ran:
    """Start a run, cancel its task when `ready`, then `after`; the task must end by `CancelledError`."""

    async def body() -> Ran:
        ran = Ran()
        task = asyncio.create_task(reading(agent, ran))
        await until(lambda: ready(ran) or task.done())
        assert not task.done(), task
        started = time.monotonic()
        task.cancel()
        await after(task)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert time.monotonic() - started < SOON
        return ran

    return face.call(body())  # type: ignore[no-any-return]


async def nothing(task: Any) -> None:
    """Nothing more happens."""


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_ca_03_cancelling_the_reader_while_a_tool_sleeps_records_interrupted_and_goes_on(
    loop_face: AsyncFace, kind: str
) -> None:
    begun, release = threading.Event(), threading.Event()

    async def sleeps(arguments: dict[str, Any]) -> str:
        begun.set()
        await asyncio.sleep(20)
        return "late"

    def blocks(arguments: dict[str, Any]) -> str:
        begun.set()
        release.wait(20)
        return "late"

    def quick(arguments: dict[str, Any]) -> str:
        return "done"

    session = panto.MemoryStore().create()
    with Answers(tool_calls("quick", "slow")) as server:
        agent = loop_face.agent(server.config(), session)
        agent.register_tool(panto.Tool("slow", "", {"type": "object"}, sleeps if kind == "async" else blocks))
        agent.register_tool(panto.Tool("quick", "", {"type": "object"}, quick))

        def ready(ran: Ran) -> bool:
            return begun.is_set() and bool(ran.of(panto.ToolDispatchComplete))

        cancelled_when(loop_face, agent, ready, nothing)
        release.set()
        done, cut = results(agent.conversation)
        assert (done.text, done.is_error) == ("done", False)
        assert (cut.is_error, INTERRUPTED in cut.text) == (True, True)
        whole(agent, session)
        assert len(server.bodies) == 1
        assert texts(loop_face.run(agent, "again")) == "next"


def test_a_cancellation_during_the_connect_leaves_the_question(loop_face: AsyncFace) -> None:
    session = panto.MemoryStore().create()
    with deaf() as port:
        timeouts = panto.Timeouts(connect=20, idle=20)
        provider = panto.OpenAIChatConfig(model="m", base_url=f"http://127.0.0.1:{port}/v1", timeouts=timeouts)
        agent = loop_face.agent(panto.Config(provider=provider), session)
        cancelled_when(loop_face, agent, lambda ran: agent.state is panto.State.OPENING, nothing)
    assert [message.text for message in agent.conversation.messages] == ["go"]
    whole(agent, session)


@pytest.mark.parametrize("parts", [(b"",), (b": alive\n\n",), (delta("one"),)], ids=["no head", "silent", "text"])
def test_a_cancellation_during_a_silent_stream_ends_the_connection(
    loop_face: AsyncFace, parts: tuple[bytes, ...]
) -> None:
    session = panto.MemoryStore().create()
    with Talker(*parts) as talker:
        agent = loop_face.agent(talker.config(), session)
        text = b"one" in parts[0]
        ran = cancelled_when(
            loop_face, agent, lambda ran: talker.waiting.is_set() and (not text or ran.of(panto.ContentDelta)), nothing
        )
        assert texts(ran) == ("one" if text else "")
        assert talker.gone.wait(SOON)
        assert [message.text for message in agent.conversation.messages] == (["go", "one"] if text else ["go"])
        whole(agent, session)
        assert texts(loop_face.run(agent, None if not text else "again")) == "next"


def test_a_cancellation_during_a_backoff_ends_the_wait(loop_face: AsyncFace) -> None:
    session = panto.MemoryStore().create()
    with Talker() as talker:
        talker.server.script = lambda peer: [peer.answer(b"{}", status="503 busy") for _ in iter(peer.request, None)]  # type: ignore[assignment]
        retry = panto.RetryConfig(initial_delay=30, max_delay=30)
        agent = loop_face.agent(talker.config(retry=retry), session)
        cancelled_when(loop_face, agent, lambda ran: agent.state is panto.State.BACKOFF, nothing)
        assert len(talker.server.requests) == 1
    assert [message.text for message in agent.conversation.messages] == ["go"]
    whole(agent, session)


class SlowStore:
    """An async store that takes its time over the message "one", and tells what it was given."""

    def __init__(self) -> None:
        self.inner = panto.MemoryStore()
        self.waiting = False
        self.gate = asyncio.Event()
        self.finished: list[list[str]] = []

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
        texts = [record.message.text for record in messages]
        if "one" in texts:
            self.waiting = True
            await self.gate.wait()
        self.inner.append_messages(session_id, messages)
        self.finished.append(texts)


@pytest.mark.parametrize("times", [1, 3])
def test_a_cancellation_during_a_slow_append_lets_it_finish_and_nothing_is_twice(
    loop_face: AsyncFace, times: int
) -> None:
    store = SlowStore()
    session = store.create()
    stage = Stage(loop_face, "memory")
    agent, _ = stage.agent([say("one"), say("two")], session=session)

    async def opened(task: asyncio.Task[None]) -> None:
        for _ in range(times):
            await asyncio.sleep(0.005)
            assert not task.done(), "it did not wait for the append that was under way"
            task.cancel()
        store.gate.set()

    cancelled_when(loop_face, agent, lambda ran: store.waiting, opened)
    assert store.finished == [["go"], ["one"]]
    assert texts(stage.run(agent, "again")) == "two"
    assert store.finished == [["go"], ["one"], ["again"], ["two"]]
    assert store.inner.load(session.info.id) == agent.conversation


def test_a_second_cancellation_while_closing_does_not_cut_the_closing_short(loop_face: AsyncFace) -> None:
    store = SlowStore()
    session = store.create()
    with Talker(delta("one")) as talker:
        agent = loop_face.agent(talker.config(), session)

        async def again(task: asyncio.Task[None]) -> None:
            await until(lambda: store.waiting)  # the closing stores what was shown
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0.005)
            assert not task.done()
            store.gate.set()

        cancelled_when(loop_face, agent, lambda ran: ran.of(panto.ContentDelta), again)
        assert talker.gone.wait(SOON)
        assert store.finished == [["go"], ["one"]]
        assert store.inner.load(session.info.id) == agent.conversation


def test_a_cancellation_while_the_reader_does_something_else_closes_the_stream_too(loop_face: AsyncFace) -> None:
    session = panto.MemoryStore().create()

    async def body(agent: panto.AsyncAgent) -> None:
        async def busy() -> None:
            async with agent.run("go") as stream:
                async for event in stream:
                    if shown(event):
                        await asyncio.sleep(20)

        task = asyncio.create_task(busy())
        await until(talker.waiting.is_set)
        await until(lambda: agent.state is panto.State.STREAMING)
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Talker(delta("one")) as talker:
        agent = loop_face.agent(talker.config(), session)
        loop_face.call(body(agent))
        assert talker.gone.wait(SOON)
        assert [message.text for message in agent.conversation.messages] == ["go", "one"]
        whole(agent, session)


def test_a_time_limit_around_a_run_is_a_timeout_error_and_what_follows_is_not_cancelled(loop_face: AsyncFace) -> None:
    session = panto.MemoryStore().create()

    async def body(agent: panto.AsyncAgent) -> str:
        ran = Ran()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reading(agent, ran)
        task = asyncio.current_task()
        assert (texts(ran), task and task.cancelling()) == ("one", 0)
        await asyncio.sleep(0)
        async with agent.run("again") as stream:
            return "".join([event.text async for event in stream if isinstance(event, panto.ContentDelta)])

    with Talker(delta("one")) as talker:
        agent = loop_face.agent(talker.config(), session)
        assert loop_face.call(body(agent)) == "next"
        assert talker.gone.wait(SOON)
    assert [message.text for message in agent.conversation.messages] == ["go", "one", "again", "next"]
    whole(agent, session)


def test_when_one_task_of_a_group_fails_the_run_of_the_other_is_closed(loop_face: AsyncFace) -> None:
    session = panto.MemoryStore().create()

    async def body(agent: panto.AsyncAgent) -> None:
        async def fails() -> None:
            await until(talker.waiting.is_set)
            await asyncio.sleep(0.02)
            raise LookupError("elsewhere")

        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(reading(agent, Ran()))
                group.create_task(fails())
        assert [type(one) for one in caught.value.exceptions] == [LookupError]

    with Talker(delta("one")) as talker:
        agent = loop_face.agent(talker.config(), session)
        loop_face.call(body(agent))
        assert talker.gone.wait(SOON)
        whole(agent, session)


# ---------------------------------------------------------------- CA-03: what tools raise


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_ca_03_a_tool_that_raises_cancelled_error_by_itself_failed_and_the_run_goes_on(stage: Stage, kind: str) -> None:
    async def later(arguments: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        raise asyncio.CancelledError("not asked for")

    def plain(arguments: dict[str, Any]) -> str:
        raise asyncio.CancelledError("not asked for")

    tool = panto.Tool("odd", "", {"type": "object"}, later if kind == "async" else plain)
    agent, provider = stage.agent([call("odd") + call("fine"), say("ok")], tool, stage.tool("fine", lambda _: "fine"))
    ran = stage.run(agent)
    assert (ran.error, texts(ran)) == (None, "ok")
    odd, fine = results(agent.conversation)
    assert (odd.is_error, fine.text, fine.is_error) == (True, "fine", False)
    assert "CancelledError: not asked for" in odd.text or "CancelledError" in odd.text
    assert len(provider.requests) == 2


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_ca_03_what_ends_the_process_ends_the_turn_and_is_not_swallowed(
    stage: Stage, kind: str, raised: type[BaseException]
) -> None:
    async def later(arguments: dict[str, Any]) -> str:
        raise raised("7")

    def plain(arguments: dict[str, Any]) -> str:
        raise raised("7")

    session = panto.MemoryStore().create()
    tool = panto.Tool("ends", "", {"type": "object"}, later if kind == "async" else plain)
    agent, provider = stage.agent([call("ends"), say("ok")], tool, session=session)
    with pytest.raises(raised, match="7"):
        stage.run(agent)
    assert len(provider.requests) == 1
    (result,) = results(agent.conversation)
    assert (result.is_error, INTERRUPTED in result.text) == (True, True)
    whole(agent, session)
    assert texts(stage.run(agent, "again")) == "ok"


# ---------------------------------------------------------------- whole processes

PROGRAM = """
import asyncio, os, sys, time
import panto

colour, doing, leaves, port, folder = sys.argv[1:]
provider = panto.OpenAIChatConfig(model="m", base_url=f"http://127.0.0.1:{port}/v1")
session = panto.FileSystemJSONLStore(folder).create()

def sleep(arguments, context):
    context.progress("begun")
    time.sleep(300)

async def rest(arguments, context):
    context.progress("begun")
    await asyncio.sleep(300)

def tools(agent):
    function = rest if doing == "async tool" else sleep
    agent.register_tool(panto.Tool("wait", "", {"type": "object"}, function, takes_context=True))

def reached(event):
    kind = panto.ContentDelta if doing == "answer" else panto.ToolProgress
    if isinstance(event, kind):
        print("reached", flush=True)
        return leaves != "waits"
    return False

def sync():
    agent = panto.Agent(panto.Config(provider=provider), session)
    tools(agent)
    stream = agent.run("go")
    for event in stream:
        if reached(event):
            break
    if leaves == "drops":
        del stream
        return
    globals().update(agent=agent, stream=stream)

async def main():
    agent = panto.AsyncAgent(panto.Config(provider=provider), session)
    tools(agent)
    stream = agent.run("go")
    async for event in stream:
        if reached(event):
            break
    if leaves == "drops":
        del stream
        return
    globals().update(agent=agent, stream=stream)

sync() if colour == "sync" else asyncio.run(main())
print("left", flush=True)
"""


def program(*args: str, server: Talker, folder: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", PROGRAM, *args, str(server.server.port), str(folder)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def serving(doing: str) -> Talker:
    return Talker(delta("one")) if doing == "answer" else Answers(delta("one"), tool_calls("wait"))


@pytest.mark.parametrize("leaves", ["drops", "keeps"])
@pytest.mark.parametrize("doing", ["answer", "tool", "async tool"])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_ca_02_a_stream_that_nobody_closed_does_not_keep_the_interpreter(
    colour: str, doing: str, leaves: str, tmp_path: Path
) -> None:
    with serving(doing) as server, program(colour, doing, leaves, server=server, folder=tmp_path) as child:
        try:
            out, err = child.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
        assert out.split() == ["reached", "left"]
        assert (child.returncode, err) == (0, "")
        if doing == "answer":
            assert server.gone.wait(SOON)


@pytest.mark.skipif(sys.platform == "win32", reason="a process there has no SIGINT of its own")
@pytest.mark.parametrize("doing", ["answer", "tool", "async tool"])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_ctrl_c_ends_a_program_by_keyboard_interrupt_and_its_session_is_whole(
    colour: str, doing: str, tmp_path: Path
) -> None:
    with serving(doing) as server, program(colour, doing, "waits", server=server, folder=tmp_path) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "reached\n"
            time.sleep(0.02)  # it goes on to wait
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=20)
        except BaseException:
            child.kill()
            raise
        assert child.returncode == -signal.SIGINT
        assert err.splitlines()[-1] == "KeyboardInterrupt"
        assert out == ""
        if doing == "answer":
            assert server.gone.wait(SOON)
    session = panto.FileSystemJSONLStore(tmp_path).latest()
    assert session is not None
    loaded = session.load()
    assert isinstance(loaded, panto.Conversation)
    assert loaded.problems() == []
    assert [message.text for message in loaded.messages[:2]] == ["go", "one"]
    if doing == "answer":
        assert [message.stop_reason for message in loaded.messages[1:]] == [panto.StopReason.ABORTED]
    else:
        (result,) = results(loaded)
        assert (result.is_error, INTERRUPTED in result.text) == (True, True)
