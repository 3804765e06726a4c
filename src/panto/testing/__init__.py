"""Kits for testing what is built on panto; each part is loaded when it is first named.

Law: product, not test helpers: documented, typed, and without any test framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .clock import FakeClock as FakeClock
    from .recorder import Journal as Journal
    from .recorder import Replayed as Replayed
    from .recorder import ReplayMismatch as ReplayMismatch
    from .recorder import record as record
    from .recorder import replay as replay
    from .requests import RecordedRequest as RecordedRequest
    from .requests import assert_request as assert_request
    from .requests import first_difference as first_difference
    from .script import Answer as Answer
    from .script import Step as Step
    from .script import call as call
    from .script import drop as drop
    from .script import fail as fail
    from .script import overflow as overflow
    from .script import raw as raw
    from .script import say as say
    from .script import think as think
    from .script import wait as wait
    from .scripted import ScriptedProvider as ScriptedProvider
    from .scripted import ScriptError as ScriptError
    from .server import ScriptedServer as ScriptedServer
    from .store_conformance import StoreCheck as StoreCheck
    from .store_conformance import check_store as check_store
    from .store_conformance import check_store_async as check_store_async
    from .store_conformance import store_checks as store_checks
    from .validate import validate_request as validate_request

_HOMES = {
    "FakeClock": "clock",
    "Journal": "recorder",
    "ReplayMismatch": "recorder",
    "Replayed": "recorder",
    "record": "recorder",
    "replay": "recorder",
    "RecordedRequest": "requests",
    "assert_request": "requests",
    "first_difference": "requests",
    "Answer": "script",
    "Step": "script",
    "call": "script",
    "drop": "script",
    "fail": "script",
    "overflow": "script",
    "raw": "script",
    "say": "script",
    "think": "script",
    "wait": "script",
    "ScriptError": "scripted",
    "ScriptedProvider": "scripted",
    "ScriptedServer": "server",
    "StoreCheck": "store_conformance",
    "check_store": "store_conformance",
    "check_store_async": "store_conformance",
    "store_checks": "store_conformance",
    "validate_request": "validate",
}
"""Name -> module. A new name is one line here, one above and one below."""

__all__ = [
    "Journal",
    "ReplayMismatch",
    "Replayed",
    "record",
    "replay",
    "Answer",
    "FakeClock",
    "RecordedRequest",
    "ScriptError",
    "ScriptedProvider",
    "ScriptedServer",
    "Step",
    "StoreCheck",
    "assert_request",
    "call",
    "check_store",
    "check_store_async",
    "drop",
    "fail",
    "first_difference",
    "overflow",
    "raw",
    "say",
    "store_checks",
    "think",
    "validate_request",
    "wait",
]


def __getattr__(name: str) -> object:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
