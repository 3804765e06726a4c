"""A provider that answers by a script: in process for both colours, or as a real server on loopback.

Law: each request takes the next step; what the script does not foresee, and what it foresees in vain, is an
`AssertionError` that names it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload
from urllib.parse import urlsplit

from panto._secret import split_url
from panto.config import AnthropicMessagesConfig, APIStyle, OpenAIChatConfig, ProviderConfig

from ._frames import PATHS, Reply, reply, wire_of
from ._in_process import AsyncInProcess, InProcess
from .clock import FakeClock
from .requests import RecordedRequest
from .script import Answer, Drop, Fail, Raw, Step, say
from .validate import validate_request

if TYPE_CHECKING:
    from typing import Self

    from .server import ScriptedServer

BASE = "http://scripted.test"
KEY = "sk-scripted"


class ScriptError(AssertionError):
    """What was asked of a `ScriptedProvider` is not in its script."""


class ScriptedProvider:
    """A provider that answers by a script.

    script: a step for each request; see `say`, `think`, `call`, `fail`, `overflow`, `drop`, `raw`. More can be added
        to it with `then`, also while it is used.
    clock: the clock that its delays move, and the one that an agent has which gets the provider as transport.
    strict: whether a request that the vendor's published rules would refuse is an error; see `validate_request`.

    In process, give it to either agent: `Agent(config, session, transport=provider)`. As a server:
    `with provider.serve() as server:`. As a context manager it asserts at the end that the whole script was used.

    It is safe over threads; requests are numbered in the order in which they come.

    >>> import panto
    >>> with ScriptedProvider([say("It is ", "3.")]) as provider:
    ...     config = panto.Config(provider=provider.config())
    ...     with panto.Agent(config, panto.MemoryStore().create(), transport=provider) as agent:
    ...         with agent.run("What is 1 + 2?") as stream:
    ...             [event.text for event in stream if isinstance(event, panto.ContentDelta)]
    ['It is ', '3.']
    """

    def __init__(self, script: Sequence[Step] = (), *, clock: FakeClock | None = None, strict: bool = False) -> None:
        self.clock: FakeClock = FakeClock() if clock is None else clock
        self.strict: bool = strict
        self.requests: list[RecordedRequest] = []
        self._script = list(script)
        self._used = 0
        self._beyond: list[str] = []
        self._lock = threading.Lock()

    # ---- the script

    def then(self, *steps: Step) -> Self:
        """Add steps to the end of the script."""
        with self._lock:
            self._script.extend(steps)
        return self

    @property
    def unused(self) -> list[Step]:
        """The steps that no request has taken yet."""
        return self._script[self._used :]

    def done(self) -> None:
        """Assert that every step was used, and that no request was beyond the script.

        Raises `ScriptError`, an `AssertionError`, which names the steps or the requests.
        """
        if self._beyond:
            raise ScriptError("\n".join(self._beyond))
        if left := self.unused:
            listed = "\n".join(f"  step {self._used + at + 1}: {_short(step)}" for at, step in enumerate(left))
            raise ScriptError(
                f"{len(left)} of {len(self._script)} steps of the script were not used, "
                f"after {len(self.requests)} requests:\n{listed}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is None:
            self.done()

    def __repr__(self) -> str:
        return f"<ScriptedProvider: {self._used} of {len(self._script)} steps used, {len(self.requests)} requests>"

    # ---- the ways to it

    @overload
    def config(self) -> OpenAIChatConfig: ...
    @overload
    def config(
        self, api_style: Literal[APIStyle.OPENAI_CHAT, "openai_chat"], **options: object
    ) -> OpenAIChatConfig: ...
    @overload
    def config(
        self, api_style: Literal[APIStyle.ANTHROPIC_MESSAGES, "anthropic_messages"], **options: object
    ) -> AnthropicMessagesConfig: ...
    @overload
    def config(self, api_style: APIStyle | str = ..., **options: object) -> ProviderConfig: ...
    def config(self, api_style: APIStyle | str = APIStyle.OPENAI_CHAT, **options: object) -> ProviderConfig:
        """A provider config that fits; `options` are fields of it.

        >>> ScriptedProvider().config("anthropic_messages", max_tokens=100).model
        'scripted'
        """
        return config(BASE, api_style, options)

    def for_sync(self) -> InProcess:
        """The transport that `Agent(transport=provider)` takes."""
        return InProcess(self)

    def for_async(self) -> AsyncInProcess:
        """The transport that `AsyncAgent(transport=provider)` takes."""
        return AsyncInProcess(self)

    def serve(self) -> ScriptedServer:
        """A real HTTP server on a free port of loopback, with real time; use it as a context manager."""
        from .server import ScriptedServer

        return ScriptedServer(self)

    def take(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[RecordedRequest, Reply]:
        """Record a request, and tell what comes back on it. For those who bring a way of their own.

        Raises `ScriptError` for a request beyond the script, to a path that no wire has, or not as the rules want it.
        """
        public, _ = split_url(url)
        wire = wire_of(urlsplit(public).path)
        with self._lock:
            number = len(self.requests) + 1
            if wire is None:
                raise self._refused(f"request {number} went to {public}; no wire has a path like that ({_paths()})")
            request = RecordedRequest(number, wire, public, headers, body)
            self.requests.append(request)
            if self.strict and (wrong := validate_request(wire, request.body)):
                raise self._refused(f"{request} would be refused:\n  " + "\n  ".join(wrong))
            if self._used >= len(self._script):
                raise self._refused(f"{request} is beyond the script, which has {len(self._script)} steps")
            step = self._script[self._used]
            self._used += 1
        return request, reply(_settled(step, request), wire, request.model, number)

    def _refused(self, why: str) -> ScriptError:
        self._beyond.append(why)
        return ScriptError(why)


def config(base: str, api_style: APIStyle | str, options: Mapping[str, object]) -> ProviderConfig:
    """A provider config for a server at `base`."""
    given: dict[str, Any] = {"base_url": base, "model": "scripted", "api_key": KEY}
    match APIStyle(api_style):
        case APIStyle.OPENAI_CHAT:
            given["base_url"] = f"{base}/v1"
            given.update(options)
            return OpenAIChatConfig(**given)
        case APIStyle.ANTHROPIC_MESSAGES:
            given.update(options)
            return AnthropicMessagesConfig(**given)
        case APIStyle.OPENAI_RESPONSES:
            raise ValueError("a ScriptedProvider speaks openai_chat and anthropic_messages")


def _settled(step: Step, request: RecordedRequest) -> Answer | Fail | Drop | Raw:
    while callable(step):
        step = step(request)
    if isinstance(step, str):
        return say(step)
    if not isinstance(step, (Answer, Fail, Drop, Raw)):
        raise TypeError(f"a step is made by say, think, call, fail, overflow, drop or raw, not a {type(step).__name__}")
    return step


def _paths() -> str:
    return ", ".join(f"...{end}" for end in PATHS)


def _short(step: object) -> str:
    text = repr(step)
    return text if len(text) <= 160 else text[:160] + "..."
