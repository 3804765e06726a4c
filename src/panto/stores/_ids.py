"""Names of sessions: how an id is made, and which one a user means.

Law: an id is a UUIDv7, so that names sort by age; a user may write any beginning of it, in either case, with or
without hyphens; what names several, nothing, or a place outside the store is an error and never a guess.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from panto.errors import AmbiguousSession, SessionError
from panto.session import SessionInfo

__all__ = ["ambiguous", "check_id", "created_of", "fitting", "is_id", "new_id", "now", "stamp_of"]

_LEGAL = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
_SHOWN = 10
"""So many candidates an error lists; it says how many more there are."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_id() -> str:
    """A new UUIDv7 (RFC 9562, method 3: the 12 bits after the milliseconds are their fraction, then 62 random bits)."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    random = int.from_bytes(os.urandom(8), "big") >> 2
    value = (milliseconds & (1 << 48) - 1) << 80 | 7 << 76 | (rest * 4096 // 1_000_000) << 64 | 2 << 62 | random
    return str(uuid.UUID(int=value))


def now() -> str:
    """The time as records hold it: ISO 8601 in UTC with microseconds, so that text sorts as time does."""
    return _stamp(datetime.now(UTC))


def stamp_of(seconds: float) -> str:
    """A time of the operating system, seconds since 1970, as records hold it."""
    return _stamp(datetime.fromtimestamp(seconds, UTC))


def created_of(id: str, otherwise: str) -> str:
    """When the session was made: told by its id if that is a UUIDv7, else `otherwise`."""
    try:
        value = uuid.UUID(id)
        return _stamp(_EPOCH + timedelta(milliseconds=value.int >> 80)) if value.version == 7 else otherwise
    except (ValueError, OverflowError):
        return otherwise


def is_id(name: str) -> bool:
    """Whether `name` can name a session: letters, digits, hyphens, underscores, at most 128."""
    return _LEGAL.fullmatch(name) is not None


def check_id(id: str) -> str:
    """`id` if it can name a session, else `SessionError`."""
    if not is_id(id):
        raise SessionError(f"{id!r} is no session id; an id looks like 0195f2c4-7a51-7c3e-9d2b-4f6a8e1b0c77")
    return id


def fitting(wanted: str, ids: Iterable[str]) -> list[str]:
    """The ids that `wanted` names: the one it equals, or else all that begin so.

    Raises `SessionError` when `wanted` is empty or cannot be the beginning of an id.
    """
    text = wanted.strip()
    if not text:
        raise SessionError("the session id is empty; give an id or the beginning of one (an unset variable?)")
    check_id(text)
    known = list(ids)
    if text in known:
        return [text]
    plain = _plain(text)
    if equal := [id for id in known if _plain(id) == plain]:
        return equal
    return [id for id in known if _plain(id).startswith(plain)]


def ambiguous(wanted: str, candidates: Sequence[SessionInfo]) -> AmbiguousSession:
    """The error that lists whom `wanted` may mean: id, time of the last message, first words of what was asked last."""
    lines = [f"  {info.id}  {info.modified}  {info.last_user_message[:60]}".rstrip() for info in candidates[:_SHOWN]]
    if len(candidates) > _SHOWN:
        lines.append(f"  and {len(candidates) - _SHOWN} more")
    what = f"{wanted.strip()!r} fits {len(candidates)} sessions; give more of the id:\n" + "\n".join(lines)
    return AmbiguousSession(what, [info.id for info in candidates])


def _plain(id: str) -> str:
    return id.replace("-", "").lower()


def _stamp(when: datetime) -> str:
    return when.isoformat(timespec="microseconds").replace("+00:00", "Z")
