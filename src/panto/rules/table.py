"""The rules, one row each.

Law: a row says what is wrong and what the view does about it; who applies it looks it up here.
"""

from __future__ import annotations

from typing import Final

import msgspec

from panto.config import APIStyle

__all__ = ["RULES", "Rule"]


class Rule(msgspec.Struct, frozen=True):
    """One thing that a history, or what is sent of it, must obey.

    what: what is wrong where it is broken.
    repair: what the view does about it.
    left_out: whether that is to send nothing of the block.
    styles: the wires it concerns; it is reported only for an identity of one of them. `None`: it holds everywhere,
        and is reported always.
    """

    name: str
    what: str
    repair: str
    left_out: bool = False
    styles: frozenset[APIStyle] | None = None


_ALL: Final = frozenset(APIStyle)
_CHAT: Final = frozenset({APIStyle.OPENAI_CHAT})
_MESSAGES: Final = frozenset({APIStyle.ANTHROPIC_MESSAGES})
_OUT: Final = "left out"

RULES: Final[dict[str, Rule]] = {
    rule.name: rule
    for rule in (
        # Pairing and order: every provider refuses a history that breaks these.
        Rule("missing_result", "a call has no result", "an error result says that the outcome is unknown"),
        Rule("orphan_result", "a result answers no call before it", _OUT, left_out=True),
        Rule("second_result", "a call has more than one result", "the first one counts", left_out=True),
        Rule("result_order", "a result is not right after its calls, in their order", "moved there"),
        Rule("repeated_id", "an earlier call has the same id", "sent under an id of its own, with its result"),
        # Shape.
        Rule("wrong_place", "a message of this role cannot hold such a block", _OUT, left_out=True),
        Rule("empty_message", "the message holds nothing", "left out; its neighbours join"),
        Rule("blank", "there is nothing in it but white space", _OUT, left_out=True),
        Rule("surrogates", "it holds half a surrogate pair, which UTF-8 cannot carry", "U+FFFD in its place"),
        Rule("arguments", "the arguments of a call are not a JSON object", "sent as {}"),
        Rule("blank_name", "a call names no tool", "sent under a name that no tool has"),
        Rule("blank_error", "the result of a failed call says nothing", "sent with words of panto's"),
        Rule("blank_part", "a part of a result holds nothing", "the part is left out"),
        Rule("broken_media", "the data of an image or document is no base64", _OUT, left_out=True),
        Rule("unreadable_media", "the data are no image or PDF that a provider reads", "words of panto's in its place"),
        Rule("media_type", "the media type is not what the data are", "sent as what the data are"),
        Rule("broken_seal", "signed thinking holds text that UTF-8 cannot carry", _OUT, left_out=True),
        Rule("broken_opaque", "an opaque block is not JSON", _OUT, left_out=True),
        # Reasoning and what else belongs to one provider.
        Rule("foreign_reasoning", "another provider or model thought this", _OUT, left_out=True, styles=_ALL),
        Rule("reasoning_as_text", "another provider or model thought this", "sent as text", styles=_ALL),
        Rule("unsigned_reasoning", "thinking without a signature", _OUT, left_out=True, styles=_ALL),
        Rule("own_reasoning", "the provider does not want this reasoning back", _OUT, left_out=True, styles=_ALL),
        Rule("ends_on_thinking", "the answer ends with thinking", _OUT, left_out=True, styles=_MESSAGES),
        Rule("only_thinking", "the answer holds nothing but thinking", _OUT, left_out=True, styles=_ALL),
        Rule("foreign_opaque", "only another provider or model can read this", _OUT, left_out=True, styles=_ALL),
        Rule("open_server_use", "a server tool's call was cut before its result", _OUT, left_out=True, styles=_ALL),
        Rule("orphan_server_result", "a server tool's result has no call", _OUT, left_out=True, styles=_ALL),
        Rule("refused", "the vendor asks to leave a refused answer out", _OUT, left_out=True, styles=_MESSAGES),
        # What one provider takes.
        Rule("id_shape", "the provider does not take such a call id", "sent under one that it takes", styles=_ALL),
        Rule("image_too_large", "the provider takes no such large image", "words of panto's in its place", styles=_ALL),
        Rule("too_many_media", "all media are too much for one request", "words in place of the oldest", styles=_ALL),
        Rule("begins_with_answer", "no question precedes the first answer", "a fixed one is put before", styles=_ALL),
        Rule("same_role", "two messages of one role in a row; strict templates refuse", "joined", styles=_CHAT),
    )
}
"""Every rule, by name."""
