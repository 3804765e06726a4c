"""Stores of sessions, one a file; each is loaded when it is first named.

Law: a store knows sessions and what is below them, never agents or wires.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .jsonl import FileSystemJSONLStore as FileSystemJSONLStore
    from .memory import MemoryStore as MemoryStore
    from .null import NullStore as NullStore

_HOMES = {
    "FileSystemJSONLStore": "jsonl",
    "MemoryStore": "memory",
    "NullStore": "null",
}
"""Name -> module. A new store is one line here and one above."""

__all__ = ["FileSystemJSONLStore", "MemoryStore", "NullStore"]


def __getattr__(name: str) -> object:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
