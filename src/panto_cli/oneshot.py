"""One question, one answer.

Law: whatever ends the run - the model, Ctrl-C, a reader who goes away, a failure - the run is driven to its end, so
that the session that is left is whole and holds what was shown.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import FrameType

import msgspec

import panto

from .aliases import Alias, Catalogue
from .failures import CommandError, Exit, ReaderGone, Terminated, explain
from .jsonout import JSONRenderer, RunStart
from .paths import sessions_directory
from .providers import LOCAL
from .render import TextRenderer
from .terminal import Console

__all__ = ["Question", "ask", "read_question"]

HONEST = (
    "SmolLM2-135M-Instruct, a very small model on this machine. It shows panto at work; do not believe what it says."
)

SLOW = 2.0
"""Seconds after which a person is told that standard input is waited for."""


class Question(msgspec.Struct, kw_only=True):
    """What the command line asks for."""

    text: str
    model: str | None = None
    system: str | None = None
    resume: str | None = None
    go_on: bool = False
    no_session: bool = False
    store: str | None = None
    json: bool = False


def read_question(words: str | None, console: Console) -> str:
    """The question of the command line and what standard input has, joined by a blank line.

    Standard input is read when it is a pipe or a file, never when it is a terminal.

    Raises `CommandError` when there is nothing to ask.
    """
    # An argument that is not UTF-8 comes as lone surrogates, which no request and no file can hold.
    words = words.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if words is not None else None
    piped = _piped(console)
    parts = [part for part in (words, piped) if part is not None and part.strip()]
    if parts:
        return "\n\n".join(parts)
    if piped is not None:
        where = "the question and standard input are" if words is not None else "standard input is"
        raise CommandError(f'{where} empty, so there is nothing to ask. Write: panto "question"')
    if words is not None:
        raise CommandError('the question is empty. Write: panto "question"')
    raise CommandError(
        "an interactive chat is not in this version yet, and no question was given. "
        'Write: panto "question", or pipe text in: echo text | panto'
    )


def _piped(console: Console) -> str | None:
    if sys.stdin is None or sys.stdin.closed:
        return None
    try:
        if sys.stdin.isatty():
            return None
        mode = os.fstat(sys.stdin.fileno()).st_mode
        if stat.S_ISCHR(mode) and not _is_null():
            return None  # a device: nobody knows when it ends
        with _told_when_slow(console):
            return sys.stdin.buffer.read().decode("utf-8-sig", "replace")
    except OSError:
        return None  # opened for writing only, or a directory


@contextlib.contextmanager
def _told_when_slow(console: Console) -> Generator[None]:
    """Say what is waited for: a pipe that nobody closes would look like a panto that hangs."""
    timer = threading.Timer(SLOW, lambda: console.note("waiting for the end of standard input ..."))
    timer.daemon = True
    if console.err_is_terminal:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_null() -> bool:
    try:
        return os.path.samestat(os.fstat(sys.stdin.fileno()), Path(os.devnull).stat())
    except OSError:
        return True


def ask(question: Question, catalogue: Catalogue, console: Console) -> Exit:
    """Ask, show the answer, and say how it went."""
    renderer = JSONRenderer(console) if question.json else TextRenderer(console)
    alias: Alias | None = None
    try:
        session, conversation, alias = _session(question, catalogue, console)
        # What is on a terminal can be declared void and said anew; what is in a pipe or a file cannot.
        config = catalogue.run_config(alias, mid_stream=question.json or console.out_is_terminal)
        if alias.provider == LOCAL:
            console.note(f"the local model answers: {HONEST}")
        elif question.model is None and not (question.go_on or question.resume):
            console.note(f"asking {alias.name} ({alias.model})")
        with panto.Agent(config, session, conversation) as agent:
            if isinstance(renderer, JSONRenderer):
                id = None if question.no_session else agent.session_id
                renderer.show(RunStart(session=id, alias=alias.name, identity=config.provider.wire_identity()))
            _set_system(agent, question.system)
            _run(agent, question.text, renderer)
    except ReaderGone:
        raise
    except (Exception, KeyboardInterrupt, Terminated) as error:
        with contextlib.suppress(ReaderGone):
            renderer.end()
        explained = explain(error)
        if alias is not None:
            explained = explain(error, catalogue.key_env(alias), keyless=catalogue.keyless(alias))
        return _failed(error, renderer, console, explained, saved=not question.no_session)
    renderer.end()
    return _verdict(renderer, console, question)


def _session(
    question: Question, catalogue: Catalogue, console: Console
) -> tuple[panto.Session, panto.Conversation | None, Alias]:
    store = panto.FileSystemJSONLStore(sessions_directory(question.store, catalogue.file.folder))
    if question.go_on or question.resume is not None:
        from .resume import find_session, latest_session, pick_alias

        session = find_session(store, question.resume) if question.resume is not None else latest_session(store)
        alias = pick_alias(catalogue, session.info, question.model, console)
        if not question.no_session:
            return session, None, alias
        loaded = session.load()
        assert isinstance(loaded, panto.Conversation)
        return panto.NullStore().create(), loaded, alias
    alias = catalogue.choose(question.model)
    return panto.NullStore().create() if question.no_session else store.create(), None, alias


def _set_system(agent: panto.Agent, system: str | None) -> None:
    if system is None:
        return
    now = "\n\n".join(block.text for block in panto.effective_system_blocks(agent.conversation.messages))
    if now != system:
        agent.set_system_prompt(system)


def _run(agent: panto.Agent, text: str, renderer: TextRenderer | JSONRenderer) -> None:
    with _terminable(), agent.run(text) as stream:
        for event in stream:
            renderer.show(event)


@contextlib.contextmanager
def _terminable() -> Generator[None]:
    """Turn a request to end the process into an exception, so that the run is closed and saved."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [number for name in names if signal.getsignal(number := getattr(signal, name)) is signal.SIG_DFL]
    try:
        for number in numbers:
            signal.signal(number, end)
    except ValueError:  # not the main thread
        numbers = []
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (KeyboardInterrupt, "interrupted"),
    (Terminated, "terminated"),
    (panto.SessionError, "session"),
    (panto.StoreError, "store"),
    (panto.ConfigError, "config"),
    (CommandError, "config"),
)


def _failed(
    error: BaseException,
    renderer: TextRenderer | JSONRenderer,
    console: Console,
    explained: tuple[str, Exit],
    saved: bool,
) -> Exit:
    """Say what went wrong, to a script as a JSON line, to a person as a paragraph."""
    match error:
        case KeyboardInterrupt():
            message, status = "stopped by Ctrl-C", Exit.INTERRUPTED
        case Terminated():
            message, status = "the process was asked to end", Exit.TERMINATED
        case _:
            message, status = explained
    if isinstance(error, panto.StoreError) and console.wrote:
        message += "\nThe answer above is whole, but it is not saved."
    if isinstance(renderer, JSONRenderer):
        kind = error.kind.value if isinstance(error, panto.ProviderError) else "error"
        kind = next((name for type_, name in _KINDS if isinstance(error, type_)), kind)
        with contextlib.suppress(ReaderGone):
            renderer.failed(error, kind, console.redact(message), int(status))
    if isinstance(error, KeyboardInterrupt | Terminated):
        console.note(f"{message}; what was shown is saved" if console.wrote and saved else message)
        return status
    if isinstance(error, panto.ProviderError) and console.wrote and isinstance(renderer, TextRenderer):
        message += "\nWhat is shown of the answer is not whole."
    console.error(message)
    console.traceback(error)
    return status


_CUT: dict[panto.StopReason, str] = {
    panto.StopReason.LENGTH: "the answer was cut at the limit of its length; max_tokens in the config file raises it",
    panto.StopReason.CONTENT_FILTER: "the answer was cut by the provider's content filter",
    panto.StopReason.REFUSAL: "the model refused to answer",
    panto.StopReason.LIMIT: "the run was ended by a limit",
    panto.StopReason.AWAITING: "the run waits for a decision that this command cannot take",
    panto.StopReason.ABORTED: "the run was stopped",
}


def _verdict(renderer: TextRenderer | JSONRenderer, console: Console, question: Question) -> Exit:
    reason = renderer.stop_reason
    if reason is not None and reason in _CUT:
        console.note(_CUT[reason] + (f": {renderer.detail}" if renderer.detail else ""))
        return Exit.INCOMPLETE
    if not question.json and not console.wrote:
        console.error("the model gave no text for an answer")
        return Exit.INCOMPLETE
    return Exit.OK
