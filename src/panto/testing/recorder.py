"""Write a run down, and run it again without the world.

Law: a journal replays exactly, since the loop knows the world through its effects only; and no key is in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from panto._drive.replay import Replay, ReplayMismatch, Writer
from panto.agent import Agent
from panto.aio import AsyncAgent
from panto.conversation import Conversation
from panto.errors import ConfigError, StateError
from panto.events import Event

__all__ = ["Journal", "ReplayMismatch", "Replayed", "record", "replay"]

VERSION = 1


class Journal:
    """What an agent asked of the world and what it got; filled while `record` goes on.

    lines: one JSON object each. Their shapes belong to panto and may change with its version.
    """

    def __init__(self, lines: Sequence[Mapping[str, object]] = ()) -> None:
        self.lines: list[dict[str, object]] = [dict(line) for line in lines]

    def dumps(self) -> str:
        """The journal as JSON lines."""
        # ASCII, because what a tool says may hold what is no valid Unicode.
        return "".join(json.dumps(line) + "\n" for line in [{"panto_journal": VERSION}, *self.lines])

    @classmethod
    def loads(cls, text: str) -> Journal:
        """The journal in these JSON lines. Raises `ConfigError` for one that this version cannot read."""
        try:
            head, *lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise ConfigError(f"this is no journal of panto's: {error}") from None
        if not isinstance(head, dict) or cast("dict[str, object]", head).get("panto_journal") != VERSION:
            raise ConfigError(f"this is no journal that this version of panto reads (version {VERSION})")
        return cls(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the journal to a file."""
        Path(path).write_text(self.dumps(), encoding="ascii")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Journal:
        """Read a journal from a file."""
        return cls.loads(Path(path).read_text(encoding="utf-8"))

    def __repr__(self) -> str:
        runs = sum("begin" in line for line in self.lines)
        return f"<Journal: {runs} runs, {len(self.lines)} lines>"


@contextmanager
def record(agent: Agent | AsyncAgent) -> Iterator[Journal]:
    """Write down whatever `agent` does in the block: runs and changes of its system prompt.

    The journal holds requests without headers, answers, results of tools, ids, times and chance; it holds no key.
    An `AsyncAgent` is entered before. Its replay needs an agent in the state that this one has now.

    Raises `StateError` when the agent is being recorded already.

    >>> import panto
    >>> from panto.testing import ScriptedProvider
    >>> provider = ScriptedProvider(["Hello"])
    >>> config = panto.Config(provider=provider.config())
    >>> agent = panto.Agent(config, panto.MemoryStore().create(), transport=provider)
    >>> with record(agent) as journal:
    ...     events = list(agent.run("Hi"))
    >>> replay(journal, panto.Agent(config, panto.MemoryStore().create())).events == events
    True
    """
    engine = agent._engine
    if engine.watch is not None:
        raise StateError("this agent is being recorded already")
    journal, writer = Journal(), Writer()
    writer.lines = journal.lines
    engine.watch = writer
    try:
        yield journal
    finally:
        engine.watch = None
        writer.settle()


class Replayed:
    """What a replay brought.

    Attributes:
        runs: The events of each recorded run, and of each change of the system prompt, which has none.
        errors: For each of them the exception that ended it, or `None`.
        conversation: The conversation at the end.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.runs: list[list[Event]] = []
        self.errors: list[Exception | None] = []
        self.conversation = conversation

    @property
    def events(self) -> list[Event]:
        """The events of all runs."""
        return [event for run in self.runs for event in run]

    @property
    def error(self) -> Exception | None:
        """The exception that ended the last run."""
        return self.errors[-1] if self.errors else None


def replay(journal: Journal, agent: Agent | AsyncAgent) -> Replayed:
    """Run again what was recorded, on an agent as the recorded one was at first: its config, its tools, its hooks.

    Nothing is asked of the world: no request is sent, no tool and no hook is run, nothing is stored, nobody waits.
    It is the same for both colours, and a journal of either can be replayed with either; nothing is awaited.

    Events that nobody saw in the recorded run, because it was closed before, are left out here too.

    Raises `ReplayMismatch`, an `AssertionError` that names the first difference, when the code, the config or the
    tools ask something else than what was recorded.
    """
    agent._guard.check("replay")
    engine = agent._engine
    player = Replay(journal.lines)
    runs: list[list[Event]] = []
    errors: list[Exception | None] = []
    while not player.over:
        events: list[Event] = []
        errors.append(player.run(engine, events))
        runs.append(events)
    done = Replayed(engine.conversation)
    done.runs, done.errors = runs, errors
    return done
