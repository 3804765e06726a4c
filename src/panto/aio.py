"""The async face: `AsyncAgent` and `AsyncStream`, for asyncio. Same names, awaitable where I/O may happen.

Law: nothing is decided here. The engine has the state, the core the loop, the driver the waiting.
"""

from __future__ import annotations

import asyncio
import inspect
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ._core import loop
from ._core.effects import Effect, Plan, resume
from ._core.state import StateCell
from ._drive import aio, http
from ._drive.clock import clock_of
from ._drive.face import Face
from ._drive.lifecycle import Lifecycle, being_read
from .config import Config
from .conversation import Conversation, SystemMode, UserMessage
from .errors import StateError
from .events import Event
from .session import Session
from .tools import Hooks

if TYPE_CHECKING:
    from typing import Self

__all__ = ["AsyncAgent", "AsyncStream"]

T = TypeVar("T")


class AsyncStream(Lifecycle):
    """The events of one run, pulled: nothing happens but while the next event is awaited. See `Stream`.

    Cancelling the task that awaits it closes the run as `close` does, and then goes on.
    """

    _driver: aio.Driver
    _reader: asyncio.Task[object] | None = None
    _ended: asyncio.Event | None = None

    async def next(self) -> Event | None:
        """The next event; `None` when there are no more. Raises `StateError` while another task waits for it."""
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            return None

    def __aiter__(self) -> Self:
        self._check_unread()
        return self

    async def __anext__(self) -> Event:
        plan = self._plan
        if plan is None:
            raise StopAsyncIteration
        if self._reader is not None:
            raise being_read()
        if not self._begun:
            self._begin()
        try:
            step = plan.send(None)
            return await self._wait(plan, step) if isinstance(step, Effect) else step
        except StopIteration:
            self._over()
            raise StopAsyncIteration from None
        except BaseException as error:
            await self._fail(plan, error)
            raise

    async def _wait(self, plan: Plan[None], step: Effect[object] | Event) -> Event:
        """Perform effects until there is an event."""
        self._reader = reader = asyncio.current_task()
        try:
            while isinstance(step, Effect):
                reply = await aio.answer(plan, self._driver, step)
                try:
                    step = resume(plan, reply)
                except StopIteration:
                    self._over()
                    raise StopAsyncIteration from None
            return step
        except asyncio.CancelledError:
            # Another task closed the stream: for its reader that is the end, unless it was cancelled as well.
            if self._ended is None or reader is None or reader.uncancel() > 0:
                raise
            self._over()
            raise StopAsyncIteration from None
        finally:
            self._reader = None
            if self._ended is not None:
                self._ended.set()

    async def _fail(self, plan: Plan[None], error: BaseException) -> None:
        """The plan ended with an exception, or an interrupt came in our own code: leave all in order."""
        self._over()
        if not isinstance(error, (Exception, GeneratorExit)):
            if inspect.getgeneratorstate(plan) != inspect.GEN_CLOSED:
                await aio.close_quietly(plan, self._driver)
            elif self._engine.behind:
                await aio.drive(loop.settle(self._engine), self._driver)
        self._driver.abort()

    async def close(self) -> None:
        """End the run now: close the connection, stop the tools, keep what was shown. Closing twice is fine.

        From another task it ends the wait of the one that reads, for which the stream is then over.
        """
        reader = self._reader
        if reader is not None and reader is not asyncio.current_task():
            self._ended = asyncio.Event()
            reader.cancel()
            await self._ended.wait()
            return
        plan, self._plan = self._plan, None
        try:
            if plan is not None and self._begun:
                await aio.close_shielded(plan, self._driver)
        finally:
            self._over()

    async def __aenter__(self) -> Self:
        self._check_unread()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()


class AsyncAgent(Face):
    """Runs an agent loop over one session, under asyncio. See `Agent` for the arguments and what is raised.

    The session is loaded by `async with` or the first awaited call; asking for `conversation` before is a
    `StateError`. `transport` takes an `AsyncTransport` or an `httpx2.AsyncClient`. An agent belongs to one event loop.
    """

    def __init__(
        self,
        config: Config,
        session: Session,
        conversation: Conversation | None = None,
        *,
        hooks: Hooks = Hooks(),
        transport: http.AsyncTransport | object | None = None,
    ) -> None:
        super().__init__(config, session, conversation, hooks)
        self._own = None if transport is None else http.as_async_transport(transport)
        self._clock = clock_of(self._own)
        self._held: http.AsyncTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- runs

    def run(self, message: str | UserMessage | None) -> AsyncStream:
        """A stream of one run; see `Agent.run`. Not awaited: nothing happens before the first event is."""
        self._guard.check("run")
        said = self._engine.said(message)
        cell = StateCell()
        plan = self._engine.watched(loop.run(self._engine, said, cell), "run", said=said)
        return AsyncStream(self, self._engine, self._guard, plan, cell, self._driver())

    # ---- the conversation

    async def add_system_message(self, text: str) -> None:
        """Append a part to the system prompt, and store that."""
        await self._add_system("add_system_message", text, SystemMode.APPEND)

    async def set_system_prompt(self, text: str) -> None:
        """Replace the system prompt, and store that."""
        await self._add_system("set_system_prompt", text, SystemMode.REPLACE)

    # ---- the end

    async def close(self) -> None:
        """Close the open stream, if any, and what the agent holds."""
        if self._guard.closed:
            return
        try:
            if isinstance(stream := self._guard.stream, AsyncStream):
                await stream.close()
            if self._engine.behind:
                await aio.drive(loop.settle(self._engine), self._driver())
        finally:
            self._guard.closed = True
            held, self._held = self._held, None
            if held is not None:
                await http.release_async(held)

    async def __aenter__(self) -> Self:
        if self._guard.closed:
            raise StateError("the agent is closed; make a new one with the same session")
        await aio.drive(self._engine.load(), self._driver())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    def _transport(self) -> http.AsyncTransport:
        if self._own is not None:
            return self._own
        if self._held is None or self._loop is not asyncio.get_running_loop():
            # An agent that goes on in another event loop needs that one's connections; those of an ended loop are gone.
            self._held, self._loop = http.acquire_async(), asyncio.get_running_loop()
        return self._held

    def _driver(self) -> aio.Driver:
        return aio.Driver(self._transport, self._clock)

    async def _add_system(self, what: str, text: str, mode: SystemMode) -> None:
        plan = self._engine.add_system(text, mode)
        await self._call(what, self._engine.watched(plan, "add_system", text=text, mode=mode))

    async def _call(self, what: str, plan: Plan[T]) -> T:
        self._guard.begin_call(what)
        try:
            return await aio.drive(plan, self._driver())
        finally:
            self._guard.end_call()
