"""How full the context window is: what the provider counted last, and an estimate of what came since.

Law: a count of the provider is worth more than an estimate, but only for the history it counted; after a compaction or
surgery below it, it is void.
"""

from __future__ import annotations

from collections.abc import Sequence

from panto._data.windows import window_of
from panto.config import ProviderConfig
from panto.conversation import CompactionSummaryBlock, Message, MessageRole
from panto.estimate import estimate_tokens
from panto.tools import ToolDecl
from panto.usage import ContextUsage


def context_usage(messages: Sequence[Message], provider: ProviderConfig, tools: Sequence[ToolDecl]) -> ContextUsage:
    """See `Agent.context_usage`."""
    window = window_size(provider)
    counted, rest = None, list(messages)
    summarised = max((message.id or "" for message in messages if _is_summary(message)), default=None)
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.usage is None or (told := message.usage.context_tokens) is None:
            continue
        # Ids are ordered by time: a count from before the last compaction is of another history.
        if summarised is None or (message.id or "") > summarised:
            counted, rest = told, list(messages[at + 1 :])
        break
    estimated = estimate_tokens(m for m in rest if counted is None or m.role is not MessageRole.SYSTEM)
    if counted is None:
        estimated += sum(estimate_tokens(f"{t.name}{t.description}{t.schema}") for t in tools)
    used = (counted or 0) + estimated
    return ContextUsage(used, window, None if window is None else max(0, window - used), estimated)


def window_size(provider: ProviderConfig) -> int | None:
    """The context window in tokens: what the config says, or what is known of the model."""
    if provider.context_window is not None:
        return provider.context_window
    known = window_of(provider.model)
    return None if known is None else known.context


def _is_summary(message: Message) -> bool:
    return any(isinstance(block, CompactionSummaryBlock) for block in message.content)
