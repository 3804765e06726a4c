"""What choosing a session needs to know of it, kept as a running sum.

Law: a tail is small whatever the messages are, and the last one of a session tells all that a list shows.
"""

from __future__ import annotations

import re

import msgspec

from panto.config import WireIdentity
from panto.conversation import CompactionSummaryBlock, Message, MessageRole
from panto.session import SessionInfo

__all__ = ["WORDS", "Tail", "is_compaction", "words_of"]

WORDS = 200
"""So many characters of the last user words are kept."""


_LONE = re.compile("[\ud800-\udfff]")


class Tail(msgspec.Struct, frozen=True, gc=False):
    """The state of a session after one of its records.

    count: messages so far; compaction summaries are not counted.
    time: when the record was offered, ISO 8601 in UTC.
    stamp: the identity used last, `None` before the first.
    last_user: what the user said last, white space joined, cut to 200 characters.
    """

    count: int = 0
    time: str = ""
    stamp: WireIdentity | None = None
    last_user: str = ""

    def after(self, *, counts: bool, time: str, stamp: WireIdentity | None, words: str) -> Tail:
        """The tail after one more record."""
        return Tail(self.count + counts, time, stamp or self.stamp, words or self.last_user)

    def info(self, id: str, created: str) -> SessionInfo:
        """What a list shows."""
        stamp = self.stamp
        return SessionInfo(
            id=id,
            created=created,
            modified=self.time or created,
            message_count=self.count,
            last_user_message=self.last_user,
            api_style=stamp.api_style if stamp else None,
            base_url=stamp.base_url if stamp else None,
            model=stamp.model if stamp else None,
            reasoning=stamp.reasoning if stamp else None,
        )


def words_of(message: Message) -> str:
    """The first 200 characters of what a user says in `message`; nothing for results of tools, answers, summaries.

    A lone surrogate becomes U+FFFD: these words are for showing.
    """
    if message.role is not MessageRole.USER or not (text := message.text):
        return ""
    words = " ".join(text[: 8 * WORDS].split())[:WORDS]
    return _LONE.sub("\ufffd", words)


def is_compaction(message: Message) -> bool:
    """Whether the message is what a compaction left."""
    return any(isinstance(block, CompactionSummaryBlock) for block in message.content)
