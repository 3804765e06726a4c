"""How a provider is reached and what it is asked for.

Law: a config is a frozen value; whatever in it is secret is wrapped so that no repr, dump, copy or pickle shows it,
and what a session remembers of it is its `WireIdentity` alone.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from ._secret import Headers, Secret, clean_key, split_url, veiled
from .errors import ConfigError

__all__ = [
    "JSON",
    "APIStyle",
    "AnthropicMessagesConfig",
    "ChatCompat",
    "CompactionConfig",
    "Config",
    "Limits",
    "OpenAIChatConfig",
    "ProviderConfig",
    "ReasoningEffort",
    "RetryConfig",
    "StopReason",
    "Timeouts",
    "WireIdentity",
]

if TYPE_CHECKING:
    JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
    """A JSON value."""
else:
    JSON = Any  # msgspec cannot resolve a recursive alias when it decodes a field of this type


class APIStyle(enum.StrEnum):
    """Which wire a provider speaks."""

    OPENAI_CHAT = "openai_chat"
    ANTHROPIC_MESSAGES = "anthropic_messages"
    OPENAI_RESPONSES = "openai_responses"


class ReasoningEffort(enum.StrEnum):
    """How much a model shall think before it answers. `DEFAULT` sends nothing and leaves it to the provider."""

    DEFAULT = "default"
    OFF = "off"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class StopReason(enum.StrEnum):
    """Why an answer, or a run, ended. `AWAITING`, `ABORTED` and `LIMIT` are panto's own."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_USE = "tool_use"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    PAUSE = "pause"
    AWAITING = "awaiting"
    ABORTED = "aborted"
    LIMIT = "limit"
    UNKNOWN = "unknown"


class WireIdentity(msgspec.Struct, frozen=True, gc=False):
    """Who answered, in facts of the wire: what a session remembers of a provider.

    `base_url` is canonical: no trailing slash, user info, query or fragment.
    """

    api_style: APIStyle
    base_url: str
    model: str
    reasoning: ReasoningEffort = ReasoningEffort.DEFAULT

    def same_origin(self, other: WireIdentity | None) -> bool:
        """Whether signed or encrypted blocks of `other` may be sent here: same api_style, base_url and model."""
        return (
            other is not None
            and self.model == other.model
            and self.base_url == other.base_url
            and self.api_style == other.api_style
        )


def _typed(owner: object, kinds: Mapping[str, type | tuple[type, ...]]) -> None:
    """Refuse at once what would only fail in the middle of a run: a field of another type than these."""
    for name, kind in kinds.items():
        value: object = getattr(owner, name)
        # A bool is an int to Python, and never a number that somebody meant.
        odd = isinstance(value, bool) and kind is not bool and kind is not object
        if odd or not isinstance(value, kind):
            wanted = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise ConfigError(
                f"{type(owner).__name__}.{name} is {wanted.replace('NoneType', 'None')}, not {type(value).__name__}"
            )


def _texts(owner: object, *names: str) -> None:
    for name in names:
        value: object = getattr(owner, name)
        if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
            raise ConfigError(f"{type(owner).__name__}.{name} is a list or tuple of strings")


_NONE = type(None)
_NUMBER = (int, float)


def _at_least(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise ConfigError(f"{name} must be at least {least:g}, not {value!r}")


class Timeouts(msgspec.Struct, frozen=True, gc=False):
    """Seconds until panto gives up on a connection.

    `idle` counts from the last byte that came, keep-alive comments included; there is no limit on the whole answer.
    0 means none.
    """

    connect: float = 10.0
    idle: float = 300.0

    def __post_init__(self) -> None:
        _typed(self, {"connect": _NUMBER, "idle": _NUMBER})
        for name in ("connect", "idle"):
            _at_least(f"Timeouts.{name}", getattr(self, name), 0)


class RetryConfig(msgspec.Struct, frozen=True, gc=False):
    """How often and when a failed provider call is tried again. Delays are seconds.

    The delay doubles from `initial_delay` with jitter; one that the provider asks for wins; none is longer than
    `max_delay`. `mid_stream=False` turns off the retry after part of an answer was shown; `max_retries=0` all.
    """

    max_retries: int = 4
    initial_delay: float = 0.5
    max_delay: float = 60.0
    mid_stream: bool = True

    def __post_init__(self) -> None:
        _typed(self, {"max_retries": int, "initial_delay": _NUMBER, "max_delay": _NUMBER, "mid_stream": bool})
        for name in ("max_retries", "initial_delay", "max_delay"):
            _at_least(f"RetryConfig.{name}", getattr(self, name), 0)


COMPACTION_PROMPT = """\
You write the memory of an assistant whose conversation has become too long to keep. From the transcript, write down \
what the assistant needs to go on as if nothing had been cut: what the user wants and has decided, what was done and \
found (file names, commands, figures, exact identifiers), what failed and why, and what remains to be done next. \
Be complete and exact; leave out courtesies. Answer with the summary alone."""


class CompactionConfig(msgspec.Struct, frozen=True):
    """When and how a conversation near the end of its context window is summarised. Nothing does so yet.

    `auto=False` turns off the compaction near the limit and the one after an overflow. `reserve_tokens` stay free
    for the answer, about `keep_recent_tokens` of the newest messages are kept as they are. `provider` may name a
    cheaper model for the summary; `None` uses the agent's own.
    """

    auto: bool = True
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000
    compaction_prompt: str = COMPACTION_PROMPT
    provider: ProviderConfig | None = None


class Limits(msgspec.Struct, frozen=True, gc=False):
    """Bounds of a run.

    `max_calls`: provider calls in one run. `tool_timeout`: seconds for one tool call. `max_tool_result_bytes`: UTF-8
    bytes of text in one tool result; head and tail are kept. `max_cost`: micro-cents; panto knows no prices yet, so
    that anything but `None` is a `ConfigError`.
    """

    max_calls: int = 200
    tool_timeout: float = 600.0
    max_tool_result_bytes: int = 51_200
    max_cost: int | None = None

    def __post_init__(self) -> None:
        _typed(self, {"max_calls": int, "tool_timeout": _NUMBER, "max_tool_result_bytes": int})
        if self.max_cost is not None:
            raise ConfigError("Limits.max_cost needs prices, and this version of panto knows none; leave it out")
        _at_least("Limits.max_calls", self.max_calls, 1)
        _at_least("Limits.tool_timeout", self.tool_timeout, 0)
        _at_least("Limits.max_tool_result_bytes", self.max_tool_result_bytes, 256)


class ChatCompat(msgspec.Struct, frozen=True, kw_only=True):
    """What one OpenAI-compatible host differs in. `None` means: what panto's table says of the host.

    max_tokens_field: the name of the output limit.
    system_role: the role of the system prompt.
    effort: how reasoning effort is asked for.
    send_reasoning: whether reasoning goes back to its model (`"tool_loop"`: only since the last question).
    stream_usage: whether `stream_options` is understood.
    parts: whether `content` may be a list of parts.
    tool_call_id: shape of call ids, as a regular expression for the whole id.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    system_role: Literal["system", "developer"] | None = None
    effort: Literal["reasoning_effort", "reasoning", "thinking", "enable_thinking", "none"] | None = None
    send_reasoning: Literal["never", "tool_loop", "always"] | None = None
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    stream_usage: bool | None = None
    parts: bool | None = None
    tool_call_id: str | None = None


class _Provider(msgspec.Struct, frozen=True, kw_only=True):
    """What both provider configs share; see their docstrings."""

    model: str
    api_key: str | Callable[[], str] | None = None
    base_url: str = ""
    reasoning: ReasoningEffort = ReasoningEffort.DEFAULT
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    context_window: int | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=Headers)
    extra_body: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    timeouts: Timeouts | None = None
    foreign_reasoning: Literal["drop", "text"] = "drop"
    prompt_cache: bool = True
    overflow_patterns: Sequence[str] = ()
    url_secret: Secret | None = None

    @veiled
    def __post_init__(self) -> None:
        change = msgspec.structs.force_setattr
        given: dict[str, object] = {name: getattr(self, name) for name in ("model", "reasoning", "headers", "stop")}
        if not isinstance(given["model"], str) or not given["model"].strip():
            raise ConfigError("a provider config needs the name of a model")
        if isinstance(self.api_key, str):
            key = clean_key(self.api_key)
            change(self, "api_key", None if key is None else Secret(key))
        elif self.api_key is not None and not callable(self.api_key):
            raise ConfigError("api_key is a string, a callable that returns one, or None")
        public, secret = split_url(self.base_url)
        change(self, "base_url", public)
        if secret is not None:
            change(self, "url_secret", secret)
        if not isinstance(self.headers, Headers):
            change(self, "headers", Headers(self.headers))
        if isinstance(given["stop"], str):
            change(self, "stop", (given["stop"],))
        if framing := [name for name in self.headers if name.lower() in FRAMING]:
            raise ConfigError(f"the header {framing[0]!r} is the transport's own; it follows from the request")
        _typed(self, _OPTIONS)
        _texts(self, "stop", "overflow_patterns")
        for pattern in self.overflow_patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigError(f"overflow_patterns: {pattern!r} is no regular expression: {error}") from None
        if not isinstance(given["reasoning"], ReasoningEffort):
            change(self, "reasoning", _effort(given["reasoning"]))
        for name in ("max_tokens", "context_window"):
            if (value := getattr(self, name)) is not None:
                _at_least(name, value, 1)
        if self.max_tokens is not None:
            self._check_room(self.max_tokens)
        if self.foreign_reasoning not in ("drop", "text"):
            raise ConfigError(f"foreign_reasoning is 'drop' or 'text', not {self.foreign_reasoning!r}")

    def _check_room(self, max_tokens: int) -> None:
        window = self.context_window
        if window is None:
            from panto._data.windows import window_of  # few configs say max_tokens

            known = window_of(self.model)
            window = None if known is None else known.context
        if window is not None and max_tokens >= window:
            raise ConfigError(
                f"max_tokens ({max_tokens}) leaves no room for a question in the context window of {self.model} "
                f"({window}); lower max_tokens, or give context_window where that is wrong"
            )

    def __repr__(self) -> str:
        default = {f.name: f.default for f in msgspec.structs.fields(self)}
        shown = {
            name: value
            for name in self.__struct_fields__
            if name not in ("api_key", "url_secret")
            and (value := getattr(self, name)) != default.get(name)
            and not (value == {} or (isinstance(value, Headers) and not value))
        }
        if self.api_key is not None:
            shown["api_key"] = Secret("")
        if self.extra_body:
            shown["extra_body"] = dict.fromkeys(self.extra_body, "***")  # some hosts want a key in the body
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"

    def __hash__(self) -> int:
        return hash((type(self), self.model, self.base_url, self.reasoning))


FRAMING = frozenset({"connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"})
"""Headers that say how a request is carried; a config that set them would break it."""

_OPTIONS: dict[str, tuple[type, ...] | type] = {
    "max_tokens": (int, _NONE),
    "temperature": (int, float, _NONE),
    "top_p": (int, float, _NONE),
    "seed": (int, _NONE),
    "tool_choice": (str, _NONE),
    "context_window": (int, _NONE),
    "extra_body": Mapping,
    "timeouts": (Timeouts, _NONE),
}


class OpenAIChatConfig(_Provider, frozen=True, kw_only=True):
    """A provider that speaks OpenAI's chat completions, or claims to.

    base_url: what the official SDK takes, with `/v1`; panto adds `/chat/completions`.
    api_key: a string, a callable asked before each request, or `None` for a server without keys. Never shown.
    reasoning: how much the model shall think; `DEFAULT` sends nothing.
    max_tokens, temperature, top_p, stop, seed, parallel_tool_calls: sent only when given.
    tool_choice: `auto`, `none`, `required` or a tool's name; a forcing one holds for the first call of a run only.
    context_window: tokens the model can hold, where panto does not know it.
    headers, extra_body: sent with each request; `extra_body` wins over what panto would send.
    timeouts: of this provider, before those of `panto.init`.
    foreign_reasoning: whether reasoning of another model is dropped or sent as text.
    overflow_patterns: regular expressions of error messages that mean "too long for the context window".
    compat: what this host does differently, where panto's own table is wrong.

    Raises `ConfigError` for a key that no header can carry (without showing it), a base_url that is none, or limits
    that cannot hold.

    >>> OpenAIChatConfig(model="m", api_key="sk-1", base_url="https://api.example.com/v1/").base_url
    'https://api.example.com/v1'
    """

    base_url: str = "https://api.openai.com/v1"
    compat: ChatCompat = ChatCompat()

    @veiled
    def __post_init__(self) -> None:
        _Provider.__post_init__(self)
        _typed(self, {"compat": ChatCompat})

    def wire_identity(self) -> WireIdentity:
        """What a session remembers of this provider."""
        return WireIdentity(APIStyle.OPENAI_CHAT, self.base_url, self.model, self.reasoning)


class AnthropicMessagesConfig(_Provider, frozen=True, kw_only=True):
    """A provider that speaks Anthropic's Messages.

    base_url: what the official SDK takes, without `/v1`; panto adds `/v1/messages` and never doubles a `/v1`.
    max_tokens: always sent on this wire; the default is the smaller of 32,000 and the model's own limit.
    prompt_cache: whether cache breakpoints are set.
    auth: which header carries the key; `None` follows the host (`x-api-key`).
    betas: values of the `anthropic-beta` header.

    All other fields are those of `OpenAIChatConfig`.
    """

    base_url: str = "https://api.anthropic.com"
    auth: Literal["x-api-key", "bearer"] | None = None
    betas: Sequence[str] = ()

    @veiled
    def __post_init__(self) -> None:
        _Provider.__post_init__(self)
        _texts(self, "betas")

    def wire_identity(self) -> WireIdentity:
        """What a session remembers of this provider."""
        return WireIdentity(APIStyle.ANTHROPIC_MESSAGES, self.base_url, self.model, self.reasoning)


ProviderConfig: TypeAlias = OpenAIChatConfig | AnthropicMessagesConfig
"""How one provider is reached; the type says which wire it speaks."""


class Config(msgspec.Struct, frozen=True):
    """Everything an agent needs but its tools and its session.

    `max_image_side` is the longest side, in pixels, that an image keeps when it enters the history, from the user or a
    tool; a longer one is shrunk, see `docs/images.md`. 1,568 is what Anthropic shrinks to by itself; in a request of
    more than 20 images it refuses sides over 2,000 (https://docs.anthropic.com/en/docs/build-with-claude/vision,
    2026-12).
    """

    provider: ProviderConfig
    compaction: CompactionConfig = CompactionConfig()
    retry: RetryConfig = RetryConfig()
    limits: Limits = Limits()
    max_image_side: int = 1568

    def __post_init__(self) -> None:
        kinds = {"compaction": CompactionConfig, "retry": RetryConfig, "limits": Limits, "max_image_side": int}
        _typed(self, {"provider": (OpenAIChatConfig, AnthropicMessagesConfig), **kinds})
        _at_least("Config.max_image_side", self.max_image_side, 1)


def _effort(value: object) -> ReasoningEffort:
    try:
        return ReasoningEffort(str(value))
    except ValueError:
        raise ConfigError(f"reasoning is one of {', '.join(ReasoningEffort)}, not {value!r}") from None
