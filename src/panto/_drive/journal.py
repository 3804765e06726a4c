"""What a run asked of the world and what it got, as JSON lines.

Law: a line has what a replay needs and what makes a difference visible, and never a key: keys that the core asks for
are noted as asked for, request headers are left out, and where a provider repeats a key it is struck out.

The lines: `begin` what was called, and with what; `effect` with its reply, or with what it raised; `cancel` after how
many events; `end`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar, cast

import msgspec

from panto import errors
from panto._core.effects import (
    Append,
    CallUser,
    CloseResponse,
    Effect,
    Finished,
    Jitter,
    NewId,
    NextSignal,
    Now,
    Open,
    Opened,
    Recv,
    Signal,
    Sleep,
    StartTools,
    StopTools,
    TransportFailure,
)
from panto._secret import Secret
from panto.conversation import Conversation, Message
from panto.errors import ErrorKind
from panto.tools import Allow, Ask, Change, Deny, Pause, ToolCall, ToolCallResult, ToolDecl

T = TypeVar("T")

Line: TypeAlias = "dict[str, object]"

NAMES: dict[type[Effect[object]], str] = {
    Open: "open",
    Recv: "recv",
    CloseResponse: "close_response",
    Sleep: "sleep",
    Now: "now",
    NewId: "new_id",
    Jitter: "jitter",
    StartTools: "start_tools",
    NextSignal: "next_signal",
    StopTools: "stop_tools",
    Append: "append",
    CallUser: "call_user",
}
"""What each effect is called in a journal."""

KEPT_OUT = ("set-cookie", "authorization", "x-api-key")
"""Headers of an answer that no replay needs and that may hold what nobody should see."""


# ---------------------------------------------------------------- what was asked


def asked(effect: Effect[object]) -> Line:
    """What an effect asks, as far as a replay compares it."""
    match effect:
        case Open():
            return {"url": effect.request.url, "body": _body(effect.request.body)}
        case Sleep():
            return {"seconds": effect.seconds}
        case StartTools():
            return {"jobs": [{"calls": plain(job.calls), "timeout": job.timeout} for job in effect.jobs]}
        case Append():
            return {"messages": [plain(record.message) for record in effect.records]}
        case CallUser():
            return {"given": [plain(value) for value in effect.args if isinstance(value, GIVEN)]}
        case _:
            return {}


GIVEN = (ToolCall, ToolCallResult, Message)
"""What a replay compares of the arguments that the user's code gets: not ids of sessions, which are new each time."""


def _body(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body.decode("utf-8", "replace")


# ---------------------------------------------------------------- replies


def replied(effect: Effect[object], reply: object) -> object:
    """A reply as JSON."""
    match effect:
        case Open():
            assert isinstance(reply, Opened)
            headers = {name: value for name, value in reply.headers.items() if name not in KEPT_OUT}
            return {"status": reply.status, "headers": {name: effect.request.strike(headers[name]) for name in headers}}
        case Recv():
            return written(cast(bytes, reply))
        case NextSignal():
            told = cast(Line, plain(reply))
            if isinstance(reply, Finished):
                told["lists"] = [at for at, result in enumerate(reply.results) if isinstance(result.parts, list)]
            return told
        case CallUser():
            return _returned(effect, reply)
        case _:
            return reply


def reply_from(effect: Effect[object], told: object) -> object:
    """The reply that `replied` wrote."""
    match effect:
        case Open():
            return msgspec.convert(told, Opened)
        case Recv():
            return read(told)
        case NextSignal():
            return _signal(cast(Line, told))
        case CallUser():
            return _given_back(cast(Line, told))
        case _:
            return told


def written(data: bytes) -> object:
    """Bytes as JSON: as text if they are UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"latin-1": data.decode("latin-1")}


def read(told: object) -> bytes:
    """The bytes that `written` wrote."""
    return told.encode("utf-8") if isinstance(told, str) else cast("dict[str, str]", told)["latin-1"].encode("latin-1")


def _signal(told: Line) -> Signal:
    lists = cast("Sequence[int]", told.pop("lists", ()))
    signal: Signal = msgspec.convert(told, Signal)
    if isinstance(signal, Finished):
        results = tuple(result if at in lists else _tupled(result) for at, result in enumerate(signal.results))
        return Finished(signal.job, results)
    return signal


def _tupled(result: ToolCallResult) -> ToolCallResult:
    return msgspec.structs.replace(result, parts=tuple(result.parts))


class _Talk(msgspec.Struct):
    metadata: str | None
    messages: list[Message]


STRUCTS = (Allow, Deny, Change, Ask, Pause, ToolCallResult)


def _returned(effect: CallUser[object], reply: object) -> Line:
    """What the user's code returned, with its kind."""
    if effect.secret or isinstance(reply, Secret):
        return {"kind": "secret", "value": reply is not None}
    if isinstance(reply, Conversation):
        return {"kind": "conversation", "value": plain(_Talk(reply.metadata, reply.messages))}
    if isinstance(reply, STRUCTS):
        return {"kind": type(reply).__name__, "value": plain(reply)}
    if isinstance(reply, (list, tuple)) and all(isinstance(item, ToolDecl) for item in cast("list[object]", reply)):
        return {"kind": "decls", "value": plain(reply)}
    if reply is None or isinstance(reply, (bool, int, float, str)):
        return {"kind": "plain", "value": reply}
    return {"kind": "unknown", "value": type(reply).__name__}


def _given_back(told: Line) -> object:
    kind, value = told["kind"], told["value"]
    if kind == "secret":
        return Secret("replayed") if value else None
    if kind == "conversation":
        talk = msgspec.convert(value, _Talk)
        return Conversation(talk.metadata, talk.messages)
    if kind == "decls":
        return msgspec.convert(value, list[ToolDecl])
    if kind == "plain":
        return value
    for struct in STRUCTS:
        if struct.__name__ == kind:
            made: object = msgspec.convert(value, struct)
            return _tupled(made) if isinstance(made, ToolCallResult) else made
    return _Unknown(str(value))


class _Unknown:
    """Something of the user's own that a journal does not hold; no loop takes it."""

    def __init__(self, name: str) -> None:
        self.name = name


# ---------------------------------------------------------------- what the user's code changed


def messages_of(effect: Effect[object]) -> list[Message]:
    """The messages that the user's code may change: `before_append` sets their metadata."""
    return [value for value in effect.args if isinstance(value, Message)] if isinstance(effect, CallUser) else []


def change(message: Message, told: object) -> None:
    """Make a message what it was after the user's code had it."""
    now = msgspec.convert(told, Message)
    for name in message.__struct_fields__:
        setattr(message, name, getattr(now, name))


# ---------------------------------------------------------------- errors


class ReplayedError(Exception):
    """An exception of a kind that a journal cannot make again; `kind` is its name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def raised(error: BaseException, strike: Callable[[str], str]) -> Line:
    """An exception as JSON."""
    if isinstance(error, TransportFailure):
        return {"type": "TransportFailure", "kind": str(error.kind), "message": strike(error.message)}
    args = [strike(arg) if isinstance(arg, str) else arg for arg in error.args]
    if not all(arg is None or isinstance(arg, (bool, int, float, str)) for arg in args):
        args = [strike(str(error))]
    return {"type": type(error).__name__, "args": args}


def error_from(told: Mapping[str, object]) -> Exception:
    """The exception that `raised` wrote."""
    name = str(told["type"])
    if name == "TransportFailure":
        return TransportFailure(ErrorKind(str(told["kind"])), str(told["message"]))
    args = cast("list[object]", told["args"])
    kind: object = getattr(errors, name, None) or getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            made: Exception = kind(*args)
        except TypeError:
            pass  # it wants more than its arguments tell
        else:
            return made
    return ReplayedError(name, ", ".join(map(str, args)))


def kind_of(error: Exception) -> str:
    """The name of an exception's kind, as it was when it was recorded."""
    return error.kind if isinstance(error, ReplayedError) else type(error).__name__


# ---------------------------------------------------------------- keys


STRUCK = "***"


def without(pieces: Sequence[bytes], strike: Callable[[str], str]) -> list[bytes]:
    """The pieces of an answer without what `strike` strikes, also where a cut goes through it.

    A piece that held nothing else is then empty.
    """
    whole = b"".join(pieces).decode("latin-1")
    struck = strike(whole)
    if struck == whole:
        return list(pieces)
    done: list[bytes] = []
    spans = _spans(whole, struck, strike)
    at = 0
    for piece in pieces:
        kept = ""
        for offset, char in enumerate(piece.decode("latin-1"), at):
            start = spans.get(offset)
            kept += char if start is None else STRUCK if start == offset else ""
        done.append(kept.encode("latin-1"))
        at += len(piece)
    return done


def _spans(whole: str, struck: str, strike: Callable[[str], str]) -> dict[int, int]:
    """Each position in `whole` that was struck, and where its secret starts."""
    spans: dict[int, int] = {}
    at = there = 0
    while at < len(whole):
        if there < len(struck) and whole[at] == struck[there]:
            at, there = at + 1, there + 1
            continue
        ends = (end for end in range(at + 1, len(whole) + 1) if strike(whole[at:end]) == STRUCK)
        end = next(ends, len(whole))
        spans.update(dict.fromkeys(range(at, end), at))
        at, there = end, there + len(STRUCK)
    return spans


def plain(value: object) -> object:
    """A value as JSON has it."""
    return msgspec.to_builtins(value, str_keys=True)
