"""Family DT of the field cases: a call always has its result, whatever ended the run it was made in.

DT-04, a compaction of a broken session, waits for compaction.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.field.wires import PLAIN, agent_again, all_valid, both_wires, echo, kinds, roles
from tests.stage import Stage, results, texts

import panto
from panto.testing import RecordedRequest, call, say

ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}


def results_sent(request: RecordedRequest) -> list[tuple[str, str]]:
    """Id and text of every result in a request, in order, on either wire."""
    found: list[tuple[str, str]] = []
    for message in request.messages:
        content: Any = message["content"]
        if message["role"] == "tool":
            found.append((str(message["tool_call_id"]), content))
        elif isinstance(content, list):
            for block in content:
                if block["type"] == "tool_result":
                    inner = block.get("content") or ""
                    text = inner if isinstance(inner, str) else "".join(part.get("text", "") for part in inner)
                    found.append((block["tool_use_id"], text))
    return found


# ---- DT-01: an interrupt during a tool


@both_wires
def test_dt_01_an_interrupt_during_a_tool_gives_every_call_a_result_and_stores_both(
    stage: Stage, style: str, tmp_path: Path
) -> None:
    release, store = threading.Event(), panto.FileSystemJSONLStore(tmp_path, fsync=False)

    def hang(arguments: dict[str, Any]) -> str:
        release.wait(5)
        return "late"

    tools = [stage.tool("echo", echo), panto.Tool("hang", "hangs", ANYTHING, hang)]
    script = [call("echo", x=1, call_id="A") + call("hang", call_id="B"), say("ok"), say("on")]
    agent, provider = stage.agent(script, *tools, style=style, session=store.create())
    stage.run(agent, "look", stop=lambda event: isinstance(event, panto.ToolDispatchComplete))
    release.set()
    reader = panto.FileSystemJSONLStore(tmp_path)
    stored = reader.load(agent.session_id)
    assert stored == agent.conversation  # written at the interrupt, not by what comes after it
    assert [(block.id, block.is_error) for block in results(stored)] == [("A", False), ("B", True)]
    assert texts(stage.run(agent, "go on")) == "ok"
    resumed = agent_again(stage, agent, provider, *tools, session=reader.resolve(agent.session_id))
    assert texts(stage.run(resumed, "and on")) == "on"
    for request in provider.requests[1:]:
        (a, done), (b, cut) = results_sent(request)
        assert (a, b, done) == ("A", "B", "echo 1")
        assert "interrupted by the user" in cut
    all_valid(provider)


# ---- DT-02 and DT-03: killed between a call and its result


def killed_after_the_second_call(stage: Stage, style: str, folder: Path) -> tuple[Any, Any, Path, bytes]:
    """A session with one whole tool round, cut behind its second call; the agent before it, and its provider."""
    store = panto.FileSystemJSONLStore(folder, fsync=False)
    script = [call("echo", x=1), say("one"), call("echo", x=2), say("two"), say("on"), say("and on")]
    agent, provider = stage.agent(script, stage.tool("echo", echo), style=style, session=store.create(), provider=PLAIN)
    stage.run(agent, "first")
    stage.run(agent, "second")
    [file] = folder.glob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    cut = b"".join(lines[:-2])
    file.write_bytes(cut)
    return agent, provider, file, cut


@both_wires
def test_dt_02_a_call_without_its_result_gets_one_that_says_its_outcome_is_unknown(
    stage: Stage, style: str, tmp_path: Path
) -> None:
    agent, provider, file, cut = killed_after_the_second_call(stage, style, tmp_path)
    session = panto.FileSystemJSONLStore(tmp_path, fsync=False).latest()
    resumed = agent_again(stage, agent, provider, stage.tool("echo", echo), session=session)
    assert texts(stage.run(resumed, "go on")) == "on"
    assert texts(stage.run(resumed, "still?")) == "and on"
    for request in provider.requests[4:]:
        _, (_, told) = results_sent(request)
        assert "The outcome is unknown" in told
        assert "may have had effects" in told
        assert "not run" not in told
    assert file.read_bytes().startswith(cut)  # appended to, never rewritten
    all_valid(provider)


@both_wires
def test_dt_03_the_repair_adds_a_result_and_the_request_alternates(stage: Stage, style: str, tmp_path: Path) -> None:
    agent, provider, _, _ = killed_after_the_second_call(stage, style, tmp_path)
    session = panto.FileSystemJSONLStore(tmp_path, fsync=False).latest()
    resumed = agent_again(stage, agent, provider, stage.tool("echo", echo), session=session)
    assert texts(stage.run(resumed, "go on")) == "on"
    assert texts(stage.run(resumed, "still?")) == "and on"
    request = provider.requests[4]
    if style == "anthropic_messages":
        assert roles(request) == ["user", "assistant"] * 3 + ["user"]
        assert kinds(request.messages[5]) == ["tool_use"]
        assert kinds(request.messages[6]) == ["tool_result", "text"]
    else:
        whole_round = ["user", "assistant", "tool", "assistant"]
        assert roles(request) == [*whole_round, "user", "assistant", "tool", "user"]
    for sent in provider.requests[4:]:
        assert not any(a == b and a != "tool" for a, b in pairwise(roles(sent)))
    all_valid(provider)


# ---- DT-05: results of calls side by side


@both_wires
def test_dt_05_results_that_come_in_any_order_are_sent_together_and_in_call_order(stage: Stage, style: str) -> None:
    gates = {n: threading.Event() for n in range(1, 6)}
    order = [3, 1, 5, 2, 4]

    def work(arguments: dict[str, Any]) -> str:
        assert gates[arguments["n"]].wait(10)
        return f"r{arguments['n']}"

    answer = say("")
    for n in gates:
        answer += call("work", {"n": n}, call_id=f"c{n}")
    # A blocking tool gets a thread in both colours.
    agent, provider = stage.agent(
        [answer, say("ok")], panto.Tool("work", "works", ANYTHING, work), style=style, provider=PLAIN
    )
    finished: list[int] = []

    def let_go(event: panto.Event) -> bool:
        """The next one may finish when the one before has been told."""
        if isinstance(event, panto.ToolDispatchComplete):
            finished.append(event.call.arguments["n"])  # type: ignore[arg-type]
        started = isinstance(event, panto.ToolDispatchStart) and event.call.id == "c5"
        if (started or finished) and len(finished) < 5:
            gates[order[len(finished)]].set()
        return False

    ran = stage.run(agent, "go", stop=let_go)
    assert finished == order
    assert texts(ran) == "ok"
    whole = [(f"c{n}", f"r{n}") for n in range(1, 6)]
    assert [(block.id, block.text) for block in results(agent.conversation)] == whole
    request = provider.requests[1]
    assert results_sent(request) == whole
    if style == "anthropic_messages":
        assert roles(request) == ["user", "assistant", "user"]
        assert kinds(request.messages[2]) == ["tool_result"] * 5
    else:
        assert roles(request) == ["user", "assistant", *["tool"] * 5]
    all_valid(provider)
