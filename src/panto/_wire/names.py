"""Tool names and the names they have on the wire, there and back.

The law: every provider takes `^[a-zA-Z0-9_-]{1,64}$`, and one name that does not fit makes it refuse the whole request.
So each tool of an agent gets a wire name that fits and that no other tool of it has; a name that fits keeps itself, and
never loses to an encoded one. A wire name depends on the full name alone (a source's prefix is part of it): not on the
order of registration, not on the run. Only a clash changes that, and only for the encoded side of it.

OpenAI: "a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64"
(https://platform.openai.com/docs/api-reference/chat/create, 2026-12); Anthropic allows 128 characters of the same kind
(https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use, 2026-12). MCP allows dots and more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from panto.errors import ToolNameError

MAX_WIRE_NAME: Final = 64
"""Characters of the longest wire name."""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
_HASH_DIGITS: Final = 8


def encode(name: str) -> str:
    """The wire name of a tool where nothing clashes; legal for any string, the empty one included.

    A legal name is itself. In others each illegal character becomes an underscore; a name with characters beyond ASCII,
    which says little then, and one that is too long also get eight hex digits of their hash.

    >>> encode("calendar.create")
    'calendar_create'
    >>> encode("grep")
    'grep'
    """
    if _LEGAL.fullmatch(name):
        return name
    if not name or not name.isascii() or len(name) > MAX_WIRE_NAME:
        return _hashed(name)
    return _ILLEGAL.sub("_", name)


class NameTable:
    """The names of one agent's tools, both ways.

    Args:
        names: Of each tool the source it comes from (used in errors only) and its full name, in any order.

    Attributes:
        to_wire: Wire name by full name.
        from_wire: Full name by wire name. Its keys are exactly the names that go out with the tools.

    Raises:
        ToolNameError: A name is empty, or two tools have the same.

    >>> table = NameTable([("mcp", "catalog.query"), ("local", "catalog_query")])
    >>> table.to_wire["catalog_query"]
    'catalog_query'
    >>> table.from_wire[table.to_wire["catalog.query"]]
    'catalog.query'
    """

    __slots__ = ("from_wire", "to_wire")

    def __init__(self, names: Sequence[tuple[str, str]]) -> None:
        sources: dict[str, str] = {}
        for source, name in names:
            if not name:
                raise ToolNameError(f"a tool from {source or 'the agent'} has an empty name: give it one")
            if name in sources:
                first, second = sources[name] or "the agent", source or "the agent"
                raise ToolNameError(
                    f"a tool named {name!r} is there already, from {first}; "
                    f"the second one, from {second}, needs another name or a prefix"
                )
            sources[name] = source

        encoded = {name: encode(name) for name in sources}
        wanted = Counter(encoded.values())
        self.from_wire: dict[str, str] = {}
        for name, wire in encoded.items():
            if wanted[wire] == 1 or wire == name:
                self.from_wire[wire] = name
        for name in sorted(encoded):  # sorted: the order of registration must not show
            if wanted[encoded[name]] > 1 and encoded[name] != name:
                self.from_wire[self._free(name)] = name
        wire_names = {name: wire for wire, name in self.from_wire.items()}
        self.to_wire: dict[str, str] = {name: wire_names[name] for name in sources}

    def wire(self, name: str) -> str:
        """The wire name of any tool, for calls in a history whose tool is not registered any more too.

        It is always legal, the same for the same name, and never that of another tool which is registered.
        """
        known = self.to_wire.get(name)
        if known is not None:
            return known
        plain = encode(name)
        return self._free(name) if plain in self.from_wire else plain

    def name(self, wire: str) -> str:
        """The full name of the tool that a model calls; a name that is no tool's comes back as it is."""
        return self.from_wire.get(wire, wire)

    def _free(self, name: str) -> str:
        tries = 0
        wire = _hashed(name)
        while wire in self.from_wire:
            tries += 1
            wire = _hashed(name, str(tries))
        return wire


def _hashed(name: str, salt: str = "") -> str:
    """A readable start of the name and a hash of all of it."""
    from hashlib import sha256  # loads OpenSSL, and most agents have legal names only

    digest = sha256(f"{salt}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    start = re.sub(r"_{2,}", "_", _ILLEGAL.sub("_", name))[: MAX_WIRE_NAME - _HASH_DIGITS - 1].strip("_")
    return f"{start or 'tool'}_{digest}"
