"""A request on the chat wire: OpenAI's `POST /chat/completions`, as each compatible host wants it.

Law: nothing optional is sent that was not configured; each message is encoded once and keeps its bytes, so that a
request begins with the bytes of the one before it; no text, name or schema can make the encoding fail.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Final, assert_never, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from panto._secret import Secret
from panto._wire.compat import Compat, compat_for, effort_fields
from panto._wire.failures import Failure, classify
from panto._wire.names import NameTable
from panto._wire.openai_chat_read import ChatDecoder
from panto._wire.openai_chat_sealed import EXTRA_CONTENT, REASONING_DETAILS, REASONING_OPAQUE
from panto._wire.prefix import Prefix
from panto._wire.protocol import HTTPRequest, Sendable
from panto._wire.surrogates import well_formed, well_formed_json
from panto.config import JSON, OpenAIChatConfig
from panto.conversation import (
    CompactionSummaryBlock,
    MediaBlock,
    OpaqueBlock,
    StoredMediaPart,
    SystemBlock,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from panto.rules import Target
from panto.tools import ToolDecl

__all__ = ["ChatWire"]

_PATH: Final = "/chat/completions"
_ERROR: Final = "Error: "
_NO_OUTPUT: Final = "(no output)"
_SEE_BELOW: Final = "(see the attachment in the next message)"
_ATTACHED: Final = "Attached to the result of the tool call {id}:"
_AUDIO_FORMATS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_NO_PARAMETERS: Final[Mapping[str, JSON]] = {"type": "object", "properties": {}}

_Part = dict[str, JSON]


class ChatWire:
    """OpenAI's chat completions as one config wants them; see `Wire`.

    Attributes:
        target: What the host takes; the view makes a history fit it.
        compat: How the host wants its requests.
    """

    def __init__(self, config: OpenAIChatConfig, names: NameTable) -> None:
        self._config = config
        self._names = names
        self.compat: Compat = compat_for(config.base_url, config.model, config.compat)
        self.target = msgspec.structs.replace(
            Target.of(config.wire_identity()),
            replay_reasoning=self.compat.send_reasoning,
            foreign_reasoning=config.foreign_reasoning,
        )
        if self.compat.tool_call_id is not None:
            # The config's pattern says how long an id may be, too.
            self.target = msgspec.structs.replace(self.target, id_pattern=self.compat.tool_call_id, id_max=4096)
        self._prefix = Prefix()
        self._url = _with_path(config.base_url)
        self._secret_url = None if config.url_secret is None else Secret(_with_path(config.url_secret()))

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

    def decoder(self, seed: str) -> ChatDecoder:
        """See `Wire.decoder`."""
        return ChatDecoder(seed, self._names.name, self._config.overflow_patterns)

    def failure(self, status: int, headers: Mapping[str, str], body: bytes, now: float) -> Failure:
        """See `Wire.failure`."""
        return classify(status, headers, body, overflow_patterns=self._config.overflow_patterns, now=now)

    # ------------------------------------------------------------ head

    def _headers(self, key: Secret | None) -> dict[str, str | Secret]:
        headers: dict[str, str | Secret] = {"content-type": "application/json", "accept": "text/event-stream"}
        if key is not None and self.compat.key_header is not None:
            headers[self.compat.key_header] = key
        elif key is not None:
            headers["authorization"] = Secret(f"Bearer {key()}")
        for name, value in self._config.headers.items():  # they may hold keys
            headers[name.lower()] = Secret(value)
        return headers

    def _body(
        self, system: Sequence[SystemBlock], tools: Sequence[ToolDecl], messages: Sequence[Sendable], first: bool
    ) -> bytes:
        """The body; what stays the same from one request to the next stands first."""
        config, compat = self._config, self.compat
        fields: dict[str, bytes] = {"model": _encoded(config.model)}
        if tools:
            fields["tools"] = _encoded([self._tool(tool) for tool in tools])
        fields["messages"] = self._messages(system, messages)
        fields["stream"] = b"true"
        options: dict[str, JSON] = {
            "stream_options": {"include_usage": True} if compat.stream_usage else None,
            compat.max_tokens_field: config.max_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "stop": list(config.stop) or None,
            compat.seed_field: config.seed,
            **effort_fields(compat, config.reasoning),
        }
        if tools:
            options["tool_choice"] = self._tool_choice(first)
            options["parallel_tool_calls"] = config.parallel_tool_calls
        fields |= {name: _encoded(value) for name, value in options.items() if value is not None}
        fields |= {well_formed(name): _encoded(value) for name, value in config.extra_body.items()}
        return b"{" + b",".join(_encoded(name) + b":" + value for name, value in fields.items()) + b"}"

    def _tool(self, tool: ToolDecl) -> JSON:
        function: dict[str, JSON] = {"name": self._names.wire(tool.name), "description": tool.description}
        function["parameters"] = cast(JSON, tool.schema or _NO_PARAMETERS)
        return {"type": "function", "function": function}

    def _tool_choice(self, first: bool) -> JSON:
        choice = self._config.tool_choice
        if choice is None or choice in ("auto", "none"):
            return choice
        if not first:
            return None  # a forcing choice would never let the run end
        if choice == "required":
            return choice
        return {"type": "function", "function": {"name": self._names.wire(choice)}}

    # ------------------------------------------------------------ messages

    def _messages(self, system: Sequence[SystemBlock], messages: Sequence[Sendable]) -> bytes:
        encoded: list[bytes] = []
        if prompt := "\n\n".join(block.text for block in system if block.text.strip()):
            encoded.append(_encoded({"role": self.compat.system_role, "content": prompt}))
        beginning, _, tail = self._prefix.pieces(messages, self._message)
        return b"[" + b",".join([*encoded, *beginning, *filter(None, tail)]) + b"]"

    def _message(self, message: Sendable) -> bytes:
        made = self._assistant(message) if message.role == "assistant" else self._user(message)
        return b",".join(map(_encoded, made))

    def _assistant(self, message: Sendable) -> list[_Part]:
        text: list[str] = []
        thinking: list[str] = []
        calls: list[JSON] = []
        sealed: dict[str, JSON] = {}
        extras: list[JSON] = []
        for block in message.blocks:
            match block:
                case TextualBlock():
                    text.append(block.text)
                case ThinkingBlock():
                    thinking.append(block.text)
                case ToolUseBlock():
                    calls.append(self._call(block))
                case OpaqueBlock():
                    value = _parsed(block.raw)
                    if value is not None and block.type in (REASONING_DETAILS, REASONING_OPAQUE):
                        sealed[block.type] = value
                    elif block.type == EXTRA_CONTENT and isinstance(value, list):
                        extras += value
                case CompactionSummaryBlock():
                    text.append(block.text)
                case MediaBlock() | ToolResultBlock() | SystemBlock():
                    pass  # no part of an answer
                case _:
                    assert_never(block)
        made: _Part = {"role": "assistant", "content": "".join(text) or (None if calls else "")}
        if self.compat.send_reasoning != "never" and (reasoning := "".join(thinking)):
            made[self.compat.reasoning_field] = reasoning
        if calls:
            made["tool_calls"] = calls
        made |= sealed
        for extra in extras:
            if isinstance(extra, dict):
                number = extra.get("call")
                call = calls[number] if isinstance(number, int) and 0 <= number < len(calls) else None
                place = call if isinstance(call, dict) else made if number is None else {}
                place[EXTRA_CONTENT] = extra.get(EXTRA_CONTENT)
        return [made] if made["content"] or len(made) > 2 else []

    def _call(self, block: ToolUseBlock) -> JSON:
        function: JSON = {"name": self._names.wire(block.name), "arguments": _arguments(block.arguments)}
        return {"id": block.id, "type": "function", "function": function}

    def _user(self, message: Sendable) -> list[_Part]:
        """Results of tools each as its message, then everything else as one."""
        made: list[_Part] = []
        attached: list[_Part] = []
        said: list[_Part] = []
        for block in message.blocks:
            match block:
                case ToolResultBlock():
                    result, media = self._result(block)
                    made.append(result)
                    attached += media
                case TextualBlock() | CompactionSummaryBlock():
                    said.append({"type": "text", "text": block.text})
                case MediaBlock():
                    said.append(self._media(block))
                case ThinkingBlock() | ToolUseBlock() | OpaqueBlock() | SystemBlock():
                    pass  # no part of what a user says
                case _:
                    assert_never(block)
        if content := self._content(attached + said):
            made.append({"role": "user", "content": content})
        return made

    def _result(self, block: ToolResultBlock) -> tuple[_Part, list[_Part]]:
        """The `tool` message, which holds text alone, and the parts that must follow it."""
        media = [self._media(part) for part in block.parts if isinstance(part, StoredMediaPart)]
        text = "".join(part.text for part in block.parts if isinstance(part, TextPart))
        if not text.strip():
            text = _SEE_BELOW if media else _NO_OUTPUT
        content = _ERROR + text if block.is_error else text
        label: _Part = {"type": "text", "text": _ATTACHED.format(id=block.id)}
        return {"role": "tool", "tool_call_id": block.id, "content": content}, [label, *media] if media else []

    def _content(self, parts: list[_Part]) -> JSON:
        """A string where it can be one; in a list each text that follows a text begins with a blank line."""
        texts = [str(part["text"]) for part in parts if part["type"] == "text"]
        if not self.compat.parts or len(parts) == 1 == len(texts):
            return "\n\n".join(texts)
        joined: list[JSON] = []
        for at, part in enumerate(parts):
            follows = at > 0 and part["type"] == parts[at - 1]["type"] == "text"
            joined.append({"type": "text", "text": f"\n\n{part['text']}"} if follows else cast(JSON, part))
        return joined

    def _media(self, media: MediaBlock | StoredMediaPart) -> _Part:
        kind = media.media_type.partition(";")[0].strip().lower()
        if kind.startswith("text/"):
            return {"type": "text", "text": _text_of(media)}
        if not self.compat.parts:
            return {"type": "text", "text": f"(an attachment of type {kind} was left out: this host takes text alone)"}
        url = f"data:{kind};base64,{media.data}"
        if kind in _AUDIO_FORMATS:
            return {"type": "input_audio", "input_audio": {"data": media.data, "format": _AUDIO_FORMATS[kind]}}
        if kind.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": url}}
        name = f"document.{kind.rpartition('/')[2] or 'bin'}"
        return {"type": "file", "file": {"filename": name, "file_data": url}}


def _text_of(media: MediaBlock | StoredMediaPart) -> str:
    try:
        text = base64.b64decode(media.data).decode("utf-8", "replace")
        return text if text.strip() else "(an empty document)"
    except ValueError:
        return "(an attachment was left out: it is no base64)"


def _with_path(base_url: str) -> str:
    """The URL to post to; a query of the base URL stays at its end."""
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    if not path.endswith(_PATH):
        path += _PATH
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _arguments(text: str) -> str:
    """The arguments of a call as every host takes them: the text as it came, if it is the JSON of an object."""
    try:
        if isinstance(msgspec.json.decode(text), dict):
            return text
    except (ValueError, RecursionError):  # also a lone surrogate, in the text or as an escape in it
        try:
            value = cast(object, json.loads(text, strict=False))
        except (ValueError, RecursionError):
            return "{}"
        if isinstance(value, dict):
            return _encoded(cast(JSON, value)).decode()
    return "{}"


def _parsed(raw: str) -> JSON:
    try:
        return cast(JSON, json.loads(raw))
    except (ValueError, RecursionError):
        return None


def _encoded(value: JSON) -> bytes:
    """The JSON of a value; surrogates in it are joined or replaced."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError, OverflowError):  # also a Mapping that is no dict, and a very large integer
        return json.dumps(well_formed_json(value), ensure_ascii=False, separators=(",", ":")).encode()
