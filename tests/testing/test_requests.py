"""What a test may say of a recorded request, and what it is told when it is wrong."""

from __future__ import annotations

import pytest
from tests.faces import Face

from panto import APIStyle, Config
from panto.testing import RecordedRequest, ScriptedProvider, assert_request, first_difference, say


def recorded(face: Face, wire: str, said: str = "Hello") -> RecordedRequest:
    provider = ScriptedProvider([say("Hi")])
    agent = face.agent(Config(provider=provider.config(wire, max_tokens=50)), transport=provider)
    face.call(agent.set_system_prompt("Be brief."))
    face.run(agent, said)
    return provider.requests[0]


@pytest.mark.parametrize("wire", ["openai_chat", "anthropic_messages"])
def test_a_request_tells_the_same_on_both_wires(face: Face, wire: str) -> None:
    request = recorded(face, wire)
    assert request.wire is APIStyle(wire)
    assert (request.model, request.system, request.tools, request.last) == ("scripted", "Be brief.", [], "Hello")


def test_what_is_as_expected_passes_and_more_may_be_there(face: Face) -> None:
    request = recorded(face, "openai_chat")
    request.expect(model="scripted", messages=[{"role": "system"}, {"role": "user", "content": "Hello"}])
    assert_request(request, {"stream": True})


def test_the_first_difference_is_named_by_its_path(face: Face) -> None:
    request = recorded(face, "openai_chat")
    with pytest.raises(AssertionError) as caught:
        request.expect(messages=[{"role": "system"}, {"role": "user", "content": "Bye"}])
    told = str(caught.value)
    assert "request 1 (openai_chat, 2 messages, last: 'Hello')" in told
    assert "at body.messages[1].content\n  expected: 'Bye'\n  but it is: 'Hello'" in told


@pytest.mark.parametrize(
    ("actual", "expected", "told"),
    [
        ({"a": 1}, {"b": 1}, "at body.b\n  expected: 1\n  but it is: nothing; the keys are a"),
        ([1], [1, 2], "at body[1]\n  expected: 2\n  but it is: nothing; there are 1"),
        ([1, 2], [1], "at body[1]\n  expected: nothing\n  but it is: 2"),
        ({"a": {"x-y": 1}}, {"a": {"x-y": 2}}, "at body.a['x-y']\n  expected: 2\n  but it is: 1"),
        ({"a": 1}, {"a": True}, "at body.a\n  expected: True\n  but it is: 1"),
        ({"a": [1]}, {"a": "1"}, "at body.a\n  expected: '1'\n  but it is: [1]"),
    ],
)
def test_each_kind_of_difference_is_told(actual: object, expected: object, told: str) -> None:
    assert first_difference(actual, expected) == told


def test_a_difference_deep_in_a_long_text_is_shown_where_it_is() -> None:
    told = first_difference("x" * 500 + "yes", "x" * 500 + "no")
    assert told is not None
    assert "from character 480 on" in told
    assert "'xxxxxxxxxxxxxxxxxxxxno'" in told


def test_exact_takes_nothing_more() -> None:
    assert first_difference({"a": {"b": 1}}, {"a": {"b": 1}}, exact=True) is None
    told = first_difference({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, exact=True)
    assert told == "at body.a.c\n  expected: nothing\n  but it is: 2"


def test_no_key_is_in_what_is_shown_of_a_request(face: Face) -> None:
    provider = ScriptedProvider([say("Hi")])
    config = provider.config("openai_chat", api_key="sk-canary", base_url="http://u:sk-canary@h/v1?key=sk-canary")
    face.run(face.agent(Config(provider=config), transport=provider), "Hello")
    request = provider.requests[0]
    assert request.headers["authorization"] == "Bearer sk-canary"
    with pytest.raises(AssertionError) as caught:
        request.expect(model="other")
    shown = f"{request!r} {request} {request.headers!r} {request.url} {provider!r} {caught.value}"
    assert "sk-canary" not in shown
