"""Family SE of the field cases as an agent meets them: resume, one turn, load again.

What concerns a store alone (SE-03, SE-04, SE-06, SE-07, SE-09) is in tests/stores, and what concerns the command in
tests/cli.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.field.wires import agent_again, all_valid, both_wires, echo
from tests.stage import Stage, texts

import panto
from panto.testing import call, fail, say

FRAGMENT = b'{"type":"message","content":[{"te'


def store_in(folder: Path) -> panto.FileSystemJSONLStore:
    return panto.FileSystemJSONLStore(folder, fsync=False)


def said(conversation: Any) -> list[str]:
    return [message.text for message in conversation.messages]


# ---- SE-01: a torn last line


@both_wires
def test_se_01_a_torn_last_line_costs_itself_and_nothing_after_it_crash_after_crash(
    stage: Stage, style: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = [say("one"), say("two"), say("three")]
    agent, provider = stage.agent(script, style=style, session=store_in(tmp_path).create())
    stage.run(agent, "first")
    [file] = tmp_path.glob("*.jsonl")
    for question, answer in (("second", "two"), ("third", "three")):
        with file.open("ab") as torn:
            torn.write(FRAGMENT)
        caplog.clear()
        resumed = agent_again(stage, agent, provider, session=store_in(tmp_path).latest())
        assert [record.levelname for record in caplog.records if record.name.startswith("panto")] == ["WARNING"]
        assert texts(stage.run(resumed, question)) == answer
        assert said(store_in(tmp_path).load(agent.session_id)) == said(resumed.conversation)
    assert said(resumed.conversation) == ["first", "one", "second", "two", "third", "three"]
    lines = file.read_bytes().split(b"\n")
    assert lines.count(FRAGMENT) == 2  # closed off, each on a line of its own
    for line in lines[:-1]:
        assert line == FRAGMENT or json.loads(line)
    all_valid(provider)


# ---- SE-02: bad lines in the middle


@both_wires
def test_se_02_bad_lines_in_the_middle_are_counted_and_the_session_goes_on(
    stage: Stage, style: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    turns = 10
    script = [say(f"a{n}") for n in range(turns)] + [say("on")]
    agent, provider = stage.agent(script, style=style, session=store_in(tmp_path).create())
    for n in range(turns):
        stage.run(agent, f"q{n}")
    [file] = tmp_path.glob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)[:20]
    lines[4], lines[6] = b"not json\n", b"[1, 2]\n"
    lines[8] = b'{"type":"mood","id":"x","value":"fine"}\n'
    file.write_bytes(b"".join(lines))
    with caplog.at_level(logging.WARNING, "panto"):
        resumed = agent_again(stage, agent, provider, session=store_in(tmp_path).latest())
    assert "2 line" in caplog.text
    kept = said(resumed.conversation)
    assert len(kept) == 16
    assert texts(stage.run(resumed, "go on")) == "on"
    assert said(store_in(tmp_path).load(agent.session_id)) == [*kept, "go on", "on"]
    assert file.read_bytes().startswith(b"".join(lines))  # the unknown entry is kept as it was, and so is the rest
    all_valid(provider)


# ---- SE-03: two agents at one session


def test_se_03_two_agents_at_one_session_lose_nothing_and_what_both_said_can_be_sent(
    stage: Stage, tmp_path: Path
) -> None:
    script = [say("one"), call("echo", x=1), say("left"), call("echo", x=2), say("right"), say("on")]
    agent, provider = stage.agent(script, stage.tool("echo", echo), session=store_in(tmp_path).create())
    stage.run(agent, "first")
    tool = stage.tool("echo", echo)
    left, right = (agent_again(stage, agent, provider, tool, session=store_in(tmp_path).latest()) for _ in range(2))
    stage.run(left, "to the left")
    stage.run(right, "to the right")
    both = store_in(tmp_path).load(agent.session_id)
    assert [text for text in said(both) if text] == ["first", "one", "to the left", "left", "to the right", "right"]
    resumed = agent_again(stage, agent, provider, tool, session=store_in(tmp_path).latest())
    assert texts(stage.run(resumed, "go on")) == "on"
    all_valid(provider)


# ---- SE-05: which one is the latest


def test_se_05_latest_is_the_one_worked_on_last_and_an_id_is_the_one_it_names(stage: Stage, tmp_path: Path) -> None:
    first, provider = stage.agent([say("a"), say("b"), say("a2"), say("b2")], session=store_in(tmp_path).create())
    stage.run(first, "in A")
    second = agent_again(stage, first, provider, session=store_in(tmp_path).create())
    stage.run(second, "in B")
    latest = store_in(tmp_path).latest()
    assert latest is not None
    assert latest.info.id == second.session_id
    stage.run(first, "in A again")
    latest = store_in(tmp_path).latest()
    assert latest is not None
    assert latest.info.id == first.session_id
    named = agent_again(stage, first, provider, session=store_in(tmp_path).resolve(second.session_id))
    assert said(named.conversation) == ["in B", "b"]
    assert texts(stage.run(named, "in B again")) == "b2"
    assert said(store_in(tmp_path).load(second.session_id)) == ["in B", "b", "in B again", "b2"]
    assert said(store_in(tmp_path).load(first.session_id)) == ["in A", "a", "in A again", "a2"]


# ---- SE-08: sessions without any answer


@both_wires
def test_se_08_a_session_that_was_quit_before_any_answer_is_not_listed_and_one_with_an_answer_is(
    stage: Stage, style: str, tmp_path: Path
) -> None:
    folder = tmp_path / "sessions"
    quit_early, provider = stage.agent([fail(400, "no"), say("yes")], style=style, session=store_in(folder).create())
    assert stage.run(quit_early, "lost?").error is not None
    stage.face.call(quit_early.close())
    assert store_in(folder).list() == []
    assert store_in(folder).latest() is None
    assert not folder.exists() or list(folder.iterdir()) == []
    other = agent_again(stage, quit_early, provider, session=store_in(folder).create())
    assert texts(stage.run(other, "again?")) == "yes"
    [info] = store_in(folder).list()
    assert (info.id, info.last_user_message) == (other.session_id, "again?")
    assert said(store_in(folder).load(info.id)) == ["again?", "yes"]  # the question was written with its answer


def test_se_08_the_question_of_a_failed_turn_is_written_with_the_answer_that_comes_at_last(
    stage: Stage, tmp_path: Path
) -> None:
    agent, _ = stage.agent([fail(400, "no"), say("yes")], session=store_in(tmp_path).create())
    assert stage.run(agent, "lost?").error is not None
    assert store_in(tmp_path).list() == []
    stage.run(agent, "again?")
    [info] = store_in(tmp_path).list()
    assert info.message_count == 3
    assert said(store_in(tmp_path).load(info.id)) == ["lost?", "again?", "yes"]
