"""A stage for whole runs: an agent of either colour before a scripted provider, in process or over loopback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import panto
from panto.testing import ScriptedProvider

from .faces import Face, Ran, Said

QUICK = panto.RetryConfig(initial_delay=0.0, max_delay=0.0)
"""Retries without a wait, for scripts that are served over real sockets."""


class Stage:
    """Makes agents before scripts, and closes what it opened."""

    def __init__(self, face: Face, way: str) -> None:
        self.face = face
        self.way = way
        self._servers: list[Any] = []

    def agent(
        self,
        script: Sequence[Any],
        *tools: panto.Tool,
        style: str = "openai_chat",
        session: panto.Session | None = None,
        conversation: panto.Conversation | None = None,
        hooks: panto.Hooks | None = None,
        provider: dict[str, Any] | None = None,
        **config: Any,
    ) -> tuple[Any, ScriptedProvider]:
        """An agent, and the provider that it talks to."""
        scripted = ScriptedProvider(script)
        more: dict[str, Any] = {}
        if self.way == "loopback":
            server = scripted.serve()
            server.__enter__()
            self._servers.append(server)
            chosen = server.config(style, **(provider or {}))
        else:
            chosen = scripted.config(style, **(provider or {}))
            more["transport"] = scripted
        config.setdefault("retry", QUICK)
        if hooks is not None:
            more["hooks"] = hooks
        agent = self.face.agent(panto.Config(provider=chosen, **config), session, conversation, **more)
        for tool in tools:
            agent.register_tool(tool)
        return agent, scripted

    def run(self, agent: Any, said: Said = "go", stop: Callable[[panto.Event], bool] | None = None) -> Ran:
        """One run."""
        return self.face.run(agent, said, stop)

    def tool(self, name: str, function: Callable[..., Any], **more: Any) -> panto.Tool:
        """A tool that takes anything; its function is `async` in the async colour."""
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        return panto.Tool(name, f"does {name}", schema, self.face.tool(function), **more)

    def end(self) -> None:
        """Close the servers."""
        for server in self._servers:
            server.__exit__(None, None, None)


def texts(ran: Ran) -> str:
    """The text deltas of a run, joined."""
    kind = panto.ContentBlockType.TEXT
    return "".join(event.text for event in ran.of(panto.ContentDelta) if event.type is kind)


def results(conversation: panto.Conversation) -> list[panto.ToolResultBlock]:
    """All tool results of a history, in order."""
    blocks = [block for message in conversation.messages for block in message.content]
    return [block for block in blocks if isinstance(block, panto.ToolResultBlock)]
