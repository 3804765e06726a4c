"""Family TN of the field cases: any name of a tool reaches the wire, and each call its own tool."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.field.wires import all_valid, both_wires
from tests.stage import Stage, results, texts

import panto
from panto.testing import RecordedRequest, Step, call, say

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONG = "enterprise-database-management__synchronize-all-customer-records-between-regions"


class Source:
    """Tools of a server, whose names are told under a prefix and called as the server knows them."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.called: list[str] = []

    def decls(self) -> list[panto.ToolDecl]:
        return [panto.ToolDecl(name, f"does {name}", {"type": "object", "properties": {}}) for name in self.names]

    def call(self, calls: list[panto.ToolCall]) -> list[panto.ToolCallResult]:
        self.called += [called.name for called in calls]
        return [panto.ToolCallResult((panto.TextPart(f"source: {called.name}"),)) for called in calls]


def call_all(request: RecordedRequest) -> Step:
    """The model calls every tool that it is offered, by the name that it sees."""
    assert all(LEGAL.fullmatch(name) for name in request.tools)
    assert len(set(request.tools)) == len(request.tools)
    answer = say("")
    for name in request.tools:
        answer += call(name)
    return answer


def named(stage: Stage, *names: str) -> list[panto.Tool]:
    """Tools that answer with their own name."""

    def tool(name: str) -> panto.Tool:
        return stage.tool(name, lambda arguments: f"tool: {name}")

    return [tool(name) for name in names]


def own_names(agent: Any, ran: Any) -> list[str]:
    """The names in the events of a run, which are those of its history."""
    shown = [event.call.name for event in ran.of(panto.ToolDispatchStart)]
    stored = [block.name for message in agent.conversation.messages for block in message.tool_calls]
    assert shown == stored == [event.name for event in ran.of(panto.ToolDetails)]
    return shown


ODD = ["calendar.create", "admin/tools/list", "a b", "x:y"]


@both_wires
def test_tn_01_names_that_no_wire_can_carry_are_encoded_there_and_nowhere_else(stage: Stage, style: str) -> None:
    session = panto.MemoryStore().create()
    agent, provider = stage.agent([call_all, say("ok")], *named(stage, *ODD), style=style, session=session)
    ran = stage.run(agent)
    assert own_names(agent, ran) == ODD
    assert [result.text for result in results(agent.conversation)] == [f"tool: {name}" for name in ODD]
    assert session.load() == agent.conversation
    all_valid(provider)


@both_wires
def test_tn_01_a_source_is_called_by_its_own_names(stage: Stage, style: str) -> None:
    source = Source(*ODD)
    agent, provider = stage.agent([call_all, say("ok")], style=style)
    agent.register_tool_source(source)
    ran = stage.run(agent)
    assert source.called == own_names(agent, ran) == ODD
    all_valid(provider)


@both_wires
def test_tn_02_a_name_too_long_for_the_wire_is_shortened_and_keeps_a_readable_start(stage: Stage, style: str) -> None:
    other = LONG[:-1] + "z"
    source = Source(LONG, other)
    agent, provider = stage.agent([call_all, say("ok"), say("more")], style=style)
    agent.register_tool_source(source)
    ran = stage.run(agent)
    assert source.called == own_names(agent, ran) == [LONG, other]
    stage.run(agent, "and?")
    sent = provider.requests[0].tools
    assert all(name.startswith("enterprise-database-management_synchronize") for name in sent)
    assert [request.tools for request in provider.requests] == [sent] * 3
    again, once_more = stage.agent([say("ok")], style=style)
    again.register_tool_source(Source(other, LONG))
    stage.run(again)
    assert once_more.requests[0].tools == sent[::-1]  # by the name alone: not by the order, not by the run
    all_valid(provider)


@both_wires
@pytest.mark.parametrize(
    "names",
    [
        ["catalog.query", "catalog_query"],
        ["catalog_query", "catalog.query"],
        ["a.b", "a-b", "a_b", "a__b", "a/b"],
        [LONG, LONG.replace("__", "..")],
    ],
    ids=["encoded first", "legal first", "five", "long"],
)
def test_tn_03_two_names_never_become_one_and_each_call_runs_its_own(
    stage: Stage, style: str, names: list[str]
) -> None:
    agent, provider = stage.agent([call_all, say("ok")], *named(stage, *names), style=style)
    ran = stage.run(agent)
    assert own_names(agent, ran) == names
    assert [result.text for result in results(agent.conversation)] == [f"tool: {name}" for name in names]
    sent = dict(zip(names, provider.requests[0].tools, strict=True))
    assert {name: sent[name] for name in names if LEGAL.fullmatch(name)} == {n: n for n in names if LEGAL.fullmatch(n)}
    all_valid(provider)


@both_wires
def test_tn_03_a_tool_registered_later_takes_no_name_from_a_legal_one(stage: Stage, style: str) -> None:
    agent, provider = stage.agent(
        [call_all, say("ok"), call_all, say("ok")], *named(stage, "catalog.query"), style=style
    )
    stage.run(agent)
    for tool in named(stage, "catalog_query"):
        agent.register_tool(tool)
    stage.run(agent, "again")
    told = [result.text for result in results(agent.conversation)]
    assert told == ["tool: catalog.query", "tool: catalog.query", "tool: catalog_query"]
    assert provider.requests[2].tools[1] == "catalog_query"
    all_valid(provider)


@both_wires
@pytest.mark.parametrize("second", ["source", "tool"])
def test_tn_04_one_full_name_from_two_places_is_an_error_and_nothing_is_sent(
    stage: Stage, style: str, second: str
) -> None:
    agent, provider = stage.agent([], style=style)
    agent.register_tool_source(Source("search"))
    if second == "source":
        agent.register_tool_source(Source("search"))
    else:
        agent.register_tool(named(stage, "search")[0])
    ran = stage.run(agent)
    assert isinstance(ran.error, panto.ToolNameError)
    assert "search" in str(ran.error)
    assert "prefix" in str(ran.error)
    assert provider.requests == []
    assert agent.conversation.messages == []


@both_wires
def test_tn_04_sources_are_told_apart_by_their_prefix_and_nothing_is_dropped(stage: Stage, style: str) -> None:
    web, files = Source("web.search"), Source("files.search")
    agent, provider = stage.agent([call_all, say("ok")], *named(stage, "search"), style=style)
    agent.register_tool_source(web)
    agent.register_tool_source(files)
    ran = stage.run(agent)
    assert own_names(agent, ran) == ["search", "web.search", "files.search"]
    assert (web.called, files.called) == (["web.search"], ["files.search"])
    assert texts(ran) == "ok"
    all_valid(provider)
