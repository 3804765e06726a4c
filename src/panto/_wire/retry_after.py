"""When a provider wants to be asked again: `Retry-After` in every form that is met.

The law: a good value gives seconds that are never negative, anything else gives None, and nothing raises. The forms
are those of RFC 9110, sections 5.6.7 and 10.2.3 (seconds, or one of three date formats), fractions of seconds,
`retry-after-ms` (Azure OpenAI; read by the official OpenAI and Anthropic SDKs) and lists, which HTTP libraries make of
a header that was sent twice. Of several good values the largest wins: Azure sends `retry-after: 1` beside
`retry-after-ms: 0`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

_NUMBER: Final = re.compile(r"\d{1,12}(?:\.\d{0,12})?|\.\d{1,12}", re.ASCII)
_CLOCK: Final = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATES: Final = (
    # Sun, 06 Nov 1994 08:49:37 GMT; Sunday, 06-Nov-94 08:49:37 GMT; Sun Nov  6 08:49:37 1994
    re.compile(
        rf"[a-z]+, (?P<day>\d\d?)[ -](?P<month>[a-z]{{3}})[ -](?P<year>\d{{4}}|\d\d) {_CLOCK} (?:gmt|utc|\+0000)"
    ),
    re.compile(rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) +(?P<day>\d\d?) {_CLOCK} (?P<year>\d{{4}})"),
)
_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS: Final = {name: i for i, name in enumerate(_MONTH_NAMES, start=1)}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait, or None where the headers say nothing that can be understood.

    Args:
        headers: Response headers, their names in lower case.
        now: Seconds since 1970-01-01 UTC; needed for dates, which give None without it. A date in the past gives 0.
    """
    told: list[float] = []
    plain = headers.get("retry-after", "")
    if len(plain) <= 200:
        told += _numbers(plain)
        if now is not None:
            told += [max(0.0, when - now) for when in _dates(plain)]
    in_ms = headers.get("retry-after-ms", "")
    if len(in_ms) <= 200:
        told += [ms / 1000 for ms in _numbers(in_ms)]
    return max(told, default=None)


def _numbers(value: str) -> list[float]:
    return [float(part) for part in map(str.strip, value.split(",")) if _NUMBER.fullmatch(part)]


def _dates(value: str) -> list[float]:
    found: list[float] = []
    for form in _DATES:
        for match in form.finditer(value.lower()):
            year = int(match["year"])
            if year < 100:
                year += 1900 if year >= 70 else 2000
            try:
                midnight = datetime(year, _MONTHS[match["month"]], int(match["day"]), tzinfo=UTC)
            except (KeyError, ValueError):
                continue
            hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"])
            if hour < 24 and minute < 60 and second <= 60:  # 60 is a leap second
                when = midnight + timedelta(hours=hour, minutes=minute, seconds=second)
                found.append((when - _EPOCH).total_seconds())
    return found
