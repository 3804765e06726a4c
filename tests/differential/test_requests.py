"""The same conversation, given to a vendor's own client and to panto, makes requests that mean the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.faces import Face

import panto
from panto.testing import RecordedRequest, ScriptedProvider, say

from .test_answers import anthropic_client, openai_client

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "where"}, "lines": {"type": "integer"}},
    "required": ["path"],
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC"
ARGUMENTS = '{"path": "Ærø 🦊.txt", "lines": 3}'


def history() -> panto.Conversation:
    conversation = panto.Conversation()
    conversation.add_system_message("Be brief.")
    conversation.add_user_message("What does it say?")
    conversation.add_assistant_message(
        [panto.TextualBlock("Let me look."), panto.ToolUseBlock("c1", "read", ARGUMENTS)]
    )
    conversation.messages.append(
        panto.Message(
            panto.MessageRole.USER, [panto.ToolResultBlock("c1", (panto.TextPart("line one\n\tline two \u2028"),))]
        )
    )
    conversation.add_assistant_message([panto.ToolUseBlock("c2", "read", '{"path":"b"}')])
    conversation.messages.append(
        panto.Message(panto.MessageRole.USER, [panto.ToolResultBlock("c2", (panto.TextPart("gone"),), is_error=True)])
    )
    conversation.add_assistant_message([panto.TextualBlock("It says so.")])
    return conversation


def sent_by_panto(face: Face, provider: ScriptedProvider, config: panto.ProviderConfig) -> RecordedRequest:
    agent = face.agent(panto.Config(provider=config), conversation=history())
    agent.register_tool(panto.Tool("read", "Read a file.", SCHEMA, lambda arguments: "x"))
    assert face.run(agent, "Thanks.").error is None
    return provider.requests[-1]


def plain(value: Any) -> Any:
    """The same meaning in one form: text alone and text in a list of parts; arguments as what they say."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {key: plain(item) for key, item in value.items()}
    for key in ("content", "system"):
        if isinstance(out.get(key), str):
            out[key] = [{"type": "text", "text": out[key]}]
    if isinstance(out.get("arguments"), str):
        out["arguments"] = json.loads(out["arguments"])
    return out


OPTIONS: list[dict[str, Any]] = [{}, {"max_tokens": 100, "temperature": 0.5, "top_p": 0.9}]


@pytest.mark.parametrize("options", OPTIONS)
def test_openai_and_panto_ask_the_same(face: Face, options: dict[str, Any]) -> None:
    asked: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What does it say?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": ARGUMENTS}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "line one\n\tline two \u2028"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c2", "type": "function", "function": {"name": "read", "arguments": '{"path":"b"}'}}]},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: gone"},
        {"role": "assistant", "content": "It says so."},
        {"role": "user", "content": "Thanks."},
    ]  # fmt: skip
    function = {"name": "read", "description": "Read a file.", "parameters": SCHEMA}
    provider = ScriptedProvider([say("ok"), say("ok")])
    with provider.serve() as server:
        with openai_client(server) as client:
            list(client.chat.completions.create(
                model="m", messages=asked, tools=[{"type": "function", "function": function}], stream=True,
                stream_options={"include_usage": True}, **options,
            ))  # fmt: skip
        ours = sent_by_panto(face, provider, server.config("openai_chat", model="m", api_key="sk-test", **options))
    theirs = provider.requests[0]
    assert plain(ours.body) == plain(theirs.body)
    assert ours.url == theirs.url
    assert ours.headers["authorization"] == theirs.headers["authorization"]
    assert ours.headers["content-type"] == theirs.headers["content-type"]


@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}])
def test_anthropic_and_panto_ask_the_same(face: Face, options: dict[str, Any]) -> None:
    asked: list[dict[str, Any]] = [
        {"role": "user", "content": "What does it say?"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "c1", "name": "read", "input": json.loads(ARGUMENTS)}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "line one\n\tline two \u2028"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c2", "name": "read", "input": {"path": "b"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c2", "content": "gone", "is_error": True}]},
        {"role": "assistant", "content": "It says so."},
        {"role": "user", "content": "Thanks."},
    ]  # fmt: skip
    tool = {"name": "read", "description": "Read a file.", "input_schema": SCHEMA}
    provider = ScriptedProvider([say("ok"), say("ok")])
    with provider.serve() as server:
        with anthropic_client(server) as client:
            list(client.messages.create(
                model="m", max_tokens=100, system="Be brief.", messages=asked, tools=[tool], stream=True,
                extra_body=options,
            ))  # fmt: skip
        config = server.config(
            "anthropic_messages", model="m", api_key="sk-test", max_tokens=100, prompt_cache=False, **options
        )
        ours = sent_by_panto(face, provider, config)
    theirs = provider.requests[0]
    assert plain(ours.body) == plain(theirs.body)
    assert ours.url == theirs.url
    # Client 2.14 asks for version 2026-10-21, under which the key is a bearer token; panto asks for the first version,
    # which every compatible server knows, and sends the key as that one has it.
    assert ours.headers["anthropic-version"] == "2023-06-01"
    assert theirs.headers["authorization"] == f"Bearer {ours.headers['x-api-key']}"


def test_an_image_is_said_the_same_way(face: Face) -> None:
    import base64

    said = panto.UserMessage("What is it?", [panto.MediaPart("image/png", base64.b64decode(PIXEL))])
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    words = {"type": "text", "text": "What is it?"}
    provider = ScriptedProvider([say("ok")] * 4)
    with provider.serve() as server:
        with openai_client(server) as client:
            asked: list[Any] = [{"role": "user", "content": [image, words]}]
            list(client.chat.completions.create(model="m", messages=asked, stream=True))
        with anthropic_client(server) as client:
            asked = [{"role": "user", "content": [{"type": "image", "source": source}, words]}]
            list(client.messages.create(model="m", max_tokens=9, messages=asked, stream=True))
        for style in ("openai_chat", "anthropic_messages"):
            more: dict[str, Any] = {"prompt_cache": False} if style == "anthropic_messages" else {}
            agent = face.agent(panto.Config(provider=server.config(style, model="m", **more)))
            assert face.run(agent, said).error is None
    openai, anthropic, ours, ours_too = provider.requests
    assert plain(ours.body["messages"]) == plain(openai.body["messages"])
    assert plain(ours_too.body["messages"]) == plain(anthropic.body["messages"])
