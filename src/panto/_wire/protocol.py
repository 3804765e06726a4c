"""What the loop needs of a wire: requests as bytes, answers as blocks.

Law: a wire is two pure functions (encode, endpoint) and a decoder that is fed bytes; everything that differs between
wires stays behind them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from panto._secret import Secret
from panto.config import StopReason
from panto.conversation import ContentBlock, SystemBlock
from panto.events import BlockComplete, BlockStart, ContentDelta, ToolDetails
from panto.rules import Target
from panto.tools import ToolDecl
from panto.usage import Usage

from .failures import Failure

StreamEvent = BlockStart | ToolDetails | ContentDelta | BlockComplete
"""The events that a decoder makes."""


class Sendable(msgspec.Struct, gc=True):
    """One message of a request, repaired and fit for its target, before it is written in a wire's words.

    The view makes it and replaces it when it grows; `encoded` is where the wire keeps its bytes.
    """

    role: str
    blocks: tuple[ContentBlock, ...]
    encoded: bytes | None = None


class HTTPRequest(msgspec.Struct, frozen=True):
    """One POST. A value that must not be seen is a `Secret`, opened by the transport alone."""

    url: str
    headers: Mapping[str, str | Secret]
    body: bytes
    secret_url: Secret | None = None

    def strike(self, text: str) -> str:
        """`text` without the secrets of this request, in whatever form it held them."""
        words = [word for value in self.headers.values() if isinstance(value, Secret) for word in _words(value())]
        if self.secret_url is not None:
            words += _words_of_url(self.secret_url())
        for word in sorted({word for word in words if len(word) >= SHORTEST}, key=len, reverse=True):
            text = text.replace(word, "***")
        return text


SHORTEST = 4
"""A shorter value is no secret, and striking it out would make holes in plain words."""


def _words(header: str) -> list[str]:
    return [header, header.rpartition(" ")[2]]


def _words_of_url(url: str) -> list[str]:
    """User info and query as they stand, decoded, and as the basic authorization that they make."""
    parts = urlsplit(url)
    words = [word for pair in parts.query.split("&") for word in (pair.partition("=")[2], pair)]
    user, password = parts.username or "", parts.password or ""
    if user or password:
        words += [password or user, f"{user}:{password}"]
    words += [unquote(word) for word in words]
    if user or password:
        words.append(b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode())
    return words


class Answer(msgspec.Struct, frozen=True):
    """A whole answer, as its decoder saw it."""

    content: list[ContentBlock]
    usage: Usage | None
    stop_reason: StopReason
    stop_raw: str | None


class Decoder(Protocol):
    """Reads one answer. Fed with bytes in any cut it gives the same events.

    done: the end marker was seen; nothing more need be read.
    failure: the stream told of an error, or ended without its end signal (after `finish`); no answer is to be had.
    """

    done: bool
    failure: Failure | None

    def feed(self, data: bytes) -> list[StreamEvent]:
        """The events that `data` completes; after an error those before it."""
        ...

    def finish(self) -> list[StreamEvent]:
        """The body is over, or `done`: the last events. Sets `failure` when the end signal never came."""
        ...

    def answer(self) -> Answer:
        """The whole answer, after `finish` and without failure."""
        ...

    def partial(self, unseen: Sequence[StreamEvent]) -> list[ContentBlock]:
        """The blocks as far as they were shown: without what the events in `unseen`, the last ones made, told.

        Calls and thinking that are not whole, and thinking without a signature, are left out; text is kept.
        """
        ...


class Wire(Protocol):
    """One provider as configured: how to ask it, and how to read what it says.

    Made for one config and one set of tools; a change of either makes a new one, and new `Sendable`s.
    """

    target: Target

    def request(
        self,
        system: Sequence[SystemBlock],
        tools: Sequence[ToolDecl],
        messages: Sequence[Sendable],
        *,
        first: bool,
        key: Secret | None,
    ) -> HTTPRequest:
        """The request for one answer. Each `Sendable` is encoded once and keeps its bytes.

        `first`: the first call of a run; a forcing `tool_choice` holds for that one only.
        """
        ...

    def decoder(self, seed: str) -> Decoder:
        """A reader for one answer; `seed` makes the ids of calls that came without one."""
        ...

    def failure(self, status: int, headers: Mapping[str, str], body: bytes, now: float) -> Failure:
        """What an answer that is no stream means. `now` is seconds since the epoch, for dates in `Retry-After`."""
        ...
