"""What a canary key may be found in: everything that an object, an exception, a log or a file shows.

Law: no function here holds a canary in a local variable, since tracebacks are swept together with their locals.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import logging
import pickle
import pprint
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

MARK = "CANARY"
KEY = "sk-CANARY-1-key"
TOKEN = "CANARY-2-token"
QUERY = "CANARY-3-query"
PASSWORD = "CANARY-4/pass"
PROXY = "CANARY-5-proxy"
USER = "user"


def _forms() -> list[str]:
    """Each canary as it may look: plain, in base64 with what stands before it in a header, and hashed."""
    forms = [MARK, quote(PASSWORD, safe="")]
    for word in (KEY, TOKEN, QUERY, PASSWORD, PROXY):
        for before in ("", ":", f"{USER}:", "Bearer "):
            whole = base64.b64encode((before + word).encode()).decode()
            forms.append(whole.rstrip("=")[:-1])  # the last character depends on what follows
        forms += [hashlib.new(kind, word.encode()).hexdigest() for kind in ("md5", "sha1", "sha256", "sha512")]
    return forms


FORMS = _forms()


def leaks(text: str) -> int:
    """How many forms of canaries are in `text`. A number, so that a failing assertion shows none itself."""
    return sum(form in text for form in FORMS)


def where(text: str) -> str:
    """The surroundings of the first leak, for whoever mends it."""
    at = min((text.find(form) for form in FORMS if form in text), default=0)
    return f"{text[max(0, at - 300) : at]}>>>{text[at : at + 60]}".replace("\n", "\\n")


def clean(*texts: str) -> None:
    """Assert that none of the texts shows a canary."""
    for text in texts:
        if leaks(text):
            raise AssertionError(f"a canary is shown: ...{where(text)}...")


def shown(value: object) -> str:
    """All that a printer, a debugger or a serialiser would show of a value and of what it holds."""
    return "\n".join(_told(one) for one in reach(value))


def reach(value: object) -> Iterator[object]:
    """A value, and what it holds as long as that is panto's own or a container; no closure is looked into."""
    todo, seen = [value], dict[int, object]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        yield one
        if isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            todo += one
        elif type(one).__module__.startswith("panto"):
            todo += attributes(one).values()


def attributes(one: object) -> dict[str, object]:
    """What a value has: its fields, slots and dictionary."""
    names = list(getattr(type(one), "__struct_fields__", ()))
    names += [name for kind in type(one).__mro__ for name in _slots(kind)]
    held = {name: getattr(one, name) for name in names if hasattr(one, name)}
    return {**held, **getattr(one, "__dict__", {})}


def _slots(kind: type) -> list[str]:
    slots = kind.__dict__.get("__slots__", ())
    return [slots] if isinstance(slots, str) else [name for name in slots if isinstance(name, str)]


def _told(one: object) -> str:
    parts = [repr(one), str(one), f"{one}", "%s" % (one,), pprint.pformat(one), ascii(one)]  # noqa: UP031
    if isinstance(one, bytes):
        parts.append(one.decode("latin-1"))
    if isinstance(one, msgspec.Struct) or type(one).__module__.startswith("panto.config"):
        for way in WAYS.values():
            try:
                parts.append(str(way(one)))
            except (TypeError, AttributeError, NotImplementedError, pickle.PicklingError) as error:
                parts.append(str(error))
    return "\n".join(parts)


WAYS: Mapping[str, Any] = {
    "asdict": lambda one: msgspec.structs.asdict(one),
    "astuple": lambda one: msgspec.structs.astuple(one),
    "to_builtins": lambda one: msgspec.to_builtins(one),
    "to_builtins with a hook": lambda one: msgspec.to_builtins(one, enc_hook=repr),
    "json": lambda one: msgspec.json.encode(one),
    "json with a hook": lambda one: msgspec.json.encode(one, enc_hook=str),
    "msgpack": lambda one: msgspec.msgpack.encode(one, enc_hook=str),
    "vars": lambda one: vars(one),
    "copy": lambda one: copy.copy(one),
    "deepcopy": lambda one: copy.deepcopy(one),
    "pickle": lambda one: pickle.dumps(one).decode("latin-1"),
    "rich": lambda one: list(one.__rich_repr__()),
}
"""The ways to write a value out. One that refuses shows its refusal."""


def told_of(error: BaseException) -> str:
    """What a reporter of errors may show: text, attributes, causes, contexts, frames with their locals."""
    parts: list[str] = []
    todo: list[BaseException | None] = [error]
    seen: list[BaseException] = []
    while todo:
        one = todo.pop()
        if one is None or one in seen:
            continue
        seen.append(one)
        parts += [repr(one), str(one), repr(one.args), shown(vars(one)), repr(getattr(one, "__notes__", None))]
        parts += traceback.TracebackException.from_exception(one, capture_locals=True).format()
        todo += [one.__cause__, one.__context__]
        todo += getattr(one, "exceptions", ())
    return "\n".join(parts)


class Logged:
    """All that any logger said."""

    def __init__(self) -> None:
        self.records: list[logging.LogRecord] = []

    def by(self, library: str) -> int:
        """How many records a library wrote."""
        return sum(record.name == library or record.name.startswith(library + ".") for record in self.records)

    @property
    def text(self) -> str:
        """The records, with their arguments and whatever hangs at them."""
        parts: list[str] = []
        for record in self.records:
            parts += [record.getMessage(), repr(record.__dict__)]
            if record.exc_info and record.exc_info[1] is not None:
                parts.append(told_of(record.exc_info[1]))
        return "\n".join(parts)


@contextmanager
def logging_everything() -> Iterator[Logged]:
    """Keep what every logger says, at every level, also those that appear meanwhile."""
    logged = Logged()

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.records.append(record)

    handler, root = Keep(0), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(1)
    try:
        yield logged
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


def files(folder: Path) -> str:
    """The names and the bytes of everything below a folder."""
    found = sorted(path for path in folder.rglob("*"))
    return "\n".join(f"{path}\n{path.read_bytes().decode('latin-1') if path.is_file() else ''}" for path in found)
