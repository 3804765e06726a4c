"""How full the context window is: what the provider counted last, and an estimate of what came since."""

from __future__ import annotations

from typing import Any

import panto
from panto.testing import say

from .faces import Face
from .stage import Stage

USAGE = panto.Usage(input_tokens=12, cache_read_tokens=90_000, cache_write_tokens=3_000, output_tokens=40)


def test_us_02_the_last_count_holds_cache_reads_and_writes_and_the_answer(stage: Stage) -> None:
    for style in ("openai_chat", "anthropic_messages"):
        agent, _ = stage.agent([say("ok", usage=USAGE)], style=style, provider={"context_window": 100_000})
        stage.run(agent)
        usage = agent.context_usage()
        told = agent.conversation.messages[-1].usage.context_tokens
        assert (usage.used, usage.window, usage.left, usage.estimated) == (told, 100_000, 100_000 - told, 0)
        assert style == "openai_chat" or told == 93_052


def test_what_came_since_the_last_count_is_estimated(face: Face) -> None:
    stage = Stage(face, "memory")
    agent, _ = stage.agent([say("ok", usage=USAGE)])
    stage.run(agent)
    before = agent.context_usage()
    agent.conversation.add_user_message("word " * 700)
    after = agent.context_usage()
    assert after.estimated == after.used - before.used
    assert 700 <= after.estimated <= 1_100


def test_before_any_count_all_is_an_estimate_and_an_unknown_window_is_none(face: Face) -> None:
    stage = Stage(face, "memory")
    agent, _ = stage.agent([])
    assert agent.context_usage() == panto.ContextUsage(0, None, None, 0)
    agent.conversation.add_system_message("Be brief.")
    agent.conversation.add_user_message("Hello")
    bare = agent.context_usage()
    assert bare.used == bare.estimated > 0
    schema: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}}
    agent.register_tool(panto.Tool("look", "looks at a file", schema, lambda arguments: "x"))
    assert agent.context_usage().used > bare.used


def test_the_window_of_a_known_model_is_known(face: Face) -> None:
    stage = Stage(face, "memory")
    agent, _ = stage.agent([], style="anthropic_messages", provider={"model": "claude-sonnet-4-5"})
    assert agent.context_usage().window == 200_000


def test_left_is_never_below_nothing(face: Face) -> None:
    stage = Stage(face, "memory")
    agent, _ = stage.agent([say("ok", usage=USAGE)], provider={"context_window": 1_000})
    stage.run(agent)
    assert agent.context_usage().left == 0


def test_cp_02_a_count_from_before_a_summary_is_void(face: Face) -> None:
    stage = Stage(face, "memory")
    agent, _ = stage.agent([say("ok", usage=USAGE), say("ok", usage=panto.Usage(input_tokens=50, output_tokens=5))])
    stage.run(agent)
    talk = agent.conversation
    tail = talk.messages[-1:]
    del talk.messages[:]
    talk.add_compaction_summary("so far")
    talk.messages[0].id = "ffffffff-0000-7000-8000-000000000000"[:8]  # later than every answer so far
    talk.messages += tail
    assert agent.context_usage().used < 100
    talk.messages[0].id = "00000000-0000-7000-8000-000000000000"
    stage.run(agent)
    assert agent.context_usage().used == 55


def test_an_estimate_errs_on_the_high_side_and_takes_anything() -> None:
    assert panto.estimate_tokens("") == 0
    assert panto.estimate_tokens("\ud83d") >= 1
    blocks: list[panto.ContentBlock] = [
        panto.TextualBlock("text"),
        panto.ThinkingBlock("hm", redacted="x" * 35),
        panto.ToolUseBlock("c", "look", "{}"),
        panto.OpaqueBlock("x", "{}"),
    ]
    one = panto.Message(panto.MessageRole.ASSISTANT, blocks)
    assert panto.estimate_tokens(one) > 20
    assert panto.estimate_tokens([one, one]) == 2 * panto.estimate_tokens(one)
    picture = panto.Message(panto.MessageRole.USER, [panto.MediaBlock("image/png", "")])
    result = panto.ToolResultBlock("c", (panto.TextPart("x"), panto.StoredMediaPart("image/png", "")))
    assert panto.estimate_tokens(picture) > 1_000
    assert panto.estimate_tokens(panto.Message(panto.MessageRole.USER, [result])) > 1_000
