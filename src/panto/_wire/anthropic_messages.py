"""Requests to Anthropic's Messages, and to what claims to be compatible: `MessagesWire`.

The law: tools, system and messages are written once and byte for byte the same in every later request; only the cache
markers move, and they are put into the finished bytes. What a model refuses is not sent, and one warning says so.

Sources: https://platform.claude.com/docs/en/api/messages/create, .../api/versioning, .../build-with-claude/
prompt-caching (at most four breakpoints; a cached prefix is looked for up to 20 blocks before each), read 2026-12-01.
The version asked for is 2023-06-01, which every compatible server knows; 2026-10-21 takes `temperature` and `top_p`
away. `headers={"anthropic-version": ...}` in the config wins. There is no seed on this wire: `config.seed` is not sent.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from panto._data.windows import window_of
from panto._secret import Secret
from panto._wire.anthropic_blocks import encode, encode_content, markable
from panto._wire.anthropic_messages_read import MessagesDecoder
from panto._wire.anthropic_thinking import BINDING_BETA, Thinking, thinker_of
from panto._wire.failures import Failure, classify
from panto._wire.names import NameTable
from panto._wire.prefix import Prefix
from panto._wire.protocol import HTTPRequest, Sendable
from panto.config import AnthropicMessagesConfig, ReasoningEffort
from panto.conversation import SystemBlock, TextualBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from panto.rules import Target
from panto.tools import ToolDecl

__all__ = ["MAX_TOKENS", "VERSION", "MessagesWire", "max_tokens_of"]

VERSION: Final = "2023-06-01"
"""The `anthropic-version` that is asked for."""

MAX_TOKENS: Final = 32_000
"""The default output limit, where the model's own is not smaller."""

_BEARER_HOSTS: Final = (
    # Hosts that want the key as a bearer token instead of `x-api-key`.
    "openrouter.ai",  # https://openrouter.ai/docs/api-reference/authentication, 2026-12
    "aiplatform.googleapis.com",  # Google Cloud takes access tokens only
)

_MARK: Final = b',"cache_control":{"type":"ephemeral"}'
_log: Final = logging.getLogger("panto")


def max_tokens_of(config: AnthropicMessagesConfig) -> int:
    """The output limit that goes out with every request of this config."""
    if config.max_tokens is not None:
        return config.max_tokens
    window = window_of(config.model)
    limit = MAX_TOKENS if window is None else min(MAX_TOKENS, window.output)
    # Where the config knows of a small window, half of it stays for the question.
    return limit if config.context_window is None else max(1, min(limit, config.context_window // 2))


class MessagesWire:
    """One provider as configured; see `Wire`."""

    def __init__(self, config: AnthropicMessagesConfig, names: NameTable) -> None:
        self.target = msgspec.structs.replace(
            Target.of(config.wire_identity()), foreign_reasoning=config.foreign_reasoning
        )
        self._config = config
        self._names = names
        self._max_tokens = max_tokens_of(config)
        self._thinker = thinker_of(config.model)
        self._unbinds = self._thinker.bound and (urlsplit(config.base_url).hostname or "").endswith("anthropic.com")
        self._url, self._secret_url = _endpoint(config)
        self._tools: tuple[ToolDecl, ...] = ()
        self._tools_json = b"[]"
        self._warned: set[str] = set()
        self._prefix = Prefix()

    def request(
        self,
        system: Sequence[SystemBlock],
        tools: Sequence[ToolDecl],
        messages: Sequence[Sendable],
        *,
        first: bool,
        key: Secret | None,
    ) -> HTTPRequest:
        """See `Wire.request`."""
        return HTTPRequest(self._url, self._headers(key), self._body(system, tools, messages, first), self._secret_url)

    def decoder(self, seed: str) -> MessagesDecoder:
        """See `Wire.decoder`."""
        return MessagesDecoder(seed, self._names, self._config.overflow_patterns)

    def failure(self, status: int, headers: Mapping[str, str], body: bytes, now: float) -> Failure:
        """See `Wire.failure`."""
        return classify(status, headers, body, overflow_patterns=self._config.overflow_patterns, now=now)

    def _headers(self, key: Secret | None) -> dict[str, str | Secret]:
        config = self._config
        headers: dict[str, str | Secret] = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": VERSION,
        }
        if key is not None:
            host = urlsplit(config.base_url).hostname or ""
            bearer = config.auth == "bearer"
            if config.auth is None:
                bearer = any(host == known or host.endswith(("." + known, "-" + known)) for known in _BEARER_HOSTS)
            if bearer:
                headers["authorization"] = Secret(f"Bearer {key()}")
            else:
                headers["x-api-key"] = key
        given = {name.lower(): value for name, value in config.headers.items()}
        betas = [*config.betas, *(b.strip() for b in given.pop("anthropic-beta", "").split(",") if b.strip())]
        if self._unbinds:
            betas.append(BINDING_BETA)
        if betas:
            headers["anthropic-beta"] = ",".join(dict.fromkeys(betas))
        headers.update({name: Secret(value) for name, value in given.items()})
        return headers

    def _body(
        self, system: Sequence[SystemBlock], tools: Sequence[ToolDecl], messages: Sequence[Sendable], first: bool
    ) -> bytes:
        config = self._config
        choice = self._choice(tools, messages, first)
        thinking = self._thinking(messages, forced=choice is not None and choice["type"] in ("any", "tool"))
        fields: dict[str, bytes] = {"model": encode(config.model), "max_tokens": encode(self._max_tokens)}
        if system_json := self._system_json(system):
            fields["system"] = system_json
        if tools_json := self._tools_json_of(tools, messages):
            fields["tools"] = tools_json
        fields["messages"] = self._messages_json(messages)
        if choice is not None:
            fields["tool_choice"] = encode(choice)
        if self._unbinds:
            thinking = self._thinker.unbound(thinking)
        if thinking.field is not None:
            fields["thinking"] = encode(thinking.field)
        if thinking.effort is not None:
            fields["output_config"] = encode({"effort": thinking.effort})
        self._add_sampling(fields, thinking)
        if stop := [text for text in config.stop if text.strip()]:
            fields["stop_sequences"] = encode(stop)
        fields["stream"] = b"true"
        for name, value in config.extra_body.items():
            if name == "output_config" and isinstance(value, dict) and thinking.effort is not None:
                value = {"effort": thinking.effort, **value}
            fields[name] = encode(value)
        return b"{" + b",".join([encode(name) + b":" + value for name, value in fields.items()]) + b"}"

    def _warn(self, text: str) -> None:
        """Say a thing once."""
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s: %s", self._config.model, text)

    def _choice(self, tools: Sequence[ToolDecl], messages: Sequence[Sendable], first: bool) -> dict[str, object] | None:
        """`tool_choice`, where there is anything to choose from."""
        config = self._config
        wanted = config.tool_choice or "auto"
        if not tools:
            return {"type": "none"} if self._stubs(messages) else None
        if wanted == "none":
            return {"type": "none"}
        choice: dict[str, object] = {"type": "auto"}
        if wanted != "auto" and first:
            if self._thinker.forced:
                choice = {"type": "any"}
                if wanted != "required":
                    choice = {"type": "tool", "name": self._names.wire(wanted)}
            else:
                self._warn(f"this model refuses a forced tool call; tool_choice {wanted!r} is sent as 'auto'")
        if config.parallel_tool_calls is False:
            choice["disable_parallel_tool_use"] = True
        return choice if len(choice) > 1 or choice["type"] != "auto" or config.tool_choice == "auto" else None

    def _thinking(self, messages: Sequence[Sendable], *, forced: bool) -> Thinking:
        """What to say of thinking in this one request.

        With a budget, thinking and a forced call exclude each other, and a tool loop that began without thinking must
        go on without (see `anthropic_thinking`): both turn it off for this request. Adaptive thinking minds neither.
        """
        thinking = self._thinker.ask(self._config.reasoning, self._max_tokens)
        if self._config.reasoning not in (ReasoningEffort.DEFAULT, ReasoningEffort.OFF):
            if self._thinker.form == "none":
                self._warn("this model does not think; the reasoning effort is not sent")
            elif not thinking.on:
                self._warn(f"max_tokens={self._max_tokens} leaves no room for thinking, which is off")
        if not thinking.on or self._thinker.form != "budget":
            return thinking
        if forced:
            self._warn("thinking is off for a request that forces a tool call: the provider refuses both together")
            return self._thinker.stop()
        if _pending_without_thinking(messages):
            self._warn("thinking is off until the tool calls that began without it are done")
            return self._thinker.stop()
        return thinking

    def _add_sampling(self, fields: dict[str, bytes], thinking: Thinking) -> None:
        for name, value in (("temperature", self._config.temperature), ("top_p", self._config.top_p)):
            if value is None:
                continue
            if not self._thinker.sampling:
                self._warn(f"this model refuses {name}, which is not sent")
            elif thinking.on and not (name == "top_p" and 0.95 <= value <= 1) and value != 1:
                self._warn(f"{name} and thinking exclude each other; {name} is not sent while the model thinks")
            else:
                fields[name] = encode(value)

    def _system_json(self, system: Sequence[SystemBlock]) -> bytes:
        texts = [encode({"type": "text", "text": block.text}) for block in system if block.text.strip()]
        if not texts:
            return b""
        if self._config.prompt_cache:
            texts[-1] = _marked(texts[-1])
        return b"[" + b",".join(texts) + b"]"

    def _tools_json_of(self, tools: Sequence[ToolDecl], messages: Sequence[Sendable]) -> bytes:
        """The tools as an array; those of the history where there are none left."""
        if not tools:
            names = self._stubs(messages)
            stubs = [
                {"name": self._names.wire(name), "description": "Not available any more.", "input_schema": _ANYTHING}
                for name in names
            ]
            return encode(stubs) if stubs else b""
        if len(tools) != len(self._tools) or any(a is not b for a, b in zip(tools, self._tools, strict=True)):
            self._tools = tuple(tools)
            encoded = [self._tool(tool) for tool in tools]
            if self._config.prompt_cache:
                encoded[-1] = _marked(encoded[-1])
            self._tools_json = b"[" + b",".join(encoded) + b"]"
        return self._tools_json

    def _stubs(self, messages: Sequence[Sendable]) -> list[str]:
        """The tools to declare where none is left: Anthropic refuses calls in a history without any tool.

        ("Requests which include `tool_use` or `tool_result` blocks must define tools": unregistering the last one would
        end the session.) Other servers do not, and some read answers worse when tools are declared.
        """
        if "claude" not in self._config.model.lower():
            return []
        return list(dict.fromkeys(_calls_in(messages)))

    def _tool(self, tool: ToolDecl) -> bytes:
        fields: dict[str, object] = {"name": self._names.wire(tool.name)}
        if tool.description.strip():
            fields["description"] = tool.description
        fields["input_schema"] = tool.schema if "type" in tool.schema else {"type": "object", **tool.schema}
        return encode(fields)

    def _messages_json(self, messages: Sequence[Sendable]) -> bytes:
        beginning, tail, out = self._prefix.pieces(messages, self._message)
        if tail and tail[-1].role == "assistant":
            out[-1] = self._trimmed(tail[-1], out[-1])
        if self._config.prompt_cache:
            for at in _tails(tail):
                out[at] = out[at][:-3] + _MARK + b"}]}"
        return b"[" + b",".join([*beginning, *out]) + b"]"

    def _message(self, message: Sendable) -> bytes:
        content = encode_content(message.role, message.blocks, self._names)
        return b'{"role":' + encode(message.role) + b',"content":' + content + b"}"

    def _trimmed(self, last: Sendable, encoded: bytes) -> bytes:
        """An answer that the model is to go on from: the vendor refuses white space at its end."""
        text = last.blocks[-1] if last.blocks else None
        if not isinstance(text, TextualBlock) or text.text == text.text.rstrip():
            return encoded
        blocks = (*last.blocks[:-1], TextualBlock(text.text.rstrip()))
        return self._message(Sendable(last.role, blocks))


_ANYTHING: Final[dict[str, object]] = {"type": "object", "properties": {}}


def _marked(block: bytes) -> bytes:
    return block[:-1] + _MARK + b"}"


def _tails(messages: Sequence[Sendable]) -> list[int]:
    """The messages whose last block gets a marker: the last that may, and the user's before it.

    The second is where the marker of the request before stood. A loop step of more than 20 blocks would hide that
    prefix from the search that starts at the last block.
    """
    tails: list[int] = []
    for at in range(len(messages) - 1, -1, -1):
        if (not tails or messages[at].role == "user") and _ends_markable(messages[at]):
            tails.append(at)
            if len(tails) == 2:
                break
    return tails


def _ends_markable(message: Sendable) -> bool:
    return next((mark for block in reversed(message.blocks) if (mark := markable(block)) is not None), False)


def _calls_in(messages: Sequence[Sendable]) -> list[str]:
    return [block.name for message in messages for block in message.blocks if isinstance(block, ToolUseBlock)]


def _pending_without_thinking(messages: Sequence[Sendable]) -> bool:
    """Whether the request goes on with a tool loop whose first answer has no thinking that could be sent back."""
    if not messages or not _has_results(messages[-1]):
        return False
    start: Sendable | None = None
    for message in reversed(messages):
        if message.role == "assistant":
            start = message
        elif not _has_results(message):
            break
    if start is None:
        return False
    sent = next((block for block in start.blocks if markable(block) is not None), None)
    return not isinstance(sent, ThinkingBlock)


def _has_results(message: Sendable) -> bool:
    return any(isinstance(block, ToolResultBlock) for block in message.blocks)


def _endpoint(config: AnthropicMessagesConfig) -> tuple[str, Secret | None]:
    """The public URL, and the whole one where the config's has user info or a query."""
    secret = config.url_secret
    if secret is None:
        return _with_path(config.base_url), None
    return _with_path(config.base_url), Secret(_with_path(secret()))


def _with_path(base_url: str) -> str:
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    path += "/messages" if path.endswith("/v1") else "/v1/messages"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
