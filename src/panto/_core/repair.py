"""The repairs of single values that the view is made of: texts, arguments, ids, results.

Law: a repair is a function of the value and the target alone, so that the same history makes the same bytes; a value
that needs none comes back as the very same object.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import TypeVar

from panto._wire.surrogates import well_formed
from panto.conversation import (
    CompactionSummaryBlock,
    MediaBlock,
    ResultPartStored,
    StoredMediaPart,
    SystemBlock,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from panto.rules.media import Album, stored_kind
from panto.rules.verdicts import (
    Target,
    arguments_rule,
    broken_media,
    fits,
    is_blank,
    no_arguments,
)

__all__ = [
    "BEGINNING",
    "INTERRUPTED",
    "CallIds",
    "IdClash",
    "as_text",
    "clean_arguments",
    "clean_name",
    "clean_result",
    "clean_system",
    "fit_media",
    "missing_result",
    "summary_text",
]

BEGINNING = TextualBlock("(The conversation begins with your words.)")
"""Put before an answer that nothing precedes. Anthropic's Messages wants the first message from the user
(https://docs.anthropic.com/en/api/messages, 2026-12), and so do the chat templates of Gemma and Mistral models that
many OpenAI-compatible servers apply."""

INTERRUPTED = TextualBlock("(This answer was interrupted.)")
"""In place of an answer in which the provider had paused before it said anything, once the user has spoken again."""

OUTCOME_UNKNOWN = (
    "No result of this call was recorded: the program was interrupted. The outcome is unknown; the call may have been "
    "run and may have had effects. Check before you rely on it or call again."
)
"""The error result of a call that has none. It does not say that the call was not run: nobody knows."""

NO_ERROR_TEXT = "The tool failed and gave no message."
"""Said by an error result that says nothing: the Messages API refuses one without content (2026-12)."""

NO_NAME = "unnamed_tool"
"""The name of a call whose name is blank: no wire can carry an empty one."""

SUMMARY_PREFACE = "What follows is a summary of the conversation so far; the messages it replaces are gone.\n\n"
"""Before the text of a `CompactionSummaryBlock`, which is sent as words of the user."""


MEDIA_NOTES = {
    "unreadable_media": "[an image or document was left out: its data are of no kind that can be read]",
    "image_too_large": "[an image was left out: it is larger than this provider takes]",
    "too_many_media": "[an older image or document was left out: all together are more than one request may hold]",
}
"""In place of media that would be refused, by the rule they break. Nothing is decoded for a request; what is fit for
every provider is made when an image enters a history."""

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


def clean_arguments(text: str) -> str:
    """The arguments of a call as JSON that every provider reads as an object.

    No text and `null` are `{}` by convention; what is no object is `{}` too, and its call has an error result.

    >>> clean_arguments(""), clean_arguments('[1]'), clean_arguments('{"a": "\\\\ud83d"}')
    ('{}', '{}', '{"a": "\\\\ufffd"}')
    """
    if no_arguments(text):
        return "{}"
    match arguments_rule(text):
        case None:
            return text
        case "surrogates":
            return _ESCAPE.sub(lambda found: "\\ufffd" if found[1] else found[0], well_formed(text))
        case _:
            return "{}"


def clean_name(name: str) -> str:
    """The name of a call, fit to be encoded; what a wire cannot carry otherwise is the wire's to encode."""
    return NO_NAME if is_blank(name) else well_formed(name)


def clean_system(block: SystemBlock) -> SystemBlock:
    """A part of the system prompt without lone surrogates."""
    text = well_formed(block.text)
    return block if text is block.text else SystemBlock(text, block.mode)


Media = TypeVar("Media", MediaBlock, StoredMediaPart)


def fit_media(media: Media, album: Album) -> Media | str:
    """Media under the type that they are; words instead where the target would refuse them."""
    match album.judge(media):
        case None:
            return media
        case "media_type":
            return type(media)(stored_kind(media) or media.media_type, media.data)
        case rule:
            return MEDIA_NOTES[rule]


def clean_result(block: ToolResultBlock, call_id: str, album: Album) -> ToolResultBlock:
    """The result of the call that is sent as `call_id`: blank parts left out, an error never without words."""
    parts: list[ResultPartStored] = []
    changed = block.id != call_id
    for part in block.parts:
        match part:
            case TextPart():
                if is_blank(part.text):
                    changed = True
                    continue
                if (text := well_formed(part.text)) is not part.text:
                    changed, part = True, TextPart(text)
            case StoredMediaPart():
                if broken_media(part):
                    changed = True
                    continue
                fit = fit_media(part, album)
                if fit is not part:
                    changed = True
                    part = TextPart(fit) if isinstance(fit, str) else fit
        parts.append(part)
    if not parts and block.is_error:
        changed = True
        parts.append(TextPart(NO_ERROR_TEXT))
    return ToolResultBlock(call_id, tuple(parts), block.is_error, block.details) if changed else block


def missing_result(call_id: str) -> ToolResultBlock:
    """The result of a call that has none."""
    return ToolResultBlock(call_id, (TextPart(OUTCOME_UNKNOWN),), is_error=True)


def summary_text(block: CompactionSummaryBlock) -> TextualBlock:
    """A summary as words of the user."""
    return TextualBlock(SUMMARY_PREFACE + well_formed(block.text))


def as_text(block: ThinkingBlock) -> TextualBlock:
    """Reasoning of another model as plain text: between `<thinking>` tags, each on its own line."""
    return TextualBlock(f"<thinking>\n{well_formed(block.text).strip()}\n</thinking>")


class IdClash(Exception):
    """A legal id came that an earlier encoded one was given: the legal one keeps it, and the view begins anew."""


class CallIds:
    """Gives each call an id that fits the target and is used once in the whole history.

    A legal id stays itself at its first use. Others, and repeated ones (hosts count from `call_0` in each answer),
    are encoded by id and number of use, so that the same history always gives the same ids.
    """

    __slots__ = ("_given", "_reserved", "_target", "_uses")

    def __init__(self, target: Target, reserved: set[str]) -> None:
        self._target = target
        self._reserved = reserved
        self._given: set[str] = set()
        self._uses: dict[str, int] = {}

    def give(self, wanted: str) -> str:
        """The id for the next call that was stored with the id `wanted`.

        Raises `IdClash` when it is legal and taken by an encoded one; it is then reserved, for a fresh beginning.
        """
        use = self._uses.get(wanted, 0)
        self._uses[wanted] = use + 1
        if use == 0 and fits(wanted, self._target):
            if wanted in self._given:
                self._reserved.add(wanted)
                raise IdClash(wanted)
            given = wanted
        else:
            given = next(
                id
                for id in _candidates(wanted, use, self._target)
                if id not in self._given and id not in self._reserved
            )
        self._given.add(given)
        return given


_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTHS = (24, 9, 32, 12, 16, 8, 40, 20, 10, 6)
_PREFIXES = ("", "call_", "toolu_", "chatcmpl-tool-", "tool_", "fc_")


def _candidates(wanted: str, use: int, target: Target) -> Iterator[str]:
    """Ids for the `use`-th call of this id, those that fit the target, without end.

    A pattern that none of the usual shapes fits is not honoured: a unique id is worth more than a pretty one.
    """
    readable = re.sub(r"[^a-zA-Z0-9_-]", "_", wanted)[: max(0, target.id_max - 11)]
    salt = 0
    while True:
        digest = hashlib.blake2b(f"{use}:{salt}:{wanted}".encode("utf-8", "surrogatepass"), digest_size=48).digest()
        number = int.from_bytes(digest, "big")
        letters = ""
        for _ in range(40):
            number, at = divmod(number, len(_ALPHABET))
            letters += _ALPHABET[at]
        shapes = [f"{readable}_{letters[:10]}"] if readable else []
        shapes += [prefix + letters[:length] for prefix in _PREFIXES for length in _LENGTHS]
        fitting = [shape for shape in shapes if fits(shape, target)]
        yield fitting[0] if fitting else letters[: max(9, min(24, target.id_max))]
        salt += 1
