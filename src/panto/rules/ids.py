"""What an id of a tool call may look like, by host.

Law: a row says where its knowledge comes from; a host that is not listed is taken to be strict about nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

from panto.config import APIStyle, WireIdentity

__all__ = ["IdShape", "id_shape"]

_WORD: Final = r"[a-zA-Z0-9_-]+"


class IdShape(NamedTuple):
    """A regular expression for the whole id, and its greatest length."""

    pattern: str
    longest: int


MESSAGES: Final = IdShape(_WORD, 64)
"""https://platform.claude.com/docs/en/api/messages: `^[a-zA-Z0-9_-]+$`; read 2026-12-01."""

CHAT: Final = IdShape(r"[a-zA-Z0-9_.:-]+", 64)
"""Unknown hosts: ids of Kimi hold dots and colons and are kept (recorded, 2026-12)."""

HOSTS: Final[dict[str, IdShape]] = {
    "api.openai.com": IdShape(_WORD, 40),  # NousResearch/hermes-agent#12230: more than 40 characters are refused
    "openai.azure.com": IdShape(_WORD, 40),  # the same service
    "cognitiveservices.azure.com": IdShape(_WORD, 40),
    "services.ai.azure.com": IdShape(_WORD, 40),
    "api.groq.com": IdShape(_WORD, 64),  # recorded, 2026-12
    "githubcopilot.com": IdShape(_WORD, 64),
    "models.github.ai": IdShape(_WORD, 64),
    "api.mistral.ai": IdShape(r"[a-zA-Z0-9]{9}", 9),  # anomalyco/opencode#1680
    "generativelanguage.googleapis.com": IdShape(r"[!-~]+", 4096),  # ids carry signatures (recorded, 2026-12)
    "aiplatform.googleapis.com": IdShape(r"[!-~]+", 4096),
}
"""By host, which is also good for any host below it. Chat completions only."""


def id_shape(identity: WireIdentity) -> IdShape:
    """What the host of `identity` takes for an id.

    >>> id_shape(WireIdentity(APIStyle.OPENAI_CHAT, "https://api.mistral.ai/v1", "m")).longest
    9
    """
    if identity.api_style is APIStyle.ANTHROPIC_MESSAGES:
        return MESSAGES
    name = urlsplit(identity.base_url).hostname or ""
    return next((shape for host, shape in HOSTS.items() if name == host or name.endswith("." + host)), CHAT)
