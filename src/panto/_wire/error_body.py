"""The body of an error, in whatever shape, as the words, codes and status in it.

The law: every shape gives something, none raises, and the provider's words survive. Shapes that are met: the OpenAI
object `{"error": {"message", "type", "code"}}`, the same with a plain string (xAI, LM Studio, Venice), Anthropic's
`{"type": "error", "error": {...}}`, flat objects (vLLM, Cerebras, Mistral), arrays (Gemini), `{"detail": ...}`
(FastAPI), `{"errors": [...]}` (Cloudflare), an error within `choices[0]` (OpenRouter), JSON within a string (routers
put the words of the provider behind them into `error.metadata.raw`), an event stream, HTML, text, nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast

import msgspec

from panto._wire.sse import SSEParser

MAX_MESSAGE_CHARS: Final = 4000
"""Longer messages are cut: some hosts send the whole request back."""

_MAX_DEPTH: Final = 8
_MAX_TEXT_BYTES: Final = 64 * 1024
_STATUS_KEYS: Final = ("status_code", "status", "code", "http_code", "raw_status_code", "statusCode")
_WORD_KEYS: Final = ("code", "type", "status", "error_type", "error_code", "reason")
_TEXT_KEYS: Final = ("message", "msg", "detail", "error_description")
_NO_WORDS: Final = frozenset({"", "error", "null", "none"})


class ErrorBody(msgspec.Struct, frozen=True):
    """What an error body says.

    Attributes:
        message: The provider's words, a router's and those of the provider behind it joined; empty if there are none.
        words: All codes, types and reasons as lower-case words with underscores, the outermost first.
        code: The first `code`, as text.
        type: The first `type`.
        status: The HTTP status that the body names.
        request_id: The provider's id of the request.
        retry_after: Seconds to wait, where the body says so (Gemini's RetryInfo).
        is_error: Whether the shape is that of an error; False for text and for JSON of another shape.
    """

    message: str = ""
    words: tuple[str, ...] = ()
    code: str | None = None
    type: str | None = None
    status: int | None = None
    request_id: str | None = None
    retry_after: float | None = None
    is_error: bool = False


def is_error_payload(value: object) -> bool:
    """Whether a decoded JSON value, a whole body or one event of a stream, is or carries an error."""
    if isinstance(value, list):
        items = cast(list[object], value)
        return bool(items) and is_error_payload(items[0])
    if not isinstance(value, dict):
        return False
    fields = cast(dict[str, object], value)
    if fields.get("error") or fields.get("type") == "error" or fields.get("object") == "error":
        return True
    if _choice_error(fields) is not None:
        return True
    if "choices" in fields or "content" in fields:
        return False
    if fields.get("detail") or fields.get("errors"):
        return True
    # A flat error. A message alone may be a remark, such as a place in a queue.
    return isinstance(fields.get("message"), str) and any(fields.get(key) is not None for key in _STATUS_KEYS)


def read_error(value: object) -> ErrorBody:
    """Read a decoded JSON value that is, or carries, an error; also a plain string."""
    reader = _Reader()
    reader.read(value, 0)
    return reader.result(is_error=is_error_payload(value))


def read_body(body: bytes) -> ErrorBody:
    """Read the bytes of an error answer."""
    if body.lstrip()[:6].startswith((b"data:", b"event:")):
        parser = SSEParser(max_event_bytes=max(1, len(body)))
        for _, data in parser.feed(body) + parser.finish():
            value = _decoded(data)
            if is_error_payload(value):
                return read_error(value)
    value = _decoded(body)
    if value is not None:
        return read_error(value)
    text = body[:_MAX_TEXT_BYTES].decode("utf-8", "replace")
    if text.lstrip()[:1] == "<":
        title = re.search(r"<title[^<>]*>([^<]*)</title>", text, re.IGNORECASE)
        text = title[1] if title and title[1].strip() else re.sub(r"<[^<>]*>", " ", text)
    return ErrorBody(message=_short(" ".join(text.split())))


class _Reader:
    """Collects, the outermost first. The first value of a kind wins; words and texts add up."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.words: list[str] = []
        self.code: str | None = None
        self.type: str | None = None
        self.status: int | None = None
        self.request_id: str | None = None
        self.retry_after: float | None = None

    def result(self, *, is_error: bool) -> ErrorBody:
        said = ""
        for text in self.texts:
            if len(said) > MAX_MESSAGE_CHARS:
                break
            if text not in said:
                said = f"{said}: {text}" if said else text
        return ErrorBody(
            message=_short(said),
            words=tuple(dict.fromkeys(self.words)),
            code=self.code,
            type=self.type,
            status=self.status,
            request_id=self.request_id,
            retry_after=self.retry_after,
            is_error=is_error,
        )

    def read(self, value: object, depth: int) -> None:
        if depth > _MAX_DEPTH:
            return
        if isinstance(value, str):
            self._text(value, depth)
        elif isinstance(value, list):
            for item in cast(list[object], value)[:5]:
                self.read(item, depth + 1)
        elif isinstance(value, dict):
            self._object(cast(dict[str, object], value), depth)

    def _text(self, text: str, depth: int) -> None:
        """A text may be the JSON of another error, which then speaks for it."""
        inner = _decoded(text.encode("utf-8", "replace")) if text.lstrip()[:1] in ("{", "[") else None
        before = len(self.texts)
        if inner is not None:
            self.read(inner, depth + 1)
        if len(self.texts) == before and text.strip():
            self.texts.append(text.strip())

    def _object(self, fields: dict[str, object], depth: int) -> None:
        error = fields.get("error") or _choice_error(fields)
        if isinstance(error, dict):  # what surrounds the error object says less than it
            self.read(error, depth + 1)
        self._codes(fields)
        if isinstance(error, (str, list)):
            self.read(error, depth + 1)
        for key in _TEXT_KEYS:
            text = fields.get(key)
            if isinstance(text, str) and key == "msg" and isinstance(fields.get("loc"), list):
                where = ".".join(map(str, cast(list[object], fields["loc"])))
                text = f"{where}: {text}"
            if isinstance(text, str) or key == "detail":
                self.read(text, depth + 1)
        for key in ("innererror", "errors", "details"):  # Azure; Cloudflare; Gemini
            if isinstance(fields.get(key), (dict, list)):
                self.read(fields[key], depth + 1)
        metadata = fields.get("metadata")
        if isinstance(metadata, dict):
            self.read(cast(dict[str, object], metadata).get("raw"), depth + 1)
        response = fields.get("response")
        if isinstance(response, dict):  # an event "response.failed"
            self.read(cast(dict[str, object], response).get("error"), depth + 1)

    def _codes(self, fields: dict[str, object]) -> None:
        for key in _WORD_KEYS:
            value = fields.get(key)
            if isinstance(value, bool) or not isinstance(value, (str, int)):
                continue
            word = str(value).strip()
            known = re.sub(r"[\s-]+", "_", word.lower())
            if known in _NO_WORDS or len(word) > 200:
                continue
            self.words.append(known)
            if key in ("code", "error_code"):
                self.code = self.code or word
            elif key in ("type", "error_type"):
                self.type = self.type or word
        for key in _STATUS_KEYS:
            self.status = self.status or _http_status(fields.get(key))
        request_id, delay = fields.get("request_id"), fields.get("retryDelay")
        if isinstance(request_id, str) and request_id:
            self.request_id = self.request_id or request_id
        if isinstance(delay, str) and (seconds := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", delay)):
            self.retry_after = float(seconds[1])


def _choice_error(fields: Mapping[str, object]) -> object:
    """The error that OpenRouter puts into a choice (https://openrouter.ai/docs/api-reference/overview)."""
    choices = fields.get("choices")
    first = cast(list[object], choices)[0] if isinstance(choices, list) and choices else None
    return (cast(dict[str, object], first).get("error") or None) if isinstance(first, dict) else None


def _http_status(value: object) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and 400 <= value <= 599 else None


def _decoded(data: bytes) -> object:
    """The JSON value of an object, array or string; None for everything else."""
    try:
        value: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return value if isinstance(value, (dict, list, str)) else None


def _short(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[:MAX_MESSAGE_CHARS] + " ..."
