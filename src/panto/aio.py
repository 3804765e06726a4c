"""The async face: `AsyncAgent` and `AsyncStream`, for asyncio. Same names, awaitable where I/O may happen.

Law: nothing is decided here. The engine has the state, the core the loop, the driver the waiting.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ._core import loop
from ._core.effects import Effect, Plan, resume
from ._core.state import StateCell
from ._drive import aio, http
from ._drive.clock import clock_of
from ._drive.face import Face
from ._drive.lifecycle import Lifecycle
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

    async def next(self) -> Event | None:
        """The next event; `None` when there are no more."""
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
        try:
            if not self._begun:
                self._begin()
                await self._settle_orphan()
            step = plan.send(None)
            while isinstance(step, Effect):
                step = resume(plan, await aio.answer(plan, self._driver, step))
            return step
        except StopIteration:
            self._over()
            raise StopAsyncIteration from None
        except BaseException:
            self._over()
            self._driver.abort()
            raise

    async def close(self) -> None:
        """End the run now: close the connection, stop the tools, keep what was shown. Closing twice is fine."""
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

    async def _settle_orphan(self) -> None:
        if (orphan := self._guard.take_orphan()) is not None:
            await aio.close_shielded(orphan, self._driver)


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

    # ---- runs

    def run(self, message: str | UserMessage | None) -> AsyncStream:
        """A stream of one run; see `Agent.run`. Not awaited: nothing happens before the first event is."""
        self._guard.check("run")
        said = self._engine.said(message)
        cell = StateCell()
        plan = self._engine.watched(loop.run(self._engine, said, cell), "run", said=said)
        return AsyncStream(self._engine, self._guard, plan, cell, self._driver())

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
            if (orphan := self._guard.take_orphan()) is not None:
                await aio.close_shielded(orphan, self._driver())
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
        if self._held is None:
            self._held = http.acquire_async()
        return self._held

    def _driver(self) -> aio.Driver:
        return aio.Driver(self._transport, self._clock)

    async def _add_system(self, what: str, text: str, mode: SystemMode) -> None:
        plan = self._engine.add_system(text, mode)
        await self._call(what, self._engine.watched(plan, "add_system", text=text, mode=mode))

    async def _call(self, what: str, plan: Plan[T]) -> T:
        self._guard.begin_call(what)
        try:
            driver = self._driver()
            if (orphan := self._guard.take_orphan()) is not None:
                await aio.close_shielded(orphan, driver)
            return await aio.drive(plan, driver)
        finally:
            self._guard.end_call()
