"""What both agents have in common: all that never waits.

Law: a method that cannot wait is the same in both colours, and is written here, once.
"""

from __future__ import annotations

from panto import _images
from panto._core.engine import Engine
from panto._core.state import State
from panto.config import Config
from panto.conversation import Conversation
from panto.session import Session
from panto.tools import Hooks, Tool, ToolDecorator, ToolSource
from panto.usage import ContextUsage

from .lifecycle import Guard


class Face:
    """One agent as its user sees it, but for what may wait."""

    def __init__(self, config: Config, session: Session, conversation: Conversation | None, hooks: Hooks) -> None:
        self._engine: Engine = Engine(config, session, conversation, hooks)
        self._engine.prepare_message = _images.prepare_message
        self._engine.prepare_result = _images.prepare_result
        self._guard: Guard = Guard()

    def set_config(self, config: Config) -> None:
        """Use another config from the next run on; tools, conversation and session stay."""
        self._guard.check("set_config")
        self._engine.set_config(config)

    # ---- the conversation

    @property
    def conversation(self) -> Conversation:
        """The live conversation, for surgery between turns; that is in memory only.

        Raises `StateError` before an async agent has loaded it.
        """
        return self._engine.conversation

    def context_usage(self) -> ContextUsage:
        """How full the context window is now: the provider's last count, and an estimate of what came since."""
        return self._engine.context_usage()

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._engine.session.info.id

    @property
    def state(self) -> State:
        """The state of the open stream, or `State.IDLE`."""
        return stream.state if (stream := self._guard.stream) is not None else State.IDLE

    # ---- tools

    def register_tool(self, tool: Tool) -> None:
        """Offer a tool from the next run on.

        Raises `ToolNameError` for an empty name or one that is taken, `ConfigError` for an impossible schema.
        """
        self._guard.check("register_tool")
        self._engine.register(tool)

    def register_tool_source(self, source: ToolSource) -> None:
        """Offer what a source has to offer; it is asked at the start of each run."""
        self._guard.check("register_tool_source")
        self._engine.register_source(source)

    def unregister_tool(self, name: str) -> None:
        """Offer a tool no longer. Raises `ConfigError` when there is none of that name."""
        self._guard.check("unregister_tool")
        self._engine.unregister(name)

    @property
    def tool(self) -> ToolDecorator:
        """Make a function a tool: `@agent.tool`, or `@agent.tool(name=...)`. The function stays what it was."""
        return ToolDecorator(self.register_tool)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._engine.config.provider.model} in session {self.session_id}>"
