"""What both agents share: the conversation, its tools and its session, and every operation on them as a plan.

Law: nothing here waits. Whatever an agent does is a plan that a driver performs; the two faces differ in how they
wait and in nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from panto._secret import Secret
from panto._wire.names import NameTable
from panto.config import AnthropicMessagesConfig, Config, OpenAIChatConfig, ProviderConfig, StopReason
from panto.conversation import (
    Conversation,
    MediaBlock,
    Message,
    MessageRole,
    SystemMode,
    UserMessage,
    system_message,
    user_message,
)
from panto.errors import ConfigError, SessionError, SessionNotFound, StateError, ToolNameError
from panto.session import PersistentMessage, Session, SessionStore
from panto.tools import Hooks, Tool, ToolCallResult, ToolDecl, ToolSource, normal_schema, normal_tool
from panto.usage import ContextUsage

from .context import context_usage
from .dispatch import Batch, Dispatcher
from .effects import Append, CallUser, NewId, Plan, do
from .turn import Call, Live
from .view import View

if TYPE_CHECKING:
    from panto._wire.protocol import HTTPRequest, Wire

logger = logging.getLogger("panto")

T = TypeVar("T")


CHOICES = ("auto", "none", "required")
"""What `tool_choice` may be beside the name of a tool."""


class Offer:
    """The tools of one provider call: declarations in a stable order, and who answers to each name."""

    def __init__(self, decls: Sequence[ToolDecl], runners: Mapping[str, Tool | ToolSource]) -> None:
        self.decls: tuple[ToolDecl, ...] = tuple(decls)
        self.runners: Mapping[str, Tool | ToolSource] = runners
        self.names: NameTable = NameTable([("", decl.name) for decl in self.decls])


class Watch(Protocol):
    """What a recorder makes of every plan of an agent: one that does the same."""

    def __call__(self, plan: Plan[T], what: str, given: Mapping[str, object], /) -> Plan[T]: ...


class Engine:
    """The state behind an agent.

    call: the provider call that is under way. batch: the tool calls that wait for their results.
    behind: whether a run ended without a chance to store what it left.
    watch: a recorder's, while there is one.
    prepare_message, prepare_result: make images fit for the history, given the longest side; the face sets them.
    """

    prepare_message: Callable[[Message, int], None] | None = None
    prepare_result: Callable[[ToolCallResult, int], ToolCallResult] | None = None

    def __init__(self, config: Config, session: Session, conversation: Conversation | None, hooks: Hooks) -> None:
        if not isinstance(config, Config):
            raise ConfigError(f"config is a panto.Config, not {type(config).__name__}")
        given: object = session
        if given is None:
            raise ConfigError("session is None: the store had none to go on with, so take a new one by store.create()")
        if not isinstance(given, Session):
            raise ConfigError(
                f"session is a panto.Session, not {type(given).__name__}; take one from store.create(), resolve() "
                "or latest()"
            )
        if not isinstance(hooks, Hooks):
            raise ConfigError(f"hooks is a panto.Hooks, not {type(hooks).__name__}")
        self.config: Config = config
        self.session: Session = session
        self.hooks: Hooks = hooks
        self.given: Conversation | None = conversation
        self.loaded: Conversation | None = None
        self.tools: dict[str, Tool | ToolSource] = {}
        self._pending: list[PersistentMessage] = []
        self._unoffered: list[tuple[Message, Sequence[ToolDecl]]] = []
        self.batch: Batch | None = None
        self.call: Call | None = None
        self.behind: bool = False
        self._batch_offer: Sequence[ToolDecl] = ()
        self._offer: Offer | None = None
        self.watch: Watch | None = None
        self._wire: tuple[ProviderConfig, Offer, Wire, View] | None = None

    def watched(self, plan: Plan[T], what: str, **given: object) -> Plan[T]:
        """A plan that an agent is about to perform, as a recorder wants it; `what` and `given` tell how to make it."""
        return plan if self.watch is None else self.watch(plan, what, given)

    def set_config(self, config: Config) -> None:
        """Use another config from now on."""
        if not isinstance(config, Config):
            raise ConfigError(f"config is a panto.Config, not {type(config).__name__}")
        self.config = config

    # ---- the conversation and its session

    def load(self) -> Plan[None]:
        """Take over what the session holds; a given conversation must begin with it. Once."""
        if self.loaded is not None:
            return
        store = self.session.store
        held: object = yield from do(CallUser(store.load, (self.session.info.id,), blocking=not in_memory(store)))
        if held is None:
            if self.session.info.message_count:
                raise SessionNotFound(f"session {self.session.info.id} is gone from its store; start a new one")
            held = Conversation()
        if not isinstance(held, Conversation):
            raise SessionError(f"the store loaded a {type(held).__name__}, not a Conversation")
        given = self.given
        if given is not None:
            if given.messages[: len(held.messages)] != held.messages:
                raise SessionError(
                    f"the given conversation does not begin with the {len(held.messages)} messages that session "
                    f"{self.session.info.id} holds; give none to load them, or take a new session"
                )
            self._unoffered = [(message, ()) for message in given.messages[len(held.messages) :]]
            held = given
        self.loaded = held

    @property
    def conversation(self) -> Conversation:
        """The live conversation."""
        if self.loaded is None:
            raise StateError(
                "the conversation is loaded by `async with agent:` or the first awaited call; ask for it after that"
            )
        return self.loaded

    def join(self, message: Message, offer: Sequence[ToolDecl] = ()) -> None:
        """Let a message join the conversation. Its calls, if any, wait in `batch` for their results."""
        if blocks := message.tool_calls:
            self.batch = Batch(blocks)
            self._batch_offer = offer
        self.conversation.messages.append(message)
        self._unoffered.append((message, offer))

    def prepare(self, said: Message) -> Plan[None]:
        """Make the images of a message fit, before it joins."""
        if self.prepare_message is not None and any(isinstance(block, MediaBlock) for block in said.content):
            yield from do(CallUser(self.prepare_message, (said, self.config.max_image_side), blocking=True))

    def close_batch(self) -> None:
        """Let the results of the waiting calls join; a call that has none was interrupted. No call is ever left."""
        if self.batch is not None:
            self.join(Message(MessageRole.USER, list(self.batch.stored())), self._batch_offer)
            self.batch = None

    def interrupt(self) -> None:
        """Leave a valid history at once, wherever the run stands: keep what was shown, give every call a result."""
        call, self.call = self.call, None
        if call is not None and (shown := call.live.partial()):
            kept = Message(MessageRole.ASSISTANT, shown, identity=call.identity, stop_reason=StopReason.ABORTED)
            self.join(kept, self._offer.decls if self._offer is not None else ())
        self.close_batch()
        self.behind = True
        self._wire = None  # whatever was interrupted may have been building a request

    def flush(self) -> Plan[None]:
        """Offer the store whatever it does not have yet.

        Raises `StoreError`; the messages are in the conversation then, and are offered again with the next.
        """
        while self._unoffered:
            message, offer = self._unoffered[0]
            if self._pending and self._pending[-1].message is message:
                del self._unoffered[0]  # an interrupt came between the two lines below
                continue
            if message.id is None:
                message.id = yield from do(NewId())
            try:
                if self.hooks.before_append is not None:
                    yield from do(CallUser(self.hooks.before_append, (message, self.conversation)))
                    _check_metadata(message)
            finally:
                self._pending.append(self._record(message, offer))
                del self._unoffered[0]
        if self._pending:
            records = tuple(self._pending)
            yield from do(Append(self.session, records))
            del self._pending[: len(records)]
        self.behind = False

    def _record(self, message: Message, offer: Sequence[ToolDecl]) -> PersistentMessage:
        identity = message.identity
        if identity is None and message.role is not MessageRole.SYSTEM:
            identity = self.config.provider.wire_identity()
        return PersistentMessage(message, message.usage, identity, self.conversation, offer)

    def add_system(self, text: str, mode: SystemMode) -> Plan[None]:
        """Change the system prompt, and store that."""
        yield from self.load()
        self.join(system_message(text, mode))
        self.behind = True
        yield from self.flush()

    def said(self, message: str | UserMessage | None) -> Message | None:
        """The message that a run begins with; refused before anything is sent when there is nothing in it."""
        if message is None:
            return None
        if isinstance(message, str):
            message = UserMessage(message)
        if not isinstance(message, UserMessage):
            raise ConfigError(f"run takes a str, a UserMessage or None, not {type(message).__name__}")
        if not message.text.strip() and not message.media:
            raise ConfigError(
                "the message is blank: give text or media, or None to go on from where the history stands"
            )
        return user_message(message)

    def context_usage(self) -> ContextUsage:
        """See `Agent.context_usage`."""
        offered = [runner.decl for runner in self.tools.values() if isinstance(runner, Tool)]
        tools = self._offer.decls if self._offer is not None else offered
        return context_usage(self.conversation.messages, self.config.provider, tools)

    # ---- tools

    def register(self, tool: Tool) -> None:
        """Take a tool; its schema is made what providers accept."""
        if not isinstance(tool, Tool):
            raise ConfigError(f"register_tool takes a panto.Tool, not {type(tool).__name__}; see Tool.from_function")
        tool = normal_tool(tool)
        if tool.name in self.tools:
            raise ToolNameError(f"there is a tool {tool.name!r} already; unregister it first, or choose another name")
        self.tools[tool.name] = tool
        self._offer = None

    def register_source(self, source: ToolSource) -> None:
        """Take a source; what it offers is asked at the start of each run."""
        if not isinstance(source, ToolSource):
            raise ConfigError("a tool source has the methods decls() and call(calls)")
        self.tools[f"source {id(source)}"] = source
        self._offer = None

    def unregister(self, name: str) -> None:
        """Forget a tool."""
        if not isinstance(self.tools.get(name), Tool):
            raise ConfigError(f"there is no tool {name!r} to unregister")
        del self.tools[name]
        self._offer = None

    def offer(self) -> Plan[Offer]:
        """What the model is offered now. The same offer as before when nothing changed, so that its bytes stay."""
        sources = [runner for runner in self.tools.values() if not isinstance(runner, Tool)]
        if self._offer is not None and not sources:
            return self._offer
        decls: list[ToolDecl] = []
        runners: dict[str, Tool | ToolSource] = {}
        for runner in self.tools.values():
            if isinstance(runner, Tool):
                offered: Sequence[ToolDecl] = [runner.decl]
            else:
                try:
                    told: object = yield from do(CallUser(runner.decls, blocking=True))
                except Exception as error:  # one source that is down takes no other tool with it
                    logger.warning(
                        "the tools of %s are left out of this run: %s: %s",
                        type(runner).__name__,
                        type(error).__name__,
                        error,
                    )
                    continue
                offered = _decls(told, runner)
            for decl in offered:
                schema = normal_schema(decl.schema)
                if schema is None:
                    logger.warning(
                        "tool %r of %s is left out: its schema is not that of an object",
                        decl.name,
                        type(runner).__name__,
                    )
                    continue
                if decl.name in runners:
                    raise ToolNameError(f"two tools are named {decl.name!r}; give their sources different prefixes")
                decls.append(ToolDecl(decl.name, decl.description, schema))
                runners[decl.name] = runner
        if self._offer is not None and self._offer.decls == tuple(decls):
            self._offer.runners = runners  # the same words, and perhaps another who answers to them
            return self._offer
        self._offer = Offer(decls, runners)
        return self._offer

    def dispatcher(self, offer: Offer) -> Dispatcher:
        """What running this offer's calls needs."""
        side, prepare = self.config.max_image_side, self.prepare_result
        return Dispatcher(offer.runners, self.hooks, self.config.limits, side, prepare)

    # ---- the provider

    def provider_call(self, offer: Offer, *, first: bool) -> Call:
        """The call that the conversation makes now."""
        provider = self.config.provider
        wanted = provider.tool_choice
        if wanted is not None and wanted not in (*CHOICES, *offer.runners):
            raise ConfigError(f"tool_choice is {', '.join(CHOICES)} or the name of a tool; no tool is named {wanted!r}")
        if self._wire is None or self._wire[0] is not provider or self._wire[1] is not offer:
            made = wire_for(provider, offer.names)
            self._wire = (provider, offer, made, View(made.target))
        _, _, wire, view = self._wire

        def request() -> Plan[HTTPRequest]:
            key = yield from _key(provider)
            viewed = view.update(self.conversation.messages)
            return wire.request(viewed.system, offer.decls, viewed.items, first=first, key=key)

        return Call(wire, provider.wire_identity(), request, provider.timeouts, self.config.retry, Live())


def _key(provider: ProviderConfig) -> Plan[Secret | None]:
    """The key, asked for anew where it is a callable."""
    key = provider.api_key
    if key is None or isinstance(key, Secret):
        return key
    assert callable(key)
    told: object = yield from do(CallUser(key, secret=True, blocking=True))
    return told if isinstance(told, Secret) else None


def _check_metadata(message: Message) -> None:
    """A bag that is no text could never be stored; it is taken off, and the hook told."""
    metadata: object = message.metadata
    if metadata is not None and not isinstance(metadata, str):
        message.metadata = None
        raise ConfigError(f"before_append set metadata to a {type(metadata).__name__}; it is a str (of JSON) or None")


def in_memory(store: SessionStore) -> bool:
    """Whether a store says of itself, by an attribute `in_memory`, that it never waits."""
    return bool(getattr(store, "in_memory", False))


def wire_for(provider: ProviderConfig, names: NameTable) -> Wire:
    """The wire that a config names, imported when it is first spoken."""
    match provider:
        case OpenAIChatConfig():
            from panto._wire.openai_chat import ChatWire

            return ChatWire(provider, names)
        case AnthropicMessagesConfig():
            from panto._wire.anthropic_messages import MessagesWire

            return MessagesWire(provider, names)


def _decls(told: object, source: object) -> list[ToolDecl]:
    if isinstance(told, (list, tuple)) and all(isinstance(decl, ToolDecl) for decl in told):
        return list(told)
    raise ConfigError(f"{type(source).__name__}.decls() must return a list of ToolDecl")
