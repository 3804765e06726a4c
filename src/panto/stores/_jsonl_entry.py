"""One line of a session file: what it says, and how it is read again.

Law: a line is one JSON object in UTF-8, and holds all that a message is. Reading asks for no more than it needs, takes
what it does not know out of the way, and never fails on what somebody else wrote: a line is an entry, or it is skipped.

    {"type":"session","version":1,"id":...,"created":...,"metadata":...}                                first
    {"type":"message","id":...,"time":...,"message":{...},"usage":{...},"wire":{...},"tail":{...}}      then
    {"type":"compaction", the same, the message holding the summary}

What is told by the entry is left out of its message: its id, its usage, and the identity of an answer, each where it
is the same. A text with lone surrogates, which UTF-8 cannot carry, is written as JSON escapes (`\\udce9`), the rest of
its line too, and comes back as it was.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from panto.config import APIStyle, ReasoningEffort, StopReason, WireIdentity
from panto.conversation import ContentBlock, Message, MessageRole, ToolResultBlock
from panto.session import PersistentMessage
from panto.usage import Usage

from . import _ids
from ._tail import Tail, is_compaction, words_of

__all__ = [
    "COMPACTION",
    "VERSION",
    "BadLine",
    "Entry",
    "EntryAtOnce",
    "Header",
    "Prepared",
    "header_line",
    "prepare",
    "read_entry",
    "read_header",
    "read_message",
    "read_tail",
]

VERSION = 1
"""The version of the format that this module writes, and the highest it reads."""

COMPACTION = b'{"type":"compaction"'
"""How the line of a compaction begins."""

EntryType: TypeAlias = Literal["message", "compaction"]

_T = TypeVar("_T")
_log = logging.getLogger("panto")


class BadLine(ValueError):
    """A line that is no entry."""


class Header(msgspec.Struct, frozen=True):
    """The first line of a file."""

    type: str
    version: int = VERSION
    id: str = ""
    created: str = ""
    metadata: str | None = None


class StoredMessage(msgspec.Struct, omit_defaults=True):
    """A message as an entry holds it; what is unset stands in the entry."""

    role: MessageRole
    content: list[ContentBlock]
    metadata: str | None = None
    id: str | UnsetType | None = UNSET
    identity: WireIdentity | UnsetType | None = UNSET
    usage: Usage | UnsetType | None = UNSET
    stop_reason: StopReason | None = None
    stop_raw: str | None = None


class _Written(msgspec.Struct):
    """An entry without its tail."""

    type: EntryType
    id: str
    time: str
    message: StoredMessage
    usage: Usage | None
    wire: WireIdentity | None


class Entry(msgspec.Struct, frozen=True):
    """An entry read. `message` is in bytes until it is looked at, empty for a type that this version does not know."""

    type: str
    id: str | None = None
    time: str = ""
    usage: Usage | None = None
    wire: WireIdentity | None = None
    message: msgspec.Raw = msgspec.Raw(b"")


class EntryAtOnce(msgspec.Struct, frozen=True):
    """The same, its message decoded with it: a third faster where it will be looked at anyway."""

    type: str
    id: str | None = None
    time: str = ""
    usage: Usage | None = None
    wire: WireIdentity | None = None
    message: StoredMessage | None = None


class Prepared(msgspec.Struct, frozen=True):
    """A record encoded when it was offered, waiting for the tail it will have when it is written."""

    id: str
    answers: bool
    body: bytes
    counts: bool
    time: str
    stamp: WireIdentity | None
    words: str

    def line(self, before: Tail) -> tuple[bytes, Tail]:
        """The whole line, and the tail after it."""
        tail = before.after(counts=self.counts, time=self.time, stamp=self.stamp, words=self.words)
        return b"".join((self.body, b',"tail":', _json(tail), b"}\n")), tail


# ---------------------------------------------------------------- writing


def header_line(id: str, metadata: str | None, time: str) -> bytes:
    """The first line of the file of session `id`, whose first record is of `time`."""
    return _json(Header("session", VERSION, id, _ids.created_of(id, time), metadata)) + b"\n"


def prepare(record: PersistentMessage, time: str) -> Prepared:
    """Encode a record now: what it holds is live and may change afterwards."""
    message = record.message
    told = record.identity if message.role is MessageRole.ASSISTANT else None
    summary = is_compaction(message)
    entry_id = message.id or _ids.new_id()
    written = _Written(
        "compaction" if summary else "message",
        entry_id,
        time,
        StoredMessage(
            message.role,
            message.content,
            message.metadata,
            UNSET if message.id == entry_id else message.id,
            UNSET if message.identity == told else message.identity,
            UNSET if message.usage == record.usage else message.usage,
            message.stop_reason,
            message.stop_raw,
        ),
        record.usage,
        record.identity,
    )
    return Prepared(
        id=entry_id,
        answers=message.role is MessageRole.ASSISTANT,
        body=_json(written)[:-1],
        counts=not summary,
        time=time,
        stamp=record.identity,
        words=words_of(message),
    )


def _json(value: msgspec.Struct) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _escaped(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        if not isinstance(value, _Written):
            raise
        # `details` alone may hold what is no JSON; the session must not fail on it now and at every later append
        bare: list[ContentBlock] = [
            msgspec.structs.replace(block, details=None) if isinstance(block, ToolResultBlock) else block
            for block in value.message.content
        ]
        _log.warning("the details of a tool result are no JSON; message %s is stored without them", value.id)
        value.message.content = bare
        try:
            return msgspec.json.encode(value)
        except UnicodeEncodeError:
            return _escaped(value)


def _escaped(value: msgspec.Struct) -> bytes:
    """The same JSON in ASCII. Only this way a lone surrogate has a form that can be read again."""
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":"), ensure_ascii=True).encode("ascii")


# ---------------------------------------------------------------- reading

_header = msgspec.json.Decoder(Header)
_entry = msgspec.json.Decoder(Entry)
_at_once = msgspec.json.Decoder(EntryAtOnce)
_message = msgspec.json.Decoder(StoredMessage)
_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)


def read_header(line: bytes) -> Header | None:
    """The header in the first line of a file, or `None` if it is none."""
    line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        header = _header.decode(line)
    except _ERRORS:
        loose = _object(line)
        if loose is None:
            return None
        header = Header(
            type=_word(loose.get("type")) or "",
            version=_number(loose.get("version")),
            id=_word(loose.get("id")) or "",
            created=_word(loose.get("created")) or "",
            metadata=_word(loose.get("metadata")),
        )
    return header if header.type == "session" else None


def read_entry(line: bytes, at_once: bool = False) -> Entry | EntryAtOnce:
    """The entry in a line, its message in bytes or decoded at once. Raises `BadLine` if it is none."""
    try:
        return (_at_once if at_once else _entry).decode(line)
    except _ERRORS:
        pass
    loose = _object(line)
    kind = _word(loose.get("type")) if loose else None
    if loose is None or kind is None:
        raise BadLine
    if kind not in ("message", "compaction"):
        return Entry(kind)
    message = loose.get("message")
    return Entry(
        kind,
        _word(loose.get("id")),
        _word(loose.get("time")) or "",
        _loose(loose.get("usage"), Usage),
        _identity(loose.get("wire")),
        msgspec.Raw(json.dumps(message).encode("ascii")),
    )


def read_message(entry: Entry | EntryAtOnce) -> Message:
    """The message of an entry. Raises `BadLine` if there is none in it.

    Blocks, stop reasons and the like that this version does not know are left out, with a warning for blocks.
    """
    if entry.message is None:
        raise BadLine
    stored = entry.message if isinstance(entry.message, StoredMessage) else _decoded(entry.message)
    identity = stored.identity
    if identity is UNSET:
        identity = entry.wire if stored.role is MessageRole.ASSISTANT else None
    return Message(
        stored.role,
        stored.content,
        stored.metadata,
        entry.id if stored.id is UNSET else stored.id,
        identity,
        entry.usage if stored.usage is UNSET else stored.usage,
        stored.stop_reason,
        stored.stop_raw,
    )


def _decoded(raw: msgspec.Raw) -> StoredMessage:
    try:
        return _message.decode(raw)
    except _ERRORS:
        return _loose_message(bytes(raw))


def _loose_message(raw: bytes) -> StoredMessage:
    loose = _object(raw)
    if loose is None:
        raise BadLine
    try:
        role = MessageRole(str(loose.get("role")))
    except ValueError:
        raise BadLine from None
    blocks = loose.get("content")
    if not isinstance(blocks, list):
        raise BadLine
    content: list[ContentBlock] = []
    for block in blocks:
        try:
            content.append(msgspec.convert(block, ContentBlock))
        except _ERRORS:
            kind = block.get("kind") if isinstance(block, dict) else None
            _log.warning("a block of a kind this version of panto cannot read is left out (%.40r)", kind)
    reason = loose.get("stop_reason")
    return StoredMessage(
        role,
        content,
        _word(loose.get("metadata")),
        _word(loose["id"]) if "id" in loose else UNSET,
        _identity(loose["identity"]) if "identity" in loose else UNSET,
        _loose(loose["usage"], Usage) if "usage" in loose else UNSET,
        None if reason is None else _loose(reason, StopReason) or StopReason.UNKNOWN,
        _word(loose.get("stop_raw")),
    )


def _object(line: bytes) -> dict[str, object] | None:
    """The JSON object in `line` by the standard library, which takes lone surrogates and huge numbers; or `None`."""
    try:
        found: object = json.loads(line.decode("utf-8", "surrogatepass"))
    except _ERRORS:
        return None
    return found if isinstance(found, dict) else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else VERSION


def _loose(value: object, type: type[_T]) -> _T | None:
    try:
        return msgspec.convert(value, type)
    except _ERRORS:
        return None


def _identity(value: object) -> WireIdentity | None:
    """An identity; an effort that this version does not know counts as the default, an unknown wire as nobody."""
    if not isinstance(value, dict):
        return None
    style, url, model = (
        _loose(value.get("api_style"), APIStyle),
        _word(value.get("base_url")),
        _word(value.get("model")),
    )
    if style is None or url is None or model is None:
        return None
    return WireIdentity(style, url, model, _loose(value.get("reasoning"), ReasoningEffort) or ReasoningEffort.DEFAULT)


# ---------------------------------------------------------------- the end of a file

_tail = msgspec.json.Decoder(Tail)
_TAIL = b',"tail":{'
_ANY_TAIL = re.compile(rb',\s*"tail"\s*:\s*(?=\{)')


def read_tail(block: bytes) -> Tail | None:
    """The last tail in the last bytes of a file, which may begin and end in the middle of a line.

    Between quotes every quote is escaped, so that no text of a user can look like a tail.
    """
    end = len(block)
    while (at := block.rfind(_TAIL, 0, end)) >= 0:
        if (tail := _tail_at(block, at + len(_TAIL) - 1)) is not None:
            return tail
        end = at
    # written anew by another program, with spaces
    for found in reversed(list(_ANY_TAIL.finditer(block))):
        if (tail := _tail_at(block, found.end())) is not None:
            return tail
    return None


def _tail_at(block: bytes, start: int) -> Tail | None:
    stop = block.find(b"\n", start)
    text = block[start : None if stop < 0 else stop].rstrip()
    if not text.endswith(b"}"):
        return None
    try:
        return _tail.decode(text[:-1])
    except _ERRORS:
        loose = _object(text[:-1])
    if loose is None:
        return None
    count = loose.get("count")
    return Tail(
        count if isinstance(count, int) else 0,
        _word(loose.get("time")) or "",
        _identity(loose.get("stamp")),
        _word(loose.get("last_user")) or "",
    )
