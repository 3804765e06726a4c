"""What the tests of the field cases share: both wires by name, answers written event by event, and resuming."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.stage import Stage

import panto
from panto.testing import RecordedRequest, ScriptedProvider, Step, raw, validate_request

both_wires = pytest.mark.parametrize("style", ["openai_chat", "anthropic_messages"])
"""Runs a test once a wire."""

PLAIN: dict[str, Any] = {"prompt_cache": False}
"""Requests without cache markers, so that they can be compared whole."""


def echo(arguments: dict[str, Any]) -> str:
    return f"echo {arguments.get('x')}"


def chat(*deltas: dict[str, Any], finish: str | None = "stop") -> Step:
    """An answer on the chat wire, by its deltas."""
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if finish is not None:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return raw(*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n")


def messages(*blocks: tuple[dict[str, Any], ...], stop: str = "end_turn") -> Step:
    """An answer on the Messages wire: of each block its start and its deltas."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": {"input_tokens": 3}}}]
    for index, (start, *deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events += [{"type": "message_delta", "delta": {"stop_reason": stop}}, {"type": "message_stop"}]
    return raw(*(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events))


def thought(text: str, signature: str) -> tuple[dict[str, Any], ...]:
    """A signed thinking block of `messages`."""
    start = {"type": "thinking", "thinking": "", "signature": ""}
    said = {"type": "thinking_delta", "thinking": text}
    return start, said, {"type": "signature_delta", "signature": signature}


def text(words: str) -> tuple[dict[str, Any], ...]:
    """A text block of `messages`."""
    return {"type": "text", "text": ""}, {"type": "text_delta", "text": words}


def used(id: str, name: str, arguments: str) -> tuple[dict[str, Any], ...]:
    """A call of `messages`."""
    start = {"type": "tool_use", "id": id, "name": name, "input": {}}
    return start, {"type": "input_json_delta", "partial_json": arguments}


def roles(request: RecordedRequest) -> list[str]:
    return [str(message["role"]) for message in request.messages]


def flat(message: dict[str, Any]) -> str:
    """The text of a message as a chat template joins it: part after part, with nothing between."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def all_valid(provider: ScriptedProvider) -> None:
    """No request that the vendor's published rules would refuse."""
    for request in provider.requests:
        assert validate_request(request.wire, request.body) == [], request


def kinds(message: dict[str, Any]) -> list[str]:
    """The types of a message's blocks on the Messages wire."""
    return [block["type"] for block in message["content"]]


def agent_again(
    stage: Stage,
    agent: Any,
    provider: ScriptedProvider,
    *tools: panto.Tool,
    session: panto.Session | None = None,
    conversation: panto.Conversation | None = None,
    **changes: Any,
) -> Any:
    """A second agent before the same provider; `changes` are fields of its config."""
    old = agent._engine.config
    config = panto.Config(provider=old.provider, retry=old.retry, **changes)
    more: dict[str, Any] = {"transport": provider} if stage.way == "memory" else {}
    made = stage.face.agent(config, session, conversation, **more)
    for tool in tools:
        made.register_tool(tool)
    return made


def with_provider(agent: Any, **changes: Any) -> panto.Config:
    """The agent's config with fields of its provider changed."""
    old = agent._engine.config.provider
    names = set(type(old).__struct_fields__) - {"url_secret"}
    fields = {name: getattr(old, name) for name in names} | {"api_key": "k"} | changes
    return panto.Config(provider=type(old)(**fields), retry=agent._engine.config.retry)
