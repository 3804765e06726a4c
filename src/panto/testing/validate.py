"""A strict reader of requests: what the vendors' published rules would refuse, said before they do.

Law: written from the vendors' documents and error messages, and from nothing that panto does; it accepts what a
provider has answered and refuses what one has refused for reasons that the request shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from panto.config import APIStyle

from ._checks import Checks
from .validate_chat import check_chat
from .validate_messages import check_messages

__all__ = ["validate_request"]

_READERS: Final[dict[APIStyle, Callable[[Checks, Mapping[str, object]], None]]] = {
    APIStyle.OPENAI_CHAT: check_chat,
    APIStyle.ANTHROPIC_MESSAGES: check_messages,
}


def validate_request(api_style: APIStyle | str, body: Mapping[str, object]) -> list[str]:
    """What is wrong with the JSON body of a request, each with its path; empty when nothing is.

    Sources: https://platform.openai.com/docs/api-reference/chat and
    https://platform.claude.com/docs/en/api/messages (2026-12), and the error messages quoted beside the rules.

    >>> validate_request("openai_chat", {"model": "m", "messages": []})
    ['messages: an empty array; at least one message is needed']

    Raises `ValueError` for an api style whose requests it cannot read.
    """
    style = APIStyle(api_style)
    if style not in _READERS:
        raise ValueError(f"there are no rules for requests of {style.value}")
    checks = Checks()
    checks.encodable("", body)
    _READERS[style](checks, body)
    return checks.found
