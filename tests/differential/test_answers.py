"""The vendors' own clients and panto read the same bytes, from one server, to the same answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.faces import Face, Ran

import panto
from panto.testing import ScriptedProvider, ScriptedServer, fail, raw

from .streams import CHAT, MESSAGES, chat, words
from .streams import messages as messages_stream

CHAT_STOPS = {
    "stop": "stop", "length": "length", "tool_calls": "tool_use", "content_filter": "content_filter",
}  # fmt: skip
MESSAGES_STOPS = {
    "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_use", "refusal": "refusal",
    "pause_turn": "pause",
}  # fmt: skip


def openai_client(server: ScriptedServer) -> Any:
    import openai

    return openai.OpenAI(api_key="sk-test", base_url=f"{server.url}/v1", max_retries=0)


def anthropic_client(server: ScriptedServer) -> Any:
    import anthropic

    return anthropic.Anthropic(api_key="sk-test", base_url=server.url, max_retries=0)


def by_openai(server: ScriptedServer) -> Any:
    """The whole completion, joined by the vendor's own accumulator."""
    asked = {"model": "m", "messages": [{"role": "user", "content": "go"}], "stream_options": {"include_usage": True}}
    with openai_client(server) as client, client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        return stream.current_completion_snapshot


def by_anthropic(server: ScriptedServer) -> Any:
    with (
        anthropic_client(server) as client,
        client.messages.stream(model="m", max_tokens=99, messages=[{"role": "user", "content": "go"}]) as stream,
    ):
        return stream.get_final_message()


def by_panto(face: Face, server: ScriptedServer, style: str) -> Ran:
    """One request by an agent of this colour; there are no tools, so calls are read and not run."""
    config = panto.Config(
        provider=server.config(style), limits=panto.Limits(max_calls=1), retry=panto.RetryConfig(max_retries=0)
    )
    return face.run(face.agent(config), "go")


def answer_of(ran: Ran) -> panto.MessageComplete:
    if ran.error is not None:
        raise ran.error
    [complete] = ran.of(panto.MessageComplete)
    assert isinstance(complete, panto.MessageComplete)
    return complete


def calls_of(message: panto.Message) -> list[tuple[str, str, Any]]:
    return [(call.id, call.name, json.loads(call.arguments or "{}")) for call in message.tool_calls]


def shown(ran: Ran, kind: panto.ContentBlockType) -> str:
    return "".join(event.text for event in ran.of(panto.ContentDelta) if event.type is kind)


@pytest.mark.parametrize("name", [name for name in CHAT if name not in {"filtered"}])
def test_openai_and_panto_read_the_same_answer(name: str, face: Face) -> None:
    with ScriptedProvider([raw(CHAT[name]), raw(CHAT[name])]).serve() as server:
        theirs = by_openai(server)
        ran = by_panto(face, server, "openai_chat")
    ours = answer_of(ran)
    [choice] = theirs.choices
    said = choice.message
    text = (said.content or "") + (said.refusal or "")
    assert ours.message.text == text
    assert shown(ran, panto.ContentBlockType.TEXT) == text
    assert calls_of(ours.message) == [
        (call.id, call.function.name, json.loads(call.function.arguments)) for call in said.tool_calls or ()
    ]
    expected = "refusal" if said.refusal else CHAT_STOPS[choice.finish_reason]
    assert ours.stop_reason.value == expected
    assert ours.message.stop_raw == choice.finish_reason
    usage = theirs.usage
    if usage is None:
        assert ours.usage is None
        return
    assert ours.usage is not None
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
    thought = usage.completion_tokens_details.reasoning_tokens if usage.completion_tokens_details else None
    assert (ours.usage.input_tokens or 0) + (ours.usage.cache_read_tokens or 0) == usage.prompt_tokens
    assert (ours.usage.cache_read_tokens, ours.usage.reasoning_tokens) == (cached, thought)
    assert ours.usage.output_tokens == usage.completion_tokens


@pytest.mark.parametrize("name", MESSAGES)
def test_anthropic_and_panto_read_the_same_answer(name: str, face: Face) -> None:
    # A paused answer is sent back and goes on, which the limit on calls stops.
    with ScriptedProvider([raw(MESSAGES[name]), raw(MESSAGES[name])]).serve() as server:
        theirs = by_anthropic(server)
        ran = by_panto(face, server, "anthropic_messages")
    ours = answer_of(ran)
    blocks: list[tuple[Any, ...]] = []
    for block in ours.message.content:
        match block:
            case panto.TextualBlock(text):
                blocks.append(("text", text))
            case panto.ThinkingBlock(_, _, str(redacted)):
                blocks.append(("redacted_thinking", redacted))
            case panto.ThinkingBlock(text, signature):
                blocks.append(("thinking", text, signature))
            case panto.ToolUseBlock(id, tool, arguments):
                blocks.append(("tool_use", id, tool, json.loads(arguments or "{}")))
            case _:
                raise AssertionError(block)
    fields = {
        "text": ["text"], "thinking": ["thinking", "signature"], "redacted_thinking": ["data"],
        "tool_use": ["id", "name", "input"],
    }  # fmt: skip
    assert blocks == [(b.type, *(getattr(b, field) for field in fields[b.type])) for b in theirs.content]
    assert shown(ran, panto.ContentBlockType.TEXT) == "".join(b.text for b in theirs.content if b.type == "text")
    assert ours.stop_reason.value == MESSAGES_STOPS[theirs.stop_reason]
    assert ours.message.stop_raw == theirs.stop_reason
    assert ours.usage is not None
    created = theirs.usage.cache_creation
    assert (
        ours.usage.input_tokens, ours.usage.output_tokens, ours.usage.cache_read_tokens, ours.usage.cache_write_tokens,
        ours.usage.cache_write_1h_tokens,
    ) == (
        theirs.usage.input_tokens, theirs.usage.output_tokens, theirs.usage.cache_read_input_tokens,
        theirs.usage.cache_creation_input_tokens, created.ephemeral_1h_input_tokens if created else None,
    )  # fmt: skip


def test_a_filtered_answer_is_told_by_both(face: Face) -> None:
    with ScriptedProvider([raw(CHAT["filtered"]), raw(CHAT["filtered"])]).serve() as server:
        theirs = by_openai(server)
        ran = by_panto(face, server, "openai_chat")
    assert theirs.choices[0].finish_reason == "content_filter"
    assert answer_of(ran).stop_reason is panto.StopReason.CONTENT_FILTER


CUT = (1, 3, 7, 40)


@pytest.mark.parametrize("size", CUT)
def test_small_pieces_make_no_difference_to_either(size: int, face: Face) -> None:
    body = CHAT["parallel calls"]
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    with ScriptedProvider([raw(*pieces), raw(*pieces)]).serve() as server:
        theirs = by_openai(server)
        ours = answer_of(by_panto(face, server, "openai_chat"))
    assert [call[2] for call in calls_of(ours.message)] == [
        json.loads(call.function.arguments) for call in theirs.choices[0].message.tool_calls
    ]


# ---- what goes wrong


STATUSES = [400, 401, 403, 404, 413, 422, 429, 500, 503, 529]


@pytest.mark.parametrize("status", STATUSES)
def test_a_refusal_has_the_same_status_and_words(status: int, face: Face) -> None:
    import anthropic
    import openai

    for style, ask, error in (
        ("openai_chat", by_openai, openai.APIStatusError),
        ("anthropic_messages", by_anthropic, anthropic.APIStatusError),
    ):
        with ScriptedProvider([fail(status, "the words of the provider")] * 2).serve() as server:
            with pytest.raises(error) as theirs:
                ask(server)
            ours = by_panto(face, server, style).error
        assert isinstance(ours, panto.ProviderError)
        assert ours.status == theirs.value.status_code == status
        assert ours.request_id is not None
        for told in (str(ours), str(theirs.value)):
            assert "the words of the provider" in told


def test_an_error_inside_the_stream_is_one_for_both(face: Face) -> None:
    import anthropic
    import openai

    told = b'data: {"error":{"message":"pool is dry","type":"server_error","code":"busy"}}\n\n'
    half = chat({"content": "Part"}).partition(b'"finish_reason": "stop"')[0].rpartition(b"data: ")[0]
    with ScriptedProvider([raw(half + told)] * 2).serve() as server:
        with pytest.raises(openai.APIError, match="pool is dry"):
            by_openai(server)
        ours = by_panto(face, server, "openai_chat").error
    assert isinstance(ours, panto.ProviderError)
    assert "pool is dry" in str(ours)
    assert ours.partial.text == "Part"  # type: ignore[attr-defined]

    told = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy now"}}\n\n'
    half = messages_stream(words("Part")).partition(b"event: content_block_stop")[0]
    with ScriptedProvider([raw(half + told)] * 2).serve() as server:
        with pytest.raises(anthropic.APIError, match="busy now"):
            by_anthropic(server)
        ours = by_panto(face, server, "anthropic_messages").error
    assert isinstance(ours, panto.ProviderError)
    assert ours.kind is panto.ErrorKind.OVERLOADED
    assert "busy now" in str(ours)
    assert ours.partial.text == "Part"  # type: ignore[attr-defined]
