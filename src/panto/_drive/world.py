"""What both drivers answer in the same way: the clock, ids, chance, and requests made ready for a transport.

Law: a key leaves its `Secret` here, on its way into the transport, and nowhere else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from panto._core.effects import CallUser, Effect, Jitter, NewId, Now, Open, Raised, Recv, TransportFailure
from panto._secret import Secret, clean_key
from panto._wire.protocol import HTTPRequest
from panto.errors import ConfigError, ErrorKind, StoreError

from .clock import Clock
from .http import TransportError


def new_id() -> str:
    """A UUID of version 7 (RFC 9562): 48 bits of milliseconds, then chance; ordered by time."""
    value = int.from_bytes(os.urandom(16), "big")
    value = (time.time_ns() // 1_000_000) << 80 | value & ((1 << 80) - 1)
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(3 << 62) | 2 << 62
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def instant(clock: Clock) -> dict[type[Effect[object]], Callable[[], object]]:
    """The effects whose reply takes no waiting, and what gives it."""
    return {Now: clock.time, NewId: new_id, Jitter: clock.chance}


def outgoing(effect: Open) -> tuple[str, dict[str, str], bytes]:
    """URL, headers and body of a request, secrets opened: for the transport alone."""
    request: HTTPRequest = effect.request
    url = request.secret_url() if request.secret_url is not None else request.url
    headers = {name: value() if isinstance(value, Secret) else value for name, value in request.headers.items()}
    return url, headers, request.body


def reply_of(effect: CallUser[object], returned: object) -> object:
    """What the user's code returned, a key wrapped up at once.

    What is no key fails the effect. That is a reply and not raised here, where a traceback would show the key.
    """
    if not effect.secret or returned is None or isinstance(returned, Secret):
        return returned
    if not isinstance(returned, str):
        return Raised(ConfigError(f"the api_key callable must return a string, not {type(returned).__name__}"))
    try:
        key = clean_key(returned)
    except ConfigError as error:
        return Raised(error.with_traceback(None))
    return None if key is None else Secret(key)


def store_failure(store: object, error: Exception) -> StoreError:
    """A store's own error, or a `StoreError` for whatever else it raised."""
    if isinstance(error, StoreError):
        return error
    return StoreError(f"{type(store).__name__} could not store: {type(error).__name__}: {error}")


def transport_failure(effect: Effect[object], error: Exception) -> TransportFailure | None:
    """A transport's error as the core knows it, also what a caller's own transport raised; `None` for any other."""
    if isinstance(error, TransportError):
        return TransportFailure(error.kind, error.message)
    if not isinstance(effect, (Open, Recv)):
        return None
    kind = ErrorKind.TIMEOUT if isinstance(error, TimeoutError) else ErrorKind.CONNECTION
    return TransportFailure(kind, f"{type(error).__name__}: {error}")
