"""A canary key is in the request and in nothing else: law 8, and the field cases of the family SC."""

from __future__ import annotations

import asyncio
import base64
import copy
import gc
import io
import logging
import os
import pickle
import signal
import socket
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
import pytest
import trustme
from tests.cli.command import Command
from tests.cli.server import Fail
from tests.cli.server import Server as ChatServer
from tests.drive.http_servers import Peer, Proxy, Request, Server
from tests.faces import Face, Ran
from tests.stage import QUICK
from tests.sweep import (
    KEY,
    PASSWORD,
    PROXY,
    QUERY,
    TOKEN,
    USER,
    clean,
    files,
    leaks,
    logging_everything,
    shown,
    told_of,
)

import panto
from panto._drive import http
from panto._secret import Secret
from panto._wire.protocol import HTTPRequest
from panto.testing import ScriptedProvider, call, drop, fail, record, say
from panto.testing.script import Drop

STYLES = ("openai_chat", "anthropic_messages")
CONFIGS: dict[str, Callable[..., Any]] = {
    "openai_chat": panto.OpenAIChatConfig,
    "anthropic_messages": panto.AnthropicMessagesConfig,
}


def key() -> str:
    """What a caller gives as `api_key`."""
    return KEY


def url(port: int = 9, scheme: str = "http", host: str = "127.0.0.1") -> Secret:
    """A base URL with a user, a password and a query: wrapped, so that no local of a test holds it."""
    return Secret(f"{scheme}://{USER}:{quote(PASSWORD, safe='')}@{host}:{port}/v1?key={QUERY}")


def provider(style: str, port: int = 9, *, told: bool = False, **more: Any) -> Any:
    """A provider config with a canary wherever one can be."""
    base = more.pop("base", url(port))
    more.setdefault("timeouts", panto.Timeouts(connect=5, idle=5))
    return CONFIGS[style](model="m", api_key=key if told else KEY, base_url=base(), headers={"X-Token": TOKEN}, **more)


def config(style: str, port: int = 9, **more: Any) -> panto.Config:
    return panto.Config(provider=provider(style, port, **more), retry=QUICK)


def speaking(scripted: ScriptedProvider) -> Callable[[Peer], None]:
    """A server that answers by a script."""

    def script(peer: Peer) -> None:
        while (request := peer.request()) is not None:
            _, reply = scripted.take(f"http://x{request.target}", request.headers, request.body)
            if reply.status is not None:
                head = [f"{name}: {value}" for name, value in reply.headers.items()]
                peer.head(*head, "transfer-encoding: chunked", status=f"{reply.status} as it is")
            for frame in reply.frames:
                if isinstance(frame, bytes):
                    peer.chunks(frame, end=False)
                elif isinstance(frame, Drop):
                    peer.gone(5) if frame.how == "silence" else peer.reset()
                    return
            peer.chunks()

    return script


def proven(request: Request, style: str) -> None:
    """The canaries are in the request: else that they are nowhere proves nothing."""
    bearer = request.headers["authorization"] == f"Bearer {KEY}"
    assert bearer if style == "openai_chat" else request.headers["x-api-key"] == KEY
    assert request.headers["x-token"] == TOKEN
    assert request.target.endswith(f"?key={QUERY}")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    http.deinit()
    yield
    http.deinit()


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# ---------------------------------------------------------------- the sweep itself


class _Holder:
    __module__ = "panto.planted"

    def __init__(self, value: object) -> None:
        self.value = value


def _raised(text: str, local: object = None) -> BaseException:
    try:
        try:
            raise ValueError(text)
        except ValueError:
            raise RuntimeError("after it")  # noqa: B904
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    "planted",
    [
        lambda: shown(_Holder([{"a": KEY}])),
        lambda: shown({"x": (PASSWORD,)}),
        lambda: shown(TOKEN.encode()),
        lambda: shown(msgspec.structs.replace(provider("openai_chat"), model=QUERY)),
        lambda: shown(base64.b64encode(f"{USER}:{PASSWORD}".encode())),
        lambda: shown(__import__("hashlib").sha256(KEY.encode()).hexdigest()),
        lambda: shown(quote(PASSWORD, safe="")),
        lambda: told_of(_raised(KEY)),
        lambda: told_of(_raised("a", local=PROXY)),
    ],
)
def test_the_sweep_finds_a_planted_canary(planted: Callable[[], str]) -> None:
    assert leaks(planted())
    with pytest.raises(AssertionError, match="a canary is shown"):
        clean(planted())


def test_the_sweep_of_logs_and_files_finds_a_planted_canary(tmp_path: Path) -> None:
    with logging_everything() as logged:
        logging.getLogger("quiet.child").debug("sent %s", {"authorization": KEY})
    assert logged.by("quiet") == 1
    assert leaks(logged.text)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "f").write_text(TOKEN)
    assert leaks(files(tmp_path))


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("told", [False, True], ids=["string", "callable"])
def test_sc_02_no_way_to_print_or_dump_a_config_shows_a_canary(style: str, told: bool) -> None:
    one = provider(style, told=told)
    whole = panto.Config(provider=one, compaction=panto.CompactionConfig(provider=one))
    clean(shown(one), shown(whole), shown(one.wire_identity()))
    for made in (copy.copy(one), copy.deepcopy(one), msgspec.structs.replace(one, model="other")):
        clean(shown(made))
        assert (made.api_key() == KEY, made.headers["x-token".title()] == TOKEN) == (True, True)
        assert made.url_secret() == url()()
    assert one == provider(style, told=told)
    for value in (one, whole, one.headers, one.url_secret):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(value)
    assert one.wire_identity().base_url == "http://127.0.0.1:9/v1"


def test_a_difference_that_an_assertion_shows_has_no_canary(style: str) -> None:
    with pytest.raises(AssertionError) as caught:
        assert provider(style) == provider(style, max_tokens=5)
    clean(told_of(caught.value))


BAD: dict[str, dict[str, Any]] = {
    "a key with a line break": {"api_key": Secret(f"{KEY}\r\nX: y")},
    "a key with a curly quote": {"api_key": Secret(f"{KEY}\u201d")},
    "a key of bytes": {"api_key": Secret(KEY.encode())},  # type: ignore[arg-type]
    "a header with a line break": {"headers": Secret(f"{TOKEN}\nX: y")},
    "a header of bytes": {"headers": Secret(TOKEN.encode())},  # type: ignore[arg-type]
    "a URL of another scheme": {"base_url": Secret(f"ftp://{USER}:{PASSWORD}@h/v1?key={QUERY}")},
    "a URL with a bad port": {"base_url": Secret(f"http://{USER}:{QUERY}@h:99999999/v1?key={QUERY}")},
    "a URL without a host": {"base_url": Secret(f"http://?key={QUERY}")},
    "no model": {"model": Secret(" ")},
    "a bad limit": {"max_tokens": lambda: 0},
    "no room": {"max_tokens": lambda: 10, "context_window": lambda: 5},
    "a bad effort": {"reasoning": Secret("much")},
}


@pytest.mark.parametrize("what", BAD)
def test_cf_04_a_config_that_cannot_work_is_refused_without_a_canary(style: str, what: str) -> None:
    def made(bad: dict[str, Any]) -> object:
        return CONFIGS[style](
            **{
                "model": "m",
                "api_key": KEY,
                "base_url": url()(),
                "headers": {"X-Token": TOKEN},
                **{name: {"X-Token": value()} if name == "headers" else value() for name, value in bad.items()},
            }
        )

    with pytest.raises(panto.ConfigError) as caught:
        made(BAD[what])
    clean(told_of(caught.value))


def test_a_proxy_that_cannot_work_is_refused_without_its_password() -> None:
    bad = [Secret(f"gopher://{USER}:{PROXY}@h:1"), Secret(f"http://{USER}:{PROXY}@h:port")]
    for one in bad:
        with pytest.raises(panto.ConfigError) as caught:
            panto.init(proxy=one())
        clean(told_of(caught.value))


def test_settings_that_come_too_late_are_refused_without_a_canary() -> None:
    http.sync_transport()
    late = Secret(f"http://{USER}:{PROXY}@127.0.0.1:9")
    with pytest.raises(panto.StateError) as caught:
        panto.init(proxy=late())
    clean(told_of(caught.value), shown(http._process))


# ---------------------------------------------------------------- whole runs


def swept(face: Face, agent: Any) -> list[panto.Event]:
    """Run once; after each event everything that can be reached is swept."""
    events: list[panto.Event] = []

    def look(stream: Any, event: panto.Event) -> None:
        events.append(event)
        clean(shown(event), shown(stream), shown(agent))
        clean(str(msgspec.json.encode(event)))

    if face.name == "sync":
        with agent.run("go") as stream:
            for event in stream:
                look(stream, event)
    else:

        async def body() -> None:
            async with agent.run("go") as stream:
                async for event in stream:
                    look(stream, event)

        face.call(body())
    return events


@pytest.mark.parametrize("told", [False, True], ids=["string", "callable"])
def test_sc_01_and_sc_03_a_run_shows_no_canary_in_objects_logs_output_or_files(
    face: Face, style: str, told: bool, tmp_path: Path
) -> None:
    scripted = ScriptedProvider([lambda _: fail(529, f"busy: {KEY} {TOKEN}"), call("look", x=1), say("fine")])
    out, umask = io.StringIO(), os.umask(0)
    store = panto.FileSystemJSONLStore(tmp_path / "a" / "sessions")
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(out),
            logging_everything() as logged,
            Server(speaking(scripted)) as server,
        ):
            # A loop in debug mode says most.
            if face.name == "async":
                face.runner.get_loop().set_debug(True)  # type: ignore[attr-defined]
                # aiohttp 3.14 has nothing to say in a run that goes well; this shows that it would have been heard.
                logging.getLogger("aiohttp.client").debug("heard")
            agent = face.agent(config(style, server.port, told=told), store.create())
            agent.register_tool(panto.Tool("look", "looks", {"type": "object"}, lambda arguments: "seen"))
            events = swept(face, agent)
            clean(shown(http._process), shown(scripted.requests), shown(scripted), shown(store))
            face.call(agent.close())
            for request in server.requests:
                proven(request, style)
    finally:
        os.umask(umask)
    assert len(server.requests) == 3
    (retry,) = [event for event in events if isinstance(event, panto.ProviderRetry)]
    assert "busy: *** ***" in str(retry.info.message)
    assert isinstance(events[-1], panto.TurnComplete)
    clean(logged.text, out.getvalue(), files(tmp_path))
    for library in ("urllib3",) if face.name == "sync" else ("asyncio", "aiohttp"):
        assert logged.by(library), f"{library} logged nothing: no proof"
    assert "fine" in files(tmp_path)
    assert '"base_url":"http://127.0.0.1:' in files(tmp_path)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    if sys.platform != "win32":
        assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
        assert {mode for path, mode in modes.items() if path.is_dir() and path.name == "sessions"} == {0o700}


def test_a_journal_of_a_run_holds_no_canary(face: Face, style: str, tmp_path: Path) -> None:
    scripted = ScriptedProvider([lambda _: fail(529, f"busy: {KEY} {TOKEN} {QUERY}"), say("fine")])
    with Server(speaking(scripted)) as server:
        agent = face.agent(config(style, server.port, told=True))
        with record(agent) as journal:
            assert face.run(agent, "go").error is None
        proven(server.requests[1], style)
    journal.save(tmp_path / "journal")
    clean(shown(journal), files(tmp_path))
    assert "fine" in files(tmp_path)
    assert "busy: " in files(tmp_path)


def test_a_client_of_the_callers_own_shows_no_canary_either(face: Face, style: str) -> None:
    scripted = ScriptedProvider([lambda _: fail(401, f"no: {KEY}"), say("fine")])
    with logging_everything() as logged, Server(speaking(scripted)) as server:
        client: Any = httpx2.Client(trust_env=False) if face.name == "sync" else httpx2.AsyncClient(trust_env=False)
        agent = face.agent(config(style, server.port), transport=client)
        failed, ran = face.run(agent, "go"), face.run(agent, None)
        clean(shown(agent), shown(ran.events), told_of(failed.error or ran.error or ValueError()))
        face.call(agent.close())
        face.call(client.close() if face.name == "sync" else client.aclose())
        for request in server.requests:
            proven(request, style)
    assert (type(failed.error), ran.error, len(server.requests)) == (panto.ProviderError, None, 2)
    clean(logged.text)
    assert logged.by("httpx2"), "httpx2 logged nothing: no proof"


def test_a_stream_that_was_dropped_warns_without_a_canary(face: Face, style: str) -> None:
    scripted = ScriptedProvider([say("one", "two"), say("next")])

    with Server(speaking(scripted)) as server, logging_everything() as logged:
        agent = face.agent(config(style, server.port))

        def begun() -> None:
            stream = agent.run("go")
            while not isinstance(face.call(stream.next()), panto.ContentDelta):
                pass

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            begun()
            gc.collect()
        assert [one.category for one in warned] == [ResourceWarning]
        clean(*(f"{one} {one.message} {shown(one.source)}" for one in warned))
        assert face.run(agent, "again").error is None
        proven(server.requests[0], style)
    clean(logged.text, shown(agent))


# ---------------------------------------------------------------- failures


def _echo(request: Request) -> str:
    return f"{request.target} {request.headers}"


def refused(peer: Peer) -> None:
    """In the provider's words, in every form in which it got them."""
    while (request := peer.request()) is not None:
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        words = f"no such key: {KEY}; {_echo(request)}; {basic}; {PASSWORD} {quote(PASSWORD, safe='')} {QUERY}"
        body = msgspec.json.encode({"error": {"message": words, "type": "authentication_error"}})
        peer.answer(body, "content-type: application/json", f"x-request-id: {KEY}", status="401 no")


def plain(peer: Peer) -> None:
    while (request := peer.request()) is not None:
        peer.answer(f"<html>bad gateway {_echo(request)}".encode(), status=f"502 {KEY}")


def moved(peer: Peer) -> None:
    while (request := peer.request()) is not None:
        peer.answer(b"", f"location: http://elsewhere.test/{KEY}?{_echo(request)}", status="302 moved")


def in_stream(peer: Peer) -> None:
    while (request := peer.request()) is not None:
        words = f"overloaded: {KEY} {_echo(request)}"
        body = msgspec.json.encode({"type": "error", "error": {"type": "overloaded_error", "message": words}})
        peer.head("content-type: text/event-stream", "transfer-encoding: chunked")
        peer.chunks(b"event: error\ndata: " + body + b"\n\n")


def no_stream(peer: Peer) -> None:
    while (request := peer.request()) is not None:
        peer.answer(f"data: {{{_echo(request)}\n\n".encode(), "content-type: text/event-stream")


def reset(peer: Peer) -> None:
    peer.request()
    peer.reset()


def silent(peer: Peer) -> None:
    peer.request()
    peer.gone()


def garbled(peer: Peer) -> None:
    if (request := peer.request()) is not None:
        peer.send(f"echo {request.headers} {request.target}\r\n\r\n".encode())
        peer.gone(0.5)


def cut(peer: Peer) -> None:
    if (request := peer.request()) is not None:
        peer.head("content-type: text/event-stream", "transfer-encoding: chunked")
        peer.chunks(f": {_echo(request)}\n\n".encode(), end=False)


FAILURES: dict[Callable[[Peer], None], panto.ErrorKind | None] = {
    refused: panto.ErrorKind.AUTH,
    plain: panto.ErrorKind.SERVER,
    moved: panto.ErrorKind.INVALID_REQUEST,
    in_stream: panto.ErrorKind.OVERLOADED,
    no_stream: None,
    reset: panto.ErrorKind.CONNECTION,
    silent: panto.ErrorKind.TIMEOUT,
    garbled: panto.ErrorKind.PROTOCOL,
    cut: panto.ErrorKind.CONNECTION,
}


def failing(ran: Ran, kind: panto.ErrorKind | None = None) -> None:
    """A run failed, and nothing that tells of it shows a canary."""
    assert isinstance(ran.error, panto.ProviderError), ran.error
    clean(told_of(ran.error), shown(ran.events))
    clean(pickle.dumps(ran.error).decode("latin-1"))
    assert kind is None or ran.error.kind is kind, ran.error.kind


@pytest.mark.parametrize("script", FAILURES, ids=lambda script: script.__name__)
def test_a_failure_shows_no_canary(
    face: Face, style: str, script: Callable[[Peer], None], caplog: pytest.LogCaptureFixture
) -> None:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out), logging_everything() as logged, Server(script) as server:
        timeouts = panto.Timeouts(connect=2, idle=0.2 if script is silent else 3)
        retry = panto.RetryConfig(max_retries=1, initial_delay=0, max_delay=0)
        agent = face.agent(panto.Config(provider=provider(style, server.port, timeouts=timeouts), retry=retry))
        ran = face.run(agent, "go")
        failing(ran, FAILURES[script])
        for request in server.requests:
            proven(request, style)
        assert server.requests
        clean(shown(agent))
        face.call(agent.close())
    clean(logged.text, out.getvalue())


def test_a_provider_that_says_a_key_back_says_it_to_nobody(face: Face, style: str) -> None:
    with Server(refused) as server:
        agent = face.agent(config(style, server.port))
        ran = face.run(agent, "go")
        assert isinstance(ran.error, panto.ProviderError)
        assert ran.error.message.startswith("no such key: ***;")
        assert ran.error.request_id == "***"
        proven(server.requests[0], style)


def test_a_secret_that_is_part_of_another_leaves_no_rest_and_a_short_value_makes_no_holes() -> None:
    headers = {"a": Secret("sk-CANARY"), "b": Secret(f"Bearer {KEY}"), "x-version": Secret("1")}
    request = HTTPRequest("http://h/", headers, b"", url())
    assert request.strike(f"HTTP 1: Bearer {KEY}, {KEY}, {PASSWORD}, {QUERY}") == "HTTP 1: ***, ***, ***, ***"


def test_where_nobody_answers_no_canary_is_shown(face: Face, style: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    agent = face.agent(config(style, port, timeouts=panto.Timeouts(connect=2, idle=2)))
    with logging_everything() as logged:
        failing(face.run(agent, "go"), panto.ErrorKind.CONNECTION)
    clean(logged.text)


def test_a_certificate_that_is_not_trusted_shows_no_canary(face: Face, style: str) -> None:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with Server(tls=context) as server, logging_everything() as logged:
        agent = face.agent(config(style, base=url(server.port, "https")))
        failing(face.run(agent, "go"), panto.ErrorKind.CERTIFICATE)
    clean(logged.text)


def test_a_proxys_password_is_told_to_the_proxy_and_to_nobody_else(face: Face, style: str) -> None:
    basic = Secret("Basic " + base64.b64encode(f"{USER}:{PROXY}".encode()).decode())
    scripted = ScriptedProvider([say("fine")])
    with Server(speaking(scripted)) as server, Proxy(basic()) as proxy, logging_everything() as logged:
        target = url(server.port, host="api.example.test")
        way = Secret(f"http://{USER}:{PROXY}@127.0.0.1:{proxy.port}")
        panto.init(proxy=way())
        agent = face.agent(config(style, base=target))
        ran = face.run(agent, "go")
        clean(shown(ran.events), shown(agent), shown(http._process))
        assert ran.error is None
        assert proxy.requests[0].headers["proxy-authorization"] == basic()
        proven(server.requests[0], style)
        face.call(agent.close())
    clean(logged.text)
    panto.deinit()
    with Proxy("Basic another") as proxy, logging_everything() as logged:
        way = Secret(f"http://{USER}:{PROXY}@127.0.0.1:{proxy.port}")
        panto.init(proxy=way())
        agent = face.agent(config(style, base=target))
        failing(face.run(agent, "go"))
        assert proxy.requests[0].headers["proxy-authorization"] == basic()
    clean(logged.text)


def test_a_canary_in_process_shows_in_no_failure(face: Face, style: str) -> None:
    for how in ("refused", "certificate", "reset", "silence"):
        scripted = ScriptedProvider([drop(how)] * 3)  # type: ignore[arg-type]
        retry = panto.RetryConfig(max_retries=0)
        agent = face.agent(panto.Config(provider=provider(style), retry=retry), transport=scripted)
        failing(face.run(agent, "go"))
        assert scripted.requests
        clean(shown(scripted.requests))


@pytest.mark.parametrize("bad", [lambda: f"{KEY}\nX", lambda: f"{KEY}\u201d", lambda: KEY.encode()])
def test_a_callable_that_brings_no_key_is_a_config_error_without_a_canary(
    face: Face, style: str, bad: Callable[[], Any]
) -> None:
    async def later() -> Any:
        return bad()

    scripted = ScriptedProvider([])
    for told in (bad, later):
        one = CONFIGS[style](model="m", api_key=told)
        agent = face.agent(panto.Config(provider=one), transport=scripted)
        ran = face.run(agent, "go")
        assert isinstance(ran.error, panto.ConfigError)
        clean(told_of(ran.error))
    assert not scripted.requests


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill of oneself with SIGINT is no Ctrl-C there")
def test_ctrl_c_in_mid_answer_shows_no_canary(style: str) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.head("content-type: text/event-stream", "transfer-encoding: chunked")
        peer.chunks(b": hello\n\n", end=False)
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        peer.gone()

    with Server(script) as server, panto.Agent(config(style, server.port), panto.NullStore().create()) as agent:
        with pytest.raises(KeyboardInterrupt) as caught:
            list(agent.run("go"))
        clean(told_of(caught.value), shown(agent))
        proven(server.requests[0], style)


def test_a_cancelled_task_shows_no_canary(style: str) -> None:
    async def scenario(port: int) -> BaseException:
        agent = panto.AsyncAgent(config(style, port), panto.NullStore().create())
        async with agent:
            task = asyncio.create_task(agent.run("go").next())
            await asyncio.sleep(0.05)
            clean(repr(task), repr(task.get_stack()))
            task.cancel()
            try:
                await task
            except asyncio.CancelledError as error:
                return error
        raise AssertionError("not cancelled")

    with Server(silent) as server, logging_everything() as logged:
        clean(told_of(asyncio.run(scenario(server.port), debug=True)))
        proven(server.requests[0], style)
    assert logged.by("asyncio")
    clean(logged.text)


# ---------------------------------------------------------------- the command


def test_sc_01_no_command_prints_writes_or_logs_a_canary(panto_command: tuple[Command, ChatServer]) -> None:
    command, server = panto_command
    command.env["OPENAI_API_KEY"] = KEY
    command.env["OPENAI_BASE_URL"] = server.url.replace("://", f"://{USER}:{quote(PASSWORD, safe='')}@") + f"?k={QUERY}"
    ran = [command.run("the question", "--debug"), command.run("-c", "and again", "--json", "--debug")]
    server.script([Fail(401, f"no such key: {KEY} {PASSWORD} {QUERY}")])
    ran += [command.run("a", "--debug"), command.run("b", "--json"), command.run("c")]
    ran += [command.run("models", *more) for more in ((), ("--json",), ("--debug",))]
    ran += [command.run("sessions", *more, "--debug") for more in ((), ("--json",), ("search", "question"))]
    ran += [command.run("sessions", "show", "0", *more) for more in ((), ("--json",))]
    ran += [command.run("sessions", "search", "CANARY")]
    assert [done.returncode for done in ran[:5]] == [0, 0, 1, 1, 1]
    assert "urllib3" in ran[0].stderr, "the HTTP library logged nothing: no proof"
    assert "the question" in ran[10].stdout + ran[10].stderr
    assert "the question" in command.saved()
    request = server.requests[0]
    assert (request.headers["authorization"] == f"Bearer {KEY}", request.path.endswith(f"?k={QUERY}")) == (True, True)
    for done in ran[:-1]:
        clean(done.stdout, done.stderr)
    clean(files(command.home))


@pytest.fixture
def panto_command(tmp_path: Path) -> Iterator[tuple[Command, ChatServer]]:
    server = ChatServer()
    yield Command(tmp_path, server), server
    server.close()
