"""The strict readers of requests: what providers answered they accept, what providers refused they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from panto.testing.validate import validate_request

CORPUS = Path(__file__).parents[3] / "shared" / "wire" / "cases.jsonl"
needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="the recorded traffic in ../shared is not here")

# Refused for what the request does not show: the names a host serves, what a model then wrote, what a URL led to.
UNSEEN = re.compile(
    r"model names are|[Ii]nvalid model|not a valid model|tool call validation failed|did not call a tool"
    r"|Error while downloading|^Provider returned error$"
)


def recorded() -> list[dict[str, object]]:
    lines = CORPUS.read_text("utf-8").split("\n")
    cases = [json.loads(line) for line in lines if line.strip()]
    return [case for case in cases if isinstance(case["request"].get("body"), dict)]


@needs_corpus
def test_every_recorded_request_that_was_answered_is_accepted() -> None:
    answered = [case for case in recorded() if case["response"]["status"] == 200]  # type: ignore[index]
    found = {c["id"]: validate_request(c["api"], c["request"]["body"]) for c in answered}  # type: ignore[arg-type, index]
    assert {id: bad for id, bad in found.items() if bad} == {}
    assert len(found) > 200


@needs_corpus
def test_every_recorded_request_that_was_refused_for_its_shape_is_refused() -> None:
    refused = 0
    for case in recorded():
        expected = case["expected"]
        assert isinstance(expected, dict)
        if case["kind"] != "error" or expected["category"] != "invalid_request":
            continue
        if UNSEEN.search((expected["error"] or {}).get("message") or ""):
            continue
        refused += 1
        assert validate_request(case["api"], case["request"]["body"]), case["id"]  # type: ignore[arg-type, index]
    assert refused > 15


USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "done"}

CHAT_BAD = {
    "no result": [USER, ASKS, USER],
    "no result at the end": [USER, ASKS],
    "result without call": [USER, RESULT],
    "second result": [USER, ASKS, RESULT, RESULT],
    "null without calls": [USER, {"role": "assistant", "content": None}, USER],
    "says nothing": [USER, {"role": "assistant", "content": " "}, USER],
    "blank user": [{"role": "user", "content": ""}],
    "system in the middle": [USER, {"role": "system", "content": "x"}],
    "unknown key": [{"role": "user", "content": "x", "metadata": "y"}],
    "unknown role": [{"role": "function", "content": "x"}],
    "surrogate": [{"role": "user", "content": "\ud83d"}],
    "arguments": [USER, {**ASKS, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "[1]"}}]}, RESULT],
    "no arguments text": [USER, {**ASKS, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": ""}}]}, RESULT],
    "name": [USER, {**ASKS, "tool_calls": [{**CALL, "function": {"name": "a.b", "arguments": "{}"}}]}, RESULT],
    "long id": [USER, {**ASKS, "tool_calls": [{**CALL, "id": "x" * 65}]}, {**RESULT, "tool_call_id": "x" * 65}],
}


@pytest.mark.parametrize("messages", CHAT_BAD.values(), ids=CHAT_BAD.keys())
def test_chat_refuses(messages: list[object]) -> None:
    assert validate_request("openai_chat", {"model": "m", "messages": messages})


def test_chat_accepts_a_tool_loop() -> None:
    messages = [{"role": "system", "content": "x"}, USER, ASKS, RESULT, {"role": "assistant", "content": "ok"}, USER]
    assert validate_request("openai_chat", {"model": "m", "messages": messages}) == []


def said(*blocks: object) -> dict[str, object]:
    return {"role": "assistant", "content": list(blocks)}


def asked(*blocks: object) -> dict[str, object]:
    return {"role": "user", "content": list(blocks)}


USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
DONE = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
TEXT = {"type": "text", "text": "x"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}

MESSAGES_BAD = {
    "no result": [USER, said(USE), USER],
    "no result at the end": [USER, said(USE)],
    "result without call": [asked(DONE)],
    "result not first": [USER, said(USE), asked(TEXT, DONE)],
    "second result": [USER, said(USE), asked(DONE, DONE)],
    "repeated id": [USER, said(USE), asked(DONE), said(USE), asked(DONE)],
    "begins with an answer": [said(TEXT), USER],
    "blank text": [asked({"type": "text", "text": " "})],
    "empty message": [USER, said(), USER],
    "unsigned thinking": [USER, said({"type": "thinking", "thinking": "x"}, TEXT), USER],
    "ends on thinking": [USER, said(THOUGHT), USER],
    "id": [USER, said({**USE, "id": "a.b"}), asked({**DONE, "tool_use_id": "a.b"})],
    "input": [USER, said({**USE, "input": [1]}), asked(DONE)],
    "empty error": [USER, said(USE), asked({**DONE, "content": "", "is_error": True})],
    "orphan server result": [USER, said({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}), USER],
    "open server use": [USER, said({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}), USER],
    "system role": [{"role": "system", "content": "x"}, USER],
    "trailing space": [USER, said({"type": "text", "text": "x "})],
    "many marks": [asked(*({**TEXT, "cache_control": {"type": "ephemeral"}} for _ in range(5)))],
}


@pytest.mark.parametrize("messages", MESSAGES_BAD.values(), ids=MESSAGES_BAD.keys())
def test_messages_refuses(messages: list[object]) -> None:
    assert validate_request("anthropic_messages", {"model": "m", "max_tokens": 10, "messages": messages})


def test_messages_accepts_a_tool_loop() -> None:
    messages = [USER, said(THOUGHT, TEXT, USE), asked(DONE, TEXT), said(TEXT), USER]
    assert validate_request("anthropic_messages", {"model": "m", "max_tokens": 10, "messages": messages}) == []


def test_a_style_without_rules_is_said_to_have_none() -> None:
    with pytest.raises(ValueError, match="no rules"):
        validate_request("openai_responses", {})
