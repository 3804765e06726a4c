"""Text that can be encoded: surrogate pairs joined, lone surrogates replaced.

Law: what comes out can always be written as UTF-8, and text without surrogates comes out as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from panto.config import JSON

REPLACEMENT = "\ufffd"
"""What stands where a lone surrogate stood."""


def well_formed(text: str) -> str:
    r"""The text without surrogates.

    >>> well_formed("caf\udce9 \ud83d\ude00") == "caf\ufffd \U0001f600"
    True
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def split_pair(text: str) -> tuple[str, str]:
    """The text, well formed, without the half of a pair at its end, and that half: the other may come with more."""
    half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return well_formed(text[:-1] if half else text), half


def well_formed_json(value: JSON | Mapping[str, JSON]) -> JSON:
    """The same JSON value, made of plain dicts and lists, every string in it well formed."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return {well_formed(str(key)): well_formed_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [well_formed_json(item) for item in value]
    return value
