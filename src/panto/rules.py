"""What a history must obey, as data: `problems()` reports by these rules, the view repairs by them.

Law: a rule is a row, and what a provider takes is a `Target`; nothing here performs a repair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from .config import APIStyle, WireIdentity
from .conversation import Message, Problem

__all__ = ["Target", "problems"]


class Target(msgspec.Struct, frozen=True):
    """What the provider of a request takes; the view makes a history fit it.

    identity: who will answer; what is signed goes only to the same api_style, base_url and model.
    id_pattern, id_max: shape of a call id there (a regular expression for the whole id) and its greatest length.
    replay_reasoning: whether unsigned reasoning of the same origin is sent back: never, since the last question of
        the user (`"tool_loop"`), or always.
    needs_signature: whether thinking without a signature is refused.
    foreign_reasoning: whether reasoning of other origins is dropped or sent as text.
    drop_refused: whether a refused answer is left out of later requests.
    """

    identity: WireIdentity
    id_pattern: str = r"[a-zA-Z0-9_-]+"
    id_max: int = 64
    replay_reasoning: Literal["never", "tool_loop", "always"] = "never"
    needs_signature: bool = False
    foreign_reasoning: Literal["drop", "text"] = "drop"
    drop_refused: bool = False

    @classmethod
    def of(cls, identity: WireIdentity) -> Target:
        """What is known from the identity alone."""
        if identity.api_style is APIStyle.ANTHROPIC_MESSAGES:
            return cls(identity, needs_signature=True, drop_refused=True)
        return cls(identity, id_max=40)


def problems(messages: Sequence[Message], for_: WireIdentity | None = None) -> list[Problem]:
    """See `Conversation.problems`."""
    raise NotImplementedError
