"""Both colours from one body: a face drives `Agent` or `AsyncAgent` with the same calls.

The `face` fixture (in conftest.py) gives a test each of them in turn; what a test says is then said of both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

from panto import Agent, AsyncAgent, Config, Conversation, Event, MemoryStore, PantoError, Session, UserMessage


class Ran:
    """What one run showed: its events, and what it raised."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.error: BaseException | None = None

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def last(self) -> Any:
        """The last event."""
        return self.events[-1]


Said = str | UserMessage | None


class Face(Protocol):
    """One colour."""

    name: str

    def agent(
        self, config: Config, session: Session | None = None, conversation: Conversation | None = None, **more: Any
    ) -> Any: ...

    def run(self, agent: Any, said: Said, stop: Callable[[Event], bool] | None = None) -> Ran:
        """One run; `stop(event)` says when to break out of it, which closes the stream."""
        ...

    def call(self, value: Any) -> Any:
        """What a method returned, awaited where it must be."""
        ...

    def tool(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as this colour's users write it: plain, or `async`."""
        ...

    def end(self) -> None: ...


class SyncFace:
    """`Agent` and `Stream`."""

    name = "sync"

    def __init__(self) -> None:
        self.agents: list[Agent] = []

    def agent(
        self, config: Config, session: Session | None = None, conversation: Conversation | None = None, **more: Any
    ) -> Agent:
        made = Agent(config, session or MemoryStore().create(), conversation, **more)
        self.agents.append(made)
        return made

    def run(self, agent: Agent, said: Said, stop: Callable[[Event], bool] | None = None) -> Ran:
        ran = Ran()
        try:
            with agent.run(said) as stream:
                for event in stream:
                    ran.events.append(event)
                    if stop is not None and stop(event):
                        break
        except PantoError as error:
            ran.error = error
        return ran

    def call(self, value: Any) -> Any:
        return value

    def tool(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def end(self) -> None:
        for agent in self.agents:
            agent.close()


class AsyncFace:
    """`AsyncAgent` and `AsyncStream`, on one event loop for the whole test."""

    name = "async"

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.agents: list[AsyncAgent] = []

    def agent(
        self, config: Config, session: Session | None = None, conversation: Conversation | None = None, **more: Any
    ) -> AsyncAgent:
        made = AsyncAgent(config, session or MemoryStore().create(), conversation, **more)
        self.agents.append(made)
        return self.call(made.__aenter__())  # type: ignore[no-any-return]

    def run(self, agent: AsyncAgent, said: Said, stop: Callable[[Event], bool] | None = None) -> Ran:
        async def body() -> Ran:
            ran = Ran()
            try:
                async with agent.run(said) as stream:
                    async for event in stream:
                        ran.events.append(event)
                        if stop is not None and stop(event):
                            break
            except PantoError as error:
                ran.error = error
            return ran

        return self.runner.run(body())

    def call(self, value: Any) -> Any:
        if isinstance(value, Coroutine):
            return self.runner.run(value)
        return value

    def tool(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def later(*args: Any, **named: Any) -> Any:
            await asyncio.sleep(0)
            return function(*args, **named)

        later.__name__, later.__doc__ = function.__name__, function.__doc__
        later.__wrapped__ = function  # type: ignore[attr-defined]
        return later

    def end(self) -> None:
        async def close(agents: Iterable[AsyncAgent]) -> None:
            for agent in agents:
                await agent.close()

        self.runner.run(close(self.agents))
        self.runner.close()


FACES: dict[str, Callable[[], Face]] = {"sync": SyncFace, "async": AsyncFace}
