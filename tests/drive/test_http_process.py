"""The transport that a process shares: init, deinit, threads, forks, event loops, and what is left afterwards."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.drive.http_colours import SHORT, colour, whole
from tests.drive.http_servers import Peer, Server

from panto._drive import http
from panto.config import Timeouts
from panto.errors import ConfigError, StateError


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    http.deinit()
    yield
    http.deinit()


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def ask(url: str) -> bytes:
    return whole(http.sync_transport().open(url, {}, b"", SHORT))


async def ask_async(url: str) -> bytes:
    transport = http.acquire_async()
    try:
        return await _read(transport, url)
    finally:
        await http.release_async(transport)


async def _read(transport: http.AsyncTransport, url: str) -> bytes:
    answer = await transport.open(url, {}, b"", SHORT)
    got = b""
    while part := await answer.read():
        got += part
    return got


# ---------------------------------------------------------------- init and deinit


def test_importing_the_transport_loads_no_http_library() -> None:
    code = (
        "import sys, panto._drive.http as http\n"
        "heavy = {'urllib3', 'aiohttp', 'httpx2', 'ssl', 'asyncio', 'truststore', 'http.client', 'yarl'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_init_is_idempotent_and_can_be_changed_until_the_first_request() -> None:
    http.init(timeouts=Timeouts(connect=1))
    http.init(timeouts=Timeouts(connect=1))
    http.init(timeouts=Timeouts(connect=2))
    assert http.resolve_timeouts(None) == Timeouts(connect=2)
    http.sync_transport()
    http.init(timeouts=Timeouts(connect=2))
    with pytest.raises(StateError, match=r"panto\.deinit\(\)"):
        http.init(timeouts=Timeouts(connect=3))


def test_a_providers_own_timeouts_win() -> None:
    http.init(timeouts=Timeouts(connect=1))
    assert http.resolve_timeouts(Timeouts(idle=5)) == Timeouts(idle=5)


def test_init_after_an_asynchronous_request_is_refused_too() -> None:
    async def scenario(url: str) -> None:
        transport = http.acquire_async()
        await _read(transport, url)
        with pytest.raises(StateError):
            http.init(pool_size=3)
        await http.release_async(transport)
        http.init(pool_size=3)

    with Server() as server:
        asyncio.run(scenario(server.url))


def test_deinit_is_idempotent_forgets_the_settings_and_leaves_panto_usable() -> None:
    with Server() as server:
        http.init(timeouts=Timeouts(connect=1))
        assert ask(server.url) == b"ok"
        http.deinit()
        http.deinit()
        assert http.resolve_timeouts(None) == Timeouts()
        assert ask(server.url) == b"ok"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ca_bundle": "/does/not/exist.pem"}, "exist.pem"),
        ({"proxy": "ftp://u:CANARY@proxy"}, "'ftp'"),
        ({"pool_size": 0}, "pool_size"),
    ],
)
def test_init_refuses_what_cannot_work(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        http.init(**settings)  # type: ignore[arg-type]
    assert "CANARY" not in str(caught.value)


def test_the_settings_do_not_show_a_proxys_password() -> None:
    assert "CANARY" not in repr(http.Settings(proxy="http://u:CANARY@p"))


# ---------------------------------------------------------------- what is left


def test_after_deinit_no_connection_and_no_thread_is_left() -> None:
    def script(peer: Peer) -> None:
        while peer.request() is not None:
            peer.head("transfer-encoding: chunked")
            peer.chunks(b"a", end=len(peer.server.requests) < 3)

    with Server(script) as server:
        before = {thread for thread in threading.enumerate() if thread.name != "server"}
        assert ask(server.url) == b"a"
        asyncio.run(ask_async(server.url))
        unfinished = http.sync_transport().open(server.url, {}, b"", SHORT)
        assert unfinished.read() == b"a"
        assert server.live
        http.deinit()
        gc.collect()
        assert within(3, lambda: not server.live)
        after = {thread for thread in threading.enumerate() if thread.name != "server"}
        assert after <= before


def test_the_last_agent_of_a_loop_closes_its_connections() -> None:
    async def scenario(server: Server) -> None:
        first, second = http.acquire_async(), http.acquire_async()
        assert first is second
        await _read(first, server.url)
        await http.release_async(first)
        await _read(second, server.url)
        assert server.connections == 1
        assert server.live
        await http.release_async(second)
        assert await asyncio.to_thread(within, 3, lambda: not server.live)
        assert http.acquire_async() is not first

    with Server() as server:
        asyncio.run(scenario(server))


def test_a_loop_that_ends_without_release_leaves_no_connection() -> None:
    async def scenario(url: str) -> None:
        await _read(http.acquire_async(), url)

    with Server() as server:
        asyncio.run(scenario(server.url))
        assert within(3, lambda: not server.live)
        asyncio.run(scenario(server.url))
        assert within(3, lambda: not server.live)
        http.deinit()


@pytest.mark.parametrize("where", ["inside", "outside", "thread"])
def test_deinit_closes_the_connections_of_loops_that_still_live(where: str) -> None:
    with Server() as server, asyncio.Runner() as runner:

        async def scenario() -> None:
            await _read(http.acquire_async(), server.url)
            match where:
                case "inside":
                    http.deinit()
                case "thread":
                    await asyncio.to_thread(http.deinit)
                case _:
                    return
            assert await asyncio.to_thread(within, 3, lambda: not server.live)

        runner.run(scenario())
        http.deinit()
        assert within(3, lambda: not server.live)


def test_an_exit_without_deinit_is_quiet() -> None:
    code = (
        "import asyncio, sys\n"
        "from panto._drive import http\n"
        "from panto.config import Timeouts\n"
        "async def go():\n"
        "    answer = await http.acquire_async().open(sys.argv[1], {}, b'', Timeouts())\n"
        "    print(await answer.read())\n"
        "loop = asyncio.new_event_loop()\n"
        "loop.run_until_complete(go())\n"
        "answer = http.sync_transport().open(sys.argv[1], {}, b'', Timeouts())\n"
        "print(answer.read())\n"
    )

    def script(peer: Peer) -> None:
        peer.request()
        peer.head("transfer-encoding: chunked")
        peer.chunks(b"a", end=False)
        peer.gone()

    with Server(script) as server:
        command = [sys.executable, "-W", "error", "-c", code, server.url]
        result = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert result.stdout.split() == ["b'a'", "b'a'"]
    assert "panto" not in result.stderr
    assert "Unclosed" not in result.stderr


def test_idle_connections_are_kept_up_to_pool_size() -> None:
    http.init(pool_size=2)
    gate = threading.Barrier(5)

    def script(peer: Peer) -> None:
        while peer.request() is not None:
            gate.wait(5)
            peer.answer()

    async def five(url: str, server: Server) -> None:
        transport = http.acquire_async()
        await asyncio.gather(*(_read(transport, url) for _ in range(5)))
        assert await asyncio.to_thread(within, 3, lambda: len(server.live) == 2)
        await http.release_async(transport)

    with Server(script) as server:
        asyncio.run(five(server.url, server))
    with Server(script) as server, ThreadPoolExecutor(5) as threads:
        assert list(threads.map(lambda _: ask(server.url), range(5))) == [b"ok"] * 5
        assert within(3, lambda: len(server.live) == 2)


# ---------------------------------------------------------------- threads and forks


def test_threads_share_the_transport() -> None:
    def script(peer: Peer) -> None:
        while (request := peer.request()) is not None:
            peer.head("transfer-encoding: chunked")
            peer.chunks(*[request.body] * 20)

    def many(number: int) -> bool:
        for turn in range(10):
            body = f"{number}.{turn};".encode()
            answer = http.sync_transport().open(server.url, {}, body, SHORT)
            if turn % 3 == 2:
                answer.read()
                answer.close()
            elif whole(answer) != body * 20:
                return False
        return True

    with Server(script) as server, ThreadPoolExecutor(8) as threads:
        assert all(threads.map(many, range(8)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_gets_its_own_connections_and_leaves_the_parents_alone() -> None:
    resume, sent = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        while (request := peer.request()) is not None:
            if request.target == "/slow":
                peer.head("transfer-encoding: chunked")
                peer.chunks(b"a", end=False)
                assert resume.wait(10)
                peer.chunks(b"b")
                sent.set()
            else:
                peer.answer(b"quick")

    with Server(script) as server:
        http.init(timeouts=Timeouts(connect=5, idle=10))
        assert ask(server.url + "/") == b"quick"
        slow = http.sync_transport().open(server.url + "/slow", {}, b"", SHORT)
        assert slow.read() == b"a"
        assert ask(server.url + "/") == b"quick"
        connections = server.connections
        resume.set()
        assert sent.wait(5)  # the rest waits in the socket, where the child could take it
        child = os.fork()
        if child == 0:
            status = 1
            try:
                slow.close()
                fine = http.resolve_timeouts(None).idle == 10
                fine = fine and ask(server.url + "/") == b"quick" and asyncio.run(ask_async(server.url)) == b"quick"
                http.deinit()
                del slow
                gc.collect()
                status = 0 if fine else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert server.connections == connections + 2
        assert whole(slow) == b"b"
        assert ask(server.url + "/") == b"quick"
        assert server.connections == connections + 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_inside_a_loop_leaves_that_loop_alone() -> None:
    async def scenario(url: str) -> None:
        transport = http.acquire_async()
        assert await _read(transport, url) == b"ok"
        child = os.fork()
        if child == 0:
            try:
                http.deinit()
                del transport
                gc.collect()  # a connector that dies takes its sockets out of the epoll that both share
                os._exit(0 if ask(url) == b"ok" else 2)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, child, 0))[1]) == 0
        assert await _read(transport, url) == b"ok"
        await http.release_async(transport)

    with Server() as server:
        asyncio.run(scenario(server.url))
        assert server.connections == 2


# ---------------------------------------------------------------- the caller's own


def test_a_callers_transport_is_taken_as_it_is() -> None:
    class Mine:
        def open(self, url: str, headers: object, body: bytes, timeouts: Timeouts) -> http.Response:
            raise NotImplementedError

        def close(self) -> None: ...

    class MineAsync:
        async def open(self, url: str, headers: object, body: bytes, timeouts: Timeouts) -> http.AsyncResponse:
            raise NotImplementedError

        async def aclose(self) -> None: ...

    class Both:
        def for_sync(self) -> http.Transport:
            return mine

        def for_async(self) -> http.AsyncTransport:
            return mine_async

    mine, mine_async = Mine(), MineAsync()
    assert http.as_transport(mine) is mine
    assert http.as_async_transport(mine_async) is mine_async
    assert http.as_transport(Both()) is mine
    assert http.as_async_transport(Both()) is mine_async


def test_what_is_no_transport_is_refused_with_what_is_accepted() -> None:
    import httpx2

    with httpx2.Client() as client:
        for given in (object(), client, "http://proxy"):
            with pytest.raises(ConfigError, match=r"AsyncAgent takes an httpx2\.AsyncClient or a transport"):
                http.as_async_transport(given)
    for given in (object(), httpx2.AsyncClient(), None):
        with pytest.raises(ConfigError, match=r"Agent takes an httpx2\.Client or a transport"):
            http.as_transport(given)


@pytest.mark.parametrize("name", ["httpx2", "httpx2-async"])
def test_a_callers_client_is_never_closed(name: str) -> None:
    with colour(name) as way, Server() as server:
        whole(way.open(server.url))
        http.deinit()
        inner = way.transport
        inner.close() if way.runner is None else way.runner.run(inner.aclose())
        assert not inner._client.is_closed
        assert whole(way.open(server.url)) == b"ok"


def test_a_missing_fork_hook_is_no_error(tmp_path: Path) -> None:
    code = "import os; del os.register_at_fork; import panto._drive.http; print('fine')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "fine"


def test_an_agent_that_outlives_deinit_still_closes_what_it_opens() -> None:
    async def scenario(server: Server) -> None:
        transport = http.acquire_async()
        await _read(transport, server.url)
        http.deinit()
        assert await asyncio.to_thread(within, 3, lambda: not server.live)
        assert await _read(transport, server.url) == b"ok"
        await http.release_async(transport)
        assert await asyncio.to_thread(within, 3, lambda: not server.live)

    with Server() as server:
        asyncio.run(scenario(server))
