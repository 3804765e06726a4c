"""Resuming: whatever ended the last process, the next one goes on as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import panto
from panto.testing import call, fail, say

from .faces import Face
from .stage import Stage, results, texts


def echo(arguments: dict[str, Any]) -> str:
    return f"echo {arguments.get('x')}"


def store_in(tmp_path: Path) -> panto.FileSystemJSONLStore:
    return panto.FileSystemJSONLStore(tmp_path / "sessions", fsync=False)


def the_file(tmp_path: Path) -> Path:
    [file] = (tmp_path / "sessions").glob("*.jsonl")
    return file


def two_rounds(stage: Stage, store: panto.FileSystemJSONLStore) -> Any:
    agent, _ = stage.agent(
        [call("echo", x=1), say("one"), call("echo", x=2), say("two")],
        stage.tool("echo", echo),
        session=store.create(),
    )
    stage.face.call(agent.set_system_prompt("Be brief."))
    stage.run(agent, "first")
    stage.run(agent, "second")
    return agent


def test_a_resumed_session_sends_what_the_old_one_would_have_sent(face: Face, tmp_path: Path) -> None:
    stage, store = Stage(face, "memory"), store_in(tmp_path)
    old = two_rounds(stage, store)
    session = face.call(store.latest())
    new, provider = stage.agent([say("three")], stage.tool("echo", echo), session=session)
    assert new.conversation == old.conversation
    assert new.session_id == old.session_id
    assert texts(stage.run(new, "third")) == "three"
    other, direct = stage.agent(
        [say("three")], stage.tool("echo", echo), session=panto.MemoryStore().create(), conversation=old.conversation
    )
    stage.run(other, "third")
    assert provider.requests[0].body == direct.requests[0].body
    assert store.load(new.session_id) == new.conversation


def test_a_session_cut_at_any_byte_resumes_with_every_whole_record_and_the_next_run_works(
    face: Face, tmp_path: Path
) -> None:
    stage, store = Stage(face, "memory"), store_in(tmp_path)
    old = two_rounds(stage, store)
    file = the_file(tmp_path)
    whole = file.read_bytes()
    header = whole.index(b"\n") + 1
    for cut in [*range(header, len(whole), 211), len(whole) - 1]:
        file.write_bytes(whole[:cut])
        records = whole[header:cut].count(b"\n")
        session = store_in(tmp_path).resolve(old.session_id)
        assert session is not None
        agent, provider = stage.agent([say("on")], stage.tool("echo", echo), session=session)
        # A record whose newline alone is missing is whole as well.
        kept = len(agent.conversation.messages)
        assert kept in (records, records + 1)
        assert agent.conversation.messages == old.conversation.messages[:kept]
        assert texts(stage.run(agent, "go on")) == "on", cut
        again = store_in(tmp_path).load(old.session_id)
        assert again == agent.conversation
        assert [m["role"] for m in provider.requests[0].messages][-1] == "user"
        assert [p for p in again.problems() if p.rule != "missing_result"] == []  # type: ignore[union-attr]


def test_a_trailing_question_is_not_resent_by_itself(face: Face, tmp_path: Path) -> None:
    stage, store = Stage(face, "memory"), store_in(tmp_path)
    agent, _ = stage.agent([say("one"), fail(400, "no")], session=store.create())
    stage.run(agent, "first")
    stage.run(agent, "second")
    session = store_in(tmp_path).latest()
    again, provider = stage.agent([say("both")], session=session)
    assert [m.text for m in again.conversation.messages] == ["first", "one", "second"]
    assert provider.requests == []
    assert texts(stage.run(again, None)) == "both"
    assert "second" in str(provider.requests[0].messages[-1])


def test_match_finds_the_alias_by_wire_identity(face: Face, tmp_path: Path) -> None:
    stage, store = Stage(face, "memory"), store_in(tmp_path)
    agent, _ = stage.agent([say("one")], session=store.create(), provider={"reasoning": "high"})
    stage.run(agent)
    [info] = store_in(tmp_path).list()
    right = agent._engine.config.provider
    candidates = {
        "right": right,
        "other key": panto.OpenAIChatConfig(
            model=right.model, base_url=right.base_url + "/", api_key="another", reasoning=panto.ReasoningEffort.HIGH
        ),
        "less": panto.OpenAIChatConfig(model=right.model, base_url=right.base_url),
        "other wire": panto.AnthropicMessagesConfig(model=right.model, base_url=right.base_url),
    }
    assert panto.match(candidates, info) == ["right", "other key"]
    assert panto.match({}, info) == []


def test_a_compaction_entry_replays_to_the_conversation_as_it_stood(face: Face, tmp_path: Path) -> None:
    stage, store = Stage(face, "memory"), store_in(tmp_path)
    agent, _ = stage.agent([say("one"), say("two")], session=store.create())
    stage.run(agent, "first")
    session_id = agent.session_id
    summary = panto.Message(panto.MessageRole.USER, [panto.CompactionSummaryBlock("so far: one", 2)], id="0-summary")
    record = panto.PersistentMessage(summary, None, None, agent.conversation)
    store.append_messages(session_id, [record])
    loaded = store_in(tmp_path).load(session_id)
    assert loaded is not None
    assert [type(block) for m in loaded.messages for block in m.content] == [panto.CompactionSummaryBlock]
    again, provider = stage.agent([say("on")], session=store_in(tmp_path).latest())
    stage.run(again, "next")
    assert "so far: one" in str(provider.requests[0].messages)
    assert "first" not in str(provider.requests[0].messages)


def test_the_key_is_in_no_file_of_a_session(face: Face, tmp_path: Path) -> None:
    stage, store = Stage(face, "memory"), store_in(tmp_path)
    agent, _ = stage.agent(
        [call("echo", x=1), say("one")],
        stage.tool("echo", echo),
        session=store.create(),
        provider={
            "api_key": "sk-CANARY-1",
            "headers": {"X-Token": "CANARY-2"},
        },
    )
    stage.run(agent, "first")
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"echo 1" in written
    assert b"CANARY" not in written


@pytest.mark.parametrize("gone", ["file", "folder"])
def test_a_session_whose_file_vanished_is_a_store_error_and_the_answer_is_delivered(
    face: Face, tmp_path: Path, gone: str
) -> None:
    stage, store = Stage(face, "memory"), store_in(tmp_path)
    agent, _ = stage.agent([say("one"), say("two")], session=store.create())
    stage.run(agent, "first")
    the_file(tmp_path).unlink()
    if gone == "folder":
        (tmp_path / "sessions").rmdir()
    ran = stage.run(agent, "second")
    assert texts(ran) == "two"
    if ran.error is not None:
        assert isinstance(ran.error, panto.StoreError)
        assert len(ran.of(panto.MessageComplete)) == 1
        assert str(tmp_path) in str(ran.error)


def test_results_of_tools_are_stored_with_their_details(face: Face, tmp_path: Path) -> None:
    stage, store = Stage(face, "memory"), store_in(tmp_path)
    made = panto.ToolCallResult((panto.TextPart("rows"),), details={"rows": [1, 2, {"a": None}]})
    agent, _ = stage.agent(
        [call("rows"), say("ok")], stage.tool("rows", lambda arguments: made), session=store.create()
    )
    stage.run(agent)
    loaded = store_in(tmp_path).load(agent.session_id)
    assert results(loaded)[0].details == {"rows": [1, 2, {"a": None}]}  # type: ignore[arg-type]
