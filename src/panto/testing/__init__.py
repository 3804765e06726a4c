"""Kits for testing what is built on panto; each part is loaded when it is first named.

Law: product, not test helpers: documented, typed, and without any test framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .store_conformance import StoreCheck as StoreCheck
    from .store_conformance import check_store as check_store
    from .store_conformance import check_store_async as check_store_async
    from .store_conformance import store_checks as store_checks

_HOMES = {
    "StoreCheck": "store_conformance",
    "check_store": "store_conformance",
    "check_store_async": "store_conformance",
    "store_checks": "store_conformance",
}
"""Name -> module. A new name is one line here, one above and one below."""

__all__ = ["StoreCheck", "check_store", "check_store_async", "store_checks"]


def __getattr__(name: str) -> object:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
