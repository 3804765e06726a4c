"""The sync face: `Agent` and `Stream`.

Law: nothing is decided here. The engine has the state, the core the loop, the driver the waiting.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ._core import loop
from ._core.effects import Effect, Plan, resume
from ._core.engine import Engine
from ._core.state import StateCell
from ._drive import http, sync
from ._drive.clock import clock_of
from ._drive.face import Face
from ._drive.lifecycle import Guard, Lifecycle, being_read
from ._drive.portal import Portal
from .config import Config
from .conversation import Conversation, SystemMode, UserMessage
from .errors import StateError
from .events import Event
from .session import Session
from .tools import Hooks

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Agent", "Stream"]

T = TypeVar("T")


class Stream(Lifecycle):
    """The events of one run, pulled: nothing happens but while the next event is asked for.

    Iterate it, or call `next`. As a context manager it is closed at the end of the block, also after a `break`:
    closing drives the run to a valid, stored history. Read once.

    An exception is a failure (`ProviderError`, `StoreError`, or what the caller's own hooks raised); the agent can be
    used again after it.
    """

    _driver: sync.Driver
    _reader: int | None = None  # the thread that waits for an effect

    def __init__(
        self, agent: Agent, engine: Engine, guard: Guard, plan: Plan[None], cell: StateCell, driver: sync.Driver
    ) -> None:
        super().__init__(agent, engine, guard, plan, cell, driver)
        self._driving = threading.RLock()  # held by the thread that moves the plan
        self._portal = agent._portal

    def next(self) -> Event | None:
        """The next event; `None` when there are no more.

        Raises `StateError` when another stream of the agent is open, or another thread waits for the event.
        """
        if not self._driving.acquire(blocking=False):
            raise being_read()
        try:
            plan = self._plan
            if plan is None:
                return None
            if self._reader is not None:
                raise being_read()
            if not self._begun:
                self._begin()
            return self._advance(plan)
        finally:
            self._driving.release()

    def _advance(self, plan: Plan[None]) -> Event | None:
        try:
            step = plan.send(None)
            if isinstance(step, Effect):
                self._reader = threading.get_ident()
                while isinstance(step, Effect):
                    step = resume(plan, sync.answer(plan, self._driver, step))
            return step
        except (StopIteration, sync.Closed):
            self._over()
            return None
        except BaseException as error:
            self._fail(plan, error)
            raise
        finally:
            self._reader = None

    def _fail(self, plan: Plan[None], error: BaseException) -> None:
        """The plan ended with an exception, or an interrupt came in our own code: leave all in order."""
        self._over()
        if not isinstance(error, Exception):
            if inspect.getgeneratorstate(plan) != inspect.GEN_CLOSED:
                sync.close_quietly(plan, self._driver)
            elif self._engine.behind:
                sync.drive(loop.settle(self._engine), self._driver)
        self._driver.abort()

    def __iter__(self) -> Self:
        self._check_unread()
        return self

    def __next__(self) -> Event:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """End the run now: close the connection, stop the tools, keep what was shown. Closing twice is fine.

        From another thread it ends the wait of the one that reads, whose `next` then gives `None`; a connection that
        is just being made is waited for.
        """
        if self._reader == threading.get_ident() or (self._reader is not None and self._portal.here):
            self._driver.interrupt()
            return  # called from within the run, by a hook: the reader closes it when that returns
        wait = 0.0
        while not self._driving.acquire(timeout=wait):
            self._driver.interrupt()  # again, should the reader have been between two effects
            wait = 0.1
        try:
            self._close()
        finally:
            self._driving.release()

    def _close(self) -> None:
        try:
            plan, self._plan = self._plan, None
            if plan is not None and self._begun:
                sync.close(plan, self._driver)
        finally:
            self._over()

    def __enter__(self) -> Self:
        self._check_unread()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class Agent(Face):
    """Runs an agent loop over one session, without any event loop.

    Args:
        config: Provider, retries, limits. `set_config` swaps it between turns.
        session: From `store.create()`, `resolve()` or `latest()`; of a sync or an async store.
        conversation: A history to go on from; it must begin with what the session holds. `None` loads that.
        hooks: The caller's own code at fixed places of a run.
        transport: A `Transport` or an `httpx2.Client` to reach the provider through; `None` uses the process's own.

    Raises:
        ConfigError: What was given cannot work.
        SessionError: The conversation does not begin with what the session holds, or its record is gone.
        StoreError: The session could not be loaded.

    An agent starts with no tools. One stream is open at a time; other threads use agents of their own.
    """

    def __init__(
        self,
        config: Config,
        session: Session,
        conversation: Conversation | None = None,
        *,
        hooks: Hooks = Hooks(),
        transport: http.Transport | object | None = None,
    ) -> None:
        super().__init__(config, session, conversation, hooks)
        self._portal = Portal()
        own = None if transport is None else http.as_transport(transport)
        self._transport = (lambda: own) if own is not None else http.sync_transport
        self._clock = clock_of(own)
        weakref.finalize(self, self._portal.close)
        sync.drive(self._engine.load(), self._driver())

    # ---- runs

    def run(self, message: str | UserMessage | None) -> Stream:
        """A stream of one run: `message` is said, and the model answers until it needs no more tools.

        `None` goes on from where the history stands. Nothing happens before the first event is asked for.

        Raises `ConfigError` for a blank message without media, `StateError` while another stream is open.
        """
        self._guard.check("run")
        said = self._engine.said(message)
        cell = StateCell()
        plan = self._engine.watched(loop.run(self._engine, said, cell), "run", said=said)
        return Stream(self, self._engine, self._guard, plan, cell, self._driver())

    # ---- the conversation

    def add_system_message(self, text: str) -> None:
        """Append a part to the system prompt, and store that."""
        self._add_system("add_system_message", text, SystemMode.APPEND)

    def set_system_prompt(self, text: str) -> None:
        """Replace the system prompt, and store that."""
        self._add_system("set_system_prompt", text, SystemMode.REPLACE)

    # ---- the end

    def close(self) -> None:
        """Close the open stream, if any, and what the agent holds. The session can be gone on with by another agent."""
        if self._guard.closed:
            return
        try:
            if isinstance(stream := self._guard.stream, Stream):
                stream.close()
            if self._engine.behind:
                sync.drive(loop.settle(self._engine), self._driver())
        finally:
            self._guard.closed = True
            self._portal.close()

    def __enter__(self) -> Self:
        if self._guard.closed:
            raise StateError("the agent is closed; make a new one with the same session")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _driver(self) -> sync.Driver:
        return sync.Driver(self._transport, self._portal, self._clock)

    def _add_system(self, what: str, text: str, mode: SystemMode) -> None:
        plan = self._engine.add_system(text, mode)
        self._call(what, self._engine.watched(plan, "add_system", text=text, mode=mode))

    def _call(self, what: str, plan: Plan[T]) -> T:
        self._guard.begin_call(what)
        try:
            return sync.drive(plan, self._driver())
        finally:
            self._guard.end_call()
