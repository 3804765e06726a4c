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

    __slots__ = ("_by_index", "_details", "_extras", "_opaque")

    def __init__(self) -> None:
        self._details: list[_Entry] = []
        self._by_index: dict[str, list[_Entry]] = {}
        self._opaque: dict[str, None] = {}
        self._extras: dict[int | None, object] = {}

    def details(self, fragments: list[dict[str, object]]) -> None:
        """More of `reasoning_details`."""
        for fragment in fragments:
            same = self._by_index.setdefault(repr(fragment.get("index")), [])
            entry = _continued(same, fragment)
            if entry is None:
                self._details.append(entry := _Entry(fragment))
                same.append(entry)
            else:
                entry.add(fragment)

    def opaque(self, text: str) -> None:
        """More of `reasoning_opaque`."""
        self._opaque[text] = None

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
            kept.append((REASONING_DETAILS, _dumped([entry.value() for entry in self._details])))
        return kept


_SEALS: Final = ("signature", "data")
_WORDS: Final = ("text", "summary")


class _Entry:
    """One entry of `reasoning_details`; its words stay in pieces until it is asked for."""

    __slots__ = ("fields", "words")

    def __init__(self, fragment: dict[str, object]) -> None:
        self.fields = dict(fragment)
        self.words: dict[str, list[str]] = {}

    def add(self, fragment: dict[str, object]) -> None:
        for key, value in fragment.items():
            old = self.fields.get(key)
            if not isinstance(value, str) or not isinstance(old, str):
                if value is not None:
                    self.fields[key] = value
                    self.words.pop(key, None)
            elif key in _WORDS:
                self.words.setdefault(key, [old]).append(value)
            elif key in _SEALS:
                self.fields[key] = old if value == old else old + value
            else:
                self.fields[key] = value

    def value(self) -> dict[str, object]:
        return {**self.fields, **{key: "".join(pieces) for key, pieces in self.words.items()}}


def _continued(entries: list[_Entry], fragment: dict[str, object]) -> _Entry | None:
    """The entry that the fragment continues: the last one of its index, if it is not whole and of its kind."""
    for entry in reversed(entries):
        if not any(_differ(entry.fields.get(key), fragment.get(key)) for key in ("type", "id")):
            return None if _whole(entry.fields, fragment) else entry
    return None


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
