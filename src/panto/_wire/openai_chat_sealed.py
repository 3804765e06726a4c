"""What a router or vendor wants back byte for byte and panto has no type for: one `OpaqueBlock` a field.

Law: each signature and each encrypted string that came goes back as it came. Fragments of one index are joined.
`reasoning_details` are OpenRouter's (https://openrouter.ai/docs/use-cases/reasoning-tokens, 2026-12), `extra_content`
is Google's place for thought signatures (https://ai.google.dev/gemini-api/docs/thought-signatures, 2026-12),
`reasoning_opaque` is GitHub Copilot's.
"""

from __future__ import annotations

import json
from typing import Final

from panto._wire.surrogates import well_formed

REASONING_DETAILS: Final = "reasoning_details"
REASONING_OPAQUE: Final = "reasoning_opaque"
EXTRA_CONTENT: Final = "extra_content"


class Sealed:
    """Collects over one stream."""

    __slots__ = ("_details", "_extras", "_opaque")

    def __init__(self) -> None:
        self._details: list[dict[str, object]] = []
        self._opaque: list[str] = []
        self._extras: dict[int | None, object] = {}

    def details(self, fragments: list[dict[str, object]]) -> None:
        """More of `reasoning_details`."""
        for fragment in fragments:
            entry = self._open(fragment)
            if entry is None:
                self._details.append(dict(fragment))
                continue
            for key, value in fragment.items():
                if key in _JOINED and isinstance(value, str) and isinstance(old := entry.get(key), str):
                    entry[key] = value if not old else old if value == old and key in _SEALS else old + value
                elif value is not None:
                    entry[key] = value

    def _open(self, fragment: dict[str, object]) -> dict[str, object] | None:
        """The entry that the fragment continues: the last one of its index, if it is not whole and of its kind."""
        index = fragment.get("index")
        for entry in reversed(self._details):
            if entry.get("index") != index:
                continue
            if any(_differ(entry.get(key), fragment.get(key)) for key in ("type", "id")):
                continue
            return None if _whole(entry, fragment) else entry
        return None

    def opaque(self, text: str) -> None:
        """More of `reasoning_opaque`."""
        if text not in self._opaque:
            self._opaque.append(text)

    def extra(self, call: int | None, content: object) -> None:
        """`extra_content` of the call with that number in its message, or of the message itself."""
        self._extras[call] = content

    def blocks(self) -> list[tuple[str, str]]:
        """Type and raw JSON of each block that is to be kept."""
        kept: list[tuple[str, str]] = []
        if self._extras:
            extras = [{"call": call, EXTRA_CONTENT: content} for call, content in self._extras.items()]
            kept.append((EXTRA_CONTENT, _dumped(extras)))
        if self._opaque:
            kept.append((REASONING_OPAQUE, _dumped("".join(self._opaque))))
        if self._details:
            kept.append((REASONING_DETAILS, _dumped(self._details)))
        return kept


_SEALS: Final = ("signature", "data")
_JOINED: Final = ("text", "summary", *_SEALS)


def _differ(old: object, new: object) -> bool:
    return bool(old) and bool(new) and old != new


def _whole(entry: dict[str, object], fragment: dict[str, object]) -> bool:
    """Whether the entry has its seal already, so that a fragment with another one begins the next entry."""
    for key in _SEALS:
        old, new = entry.get(key), fragment.get(key)
        if not (isinstance(old, str) and old and new and old != new):
            continue
        if old.endswith("=") or entry.get("index") is None:  # padded Base64 cannot go on
            return True
        if key == "signature" and (fragment.get("text") or fragment.get("summary")):
            return True
    return False


def _dumped(value: object) -> str:
    return well_formed(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
