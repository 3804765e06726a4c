"""How each model that speaks Anthropic's Messages is told to think, and what it then refuses.

The law: one row a kind of model, the first that fits decides; what a row says comes from the vendor. Sources, read
2026-12-01 (all under https://platform.claude.com/docs/en/):

- build-with-claude/thinking and .../extended-thinking: `budget_tokens` is at least 1,024 and less than `max_tokens`;
  with a budget no `temperature`, `top_p` only from 0.95 to 1, no forced `tool_choice`.
- build-with-claude/thinking-tool-workflows: "`tool_choice` options that force tool use return an error with manual
  extended thinking; adaptive thinking supports forced tool use"; a tool loop keeps one configuration.
- build-with-claude/effort: `xhigh` on Fable 5, Mythos 5, Opus 5, Opus 4.8, Opus 4.7 and Sonnet 5; `max` from 4.6 on.
- models/*/migration-guide: Opus 4.7 and later refuse `temperature` and `top_p`, and omit the text of thinking unless
  `display` asks for it; Fable, Mythos and Opus 5.5 refuse `disabled`; Sonnet 5.5 wants `between_tools` in its place;
  Opus 5.5, Sonnet 5.5, Fable and Mythos 5.1 and later refuse a forced `tool_choice` always.
- build-with-claude/preserved-thinking/fix-bound-to-a-different-conversation: Fable and Mythos 5.1 and 5.2, Opus 5.5,
  Sonnet 5.5 and Haiku 5.5 refuse thinking whose history was edited, for ever, unless told to drop it; they think
  adaptively by default, so saying that changes nothing.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from panto.config import JSON, ReasoningEffort

__all__ = ["Thinker", "Thinking", "thinker_of"]

MIN_BUDGET: Final = 1024
"""The smallest thinking budget that Anthropic takes, in tokens."""

_BUDGETS: Final[dict[ReasoningEffort, int]] = {
    ReasoningEffort.MINIMAL: 1_024,
    ReasoningEffort.LOW: 2_048,
    ReasoningEffort.MEDIUM: 8_192,
    ReasoningEffort.HIGH: 16_384,
    ReasoningEffort.XHIGH: 24_576,
    ReasoningEffort.MAX: 32_768,
}

BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
"""The `anthropic-beta` that `block_binding` asks for."""

_RANKS: Final = ("low", "medium", "high", "xhigh", "max")


class Thinking(msgspec.Struct, frozen=True, gc=False):
    """What one request says of thinking.

    Attributes:
        field: The value of `thinking`; `None` sends none.
        effort: The value of `output_config.effort`; `None` sends none.
        on: Whether this asks the model to think.
    """

    field: dict[str, JSON] | None = None
    effort: str | None = None
    on: bool = False


class Thinker(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind of model takes.

    Attributes:
        form: How it is asked: not at all, by a budget of tokens, or adaptively with an effort.
        off: The type that turns thinking off; `None` where leaving out the field does, `"never"` where nothing does.
        efforts: The efforts it knows.
        display: Whether it shows its thinking only when asked to.
        sampling: Whether it takes `temperature` and `top_p` at all.
        forced: Whether it takes a `tool_choice` that forces a call at all.
        bound: Whether it refuses thinking whose history was edited, unless told to drop it.
    """

    form: Literal["none", "budget", "adaptive"]
    off: Literal["disabled", "between_tools", "never"] | None = "disabled"
    efforts: tuple[str, ...] = ()
    display: bool = False
    sampling: bool = True
    forced: bool = True
    bound: bool = False

    def ask(self, effort: ReasoningEffort, max_tokens: int) -> Thinking:
        """What to say for an effort, where an answer may have `max_tokens` tokens, its thinking included."""
        if effort is ReasoningEffort.DEFAULT or self.form == "none":
            return Thinking()
        if effort is ReasoningEffort.OFF:
            return self.stop()
        if self.form == "budget":
            if max_tokens <= MIN_BUDGET:
                return self.stop()  # no room to think
            budget = max(MIN_BUDGET, min(_BUDGETS[effort], max_tokens * 3 // 4))
            return Thinking({"type": "enabled", "budget_tokens": budget}, on=True)
        field: dict[str, JSON] = {"type": "adaptive"}
        if self.display:
            field["display"] = "summarized"
        wanted = "low" if effort is ReasoningEffort.MINIMAL else effort.value
        known = [e for e in self.efforts if _RANKS.index(e) <= _RANKS.index(wanted)]  # never more than was asked
        return Thinking(field, known[-1] if known else None, on=True)

    def unbound(self, thinking: Thinking) -> Thinking:
        """The same, and that thinking whose history was edited shall be dropped: no edit may end a session."""
        field = thinking.field or {"type": "adaptive"}
        if not self.bound or field["type"] != "adaptive":
            return thinking
        dropped: dict[str, JSON] = {**field, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        return msgspec.structs.replace(thinking, field=dropped)

    def stop(self) -> Thinking:
        """What to say for no thinking, or as little as the model can."""
        if self.off == "never":
            return Thinking(None, "low" if self.efforts else None)
        return Thinking(None if self.off is None or self.form == "none" else {"type": self.off})


_LOW_TO_HIGH: Final = ("low", "medium", "high")
_ALL: Final = _RANKS

_NO_THINKER: Final = Thinker(form="none")
_BUDGET: Final = Thinker(form="budget")
_ADAPTIVE_46: Final = Thinker(form="adaptive", efforts=("low", "medium", "high", "max"))
_ADAPTIVE_47: Final = Thinker(form="adaptive", off=None, efforts=_ALL, display=True, sampling=False)
_ADAPTIVE_5: Final = Thinker(form="adaptive", efforts=_ALL, display=True, sampling=False)
_SONNET_55: Final = Thinker(
    form="adaptive", off="between_tools", efforts=_ALL, display=True, sampling=False, forced=False, bound=True
)
_HAIKU_55: Final = Thinker(form="adaptive", efforts=_LOW_TO_HIGH, display=True, sampling=False, bound=True)
_ALWAYS_5: Final = Thinker(form="adaptive", off="never", efforts=_ALL, display=True, sampling=False)
_ALWAYS_51: Final = Thinker(
    form="adaptive", off="never", efforts=_ALL, display=True, sampling=False, forced=False, bound=True
)
_PREVIEW: Final = Thinker(
    form="adaptive", off="never", efforts=("low", "medium", "high", "max"), display=True, sampling=False
)

_ROWS: Final[tuple[tuple[re.Pattern[str], Thinker], ...]] = tuple(
    (re.compile(pattern), thinker)
    for pattern, thinker in (
        (r"claude-(?:2|v2|instant|3-(?:haiku|sonnet|opus|5))", _NO_THINKER),
        (r"claude-(?:3-7|(?:opus|sonnet|haiku)-4(?:-[015])?(?!-?\d(?!\d)))", _BUDGET),
        (r"claude-4-(?:opus|sonnet)", _BUDGET),
        (r"claude-(?:opus|sonnet)-4-6", _ADAPTIVE_46),
        (r"claude-opus-4-[78]", _ADAPTIVE_47),
        (r"claude-sonnet-5-5", _SONNET_55),
        (r"claude-haiku-5", _HAIKU_55),
        (r"claude-opus-5-5", _ALWAYS_51),
        (r"claude-(?:fable|mythos)-5-\d(?!\d)", _ALWAYS_51),
        (r"claude-(?:fable|mythos)-5", _ALWAYS_5),
        (r"claude-mythos", _PREVIEW),
        (r"claude-", _ADAPTIVE_5),  # and what is yet to come
    )
)


def thinker_of(model: str) -> Thinker:
    """What a model takes, whatever a router or a cloud puts before its name.

    Models that are not Anthropic's are asked by a budget: the form that the compatible servers copied
    (DeepSeek, Moonshot, MiniMax, Z.ai, llama.cpp).

    >>> thinker_of("claude-sonnet-4-5").form, thinker_of("anthropic/claude-opus-4.6").form
    ('budget', 'adaptive')
    """
    name = model.lower().replace(".", "-")
    for pattern, thinker in _ROWS:
        if pattern.search(name):
            return thinker
    return _BUDGET
