"""A scripted provider: what it answers, in process and over a real connection, in both colours and on both wires."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.faces import Face

from panto import (
    APIStyle,
    Config,
    ContentDelta,
    ErrorKind,
    ProviderError,
    ProviderRetry,
    RetryConfig,
    StopReason,
    ThinkingBlock,
    Timeouts,
    Tool,
    ToolDispatchComplete,
    TurnComplete,
    Usage,
)
from panto.errors import RETRYABLE_KINDS
from panto.testing import ScriptedProvider, ScriptError, call, drop, fail, overflow, raw, say, think, wait

WIRES = ["openai_chat", "anthropic_messages"]
NO_RETRY = RetryConfig(max_retries=0)
AT_ONCE = RetryConfig(max_retries=2, initial_delay=0)


class Way:
    """One way to a scripted provider: in process, or over a loopback server."""

    def __init__(self, face: Face, wire: str, serve: bool) -> None:
        self.face, self.wire, self.serve = face, wire, serve
        self.server: Any = None

    def agent(self, provider: ScriptedProvider, *tools: Tool, retry: RetryConfig = AT_ONCE, **options: Any) -> Any:
        if self.serve:
            self.server = provider.serve()
            self.server.__enter__()
            agent = self.face.agent(Config(provider=self.server.config(self.wire, **options), retry=retry))
        else:
            config = Config(provider=provider.config(self.wire, **options), retry=retry)
            agent = self.face.agent(config, transport=provider)
        for tool in tools:
            agent.register_tool(tool)
        return agent

    def run(self, agent: Any, said: Any = "Hello", **more: Any) -> Any:
        return self.face.run(agent, said, **more)

    def end(self) -> None:
        if self.server is not None:
            self.server.__exit__(AssertionError, None, None)  # what a script left over is asserted by those who ask


@pytest.fixture(params=["in process", "server"])
def way(request: pytest.FixtureRequest, face: Face, wire: str) -> Iterator[Way]:
    made = Way(face, wire, request.param == "server")
    yield made
    made.end()


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def shown(ran: Any) -> list[str]:
    return [event.text for event in ran.of(ContentDelta)]


def test_each_piece_that_is_said_is_one_delta(way: Way) -> None:
    provider = ScriptedProvider([say("Hel", "lo", "!")])
    ran = way.run(way.agent(provider))
    assert shown(ran) == ["Hel", "lo", "!"]
    assert ran.last == TurnComplete(StopReason.STOP, Usage(input_tokens=10, output_tokens=5))
    assert provider.requests[0].ended == "end"
    provider.done()


def test_a_plain_string_is_said(way: Way) -> None:
    assert shown(way.run(way.agent(ScriptedProvider(["Hi"])))) == ["Hi"]


def test_a_call_is_run_and_its_result_is_in_the_next_request(way: Way) -> None:
    tool = Tool("read", "Read.", {"type": "object"}, lambda arguments: f"text of {arguments['path']}")
    provider = ScriptedProvider([say("Let me look. ") + call("read", path="a.txt"), say("Done.")])
    agent = way.agent(provider, tool)
    ran = way.run(agent)
    assert [event.result.parts[0].text for event in ran.of(ToolDispatchComplete)] == ["text of a.txt"]
    assert [request.tools for request in provider.requests] == [["read"], ["read"]]
    assert provider.requests[1].last == "text of a.txt"
    assert agent.conversation.messages[-1].text == "Done."
    assert not agent.conversation.problems()
    provider.done()


def test_calls_get_ids_that_no_other_call_of_the_provider_has(way: Way) -> None:
    tool = Tool("now", "Now.", {"type": "object"}, lambda arguments: "noon")
    provider = ScriptedProvider([call("now") + call("now"), call("now"), call("now", call_id="mine"), "Done."])
    agent = way.agent(provider, tool)
    way.run(agent)
    ids = [block.id for message in agent.conversation.messages for block in message.tool_calls]
    assert len(ids) == len(set(ids)) == 4
    assert ids[-1] == "mine"


def test_arguments_may_be_torn(way: Way) -> None:
    tool = Tool("read", "Read.", {"type": "object"}, lambda arguments: pytest.fail("it must not run"))
    provider = ScriptedProvider([call("read", ['{"pa', 'th": "']), "Sorry."])
    ran = way.run(way.agent(provider, tool))
    assert ran.of(ToolDispatchComplete)[0].result.is_error


def test_thinking_comes_as_thinking(way: Way) -> None:
    provider = ScriptedProvider([think("Hm", "m.") + say("Yes.")])
    agent = way.agent(provider)
    way.run(agent)
    block = agent.conversation.messages[-1].content[0]
    assert isinstance(block, ThinkingBlock)
    assert block.text == "Hmm."
    assert block.signature == ("scripted-signature" if way.wire == "anthropic_messages" else None)


def test_a_scripted_stop_reason_and_usage_are_told(way: Way) -> None:
    spent = Usage(input_tokens=7, output_tokens=9, cache_read_tokens=100, reasoning_tokens=3)
    provider = ScriptedProvider([say("And so", stop=StopReason.LENGTH, usage=spent)])
    ran = way.run(way.agent(provider))
    assert ran.last == TurnComplete(StopReason.LENGTH, spent)


def test_an_answer_may_say_nothing_of_usage(way: Way) -> None:
    assert way.run(way.agent(ScriptedProvider([say("Hi", usage=None)]))).last.usage == Usage()


@pytest.mark.parametrize("cut", ["events", "whole", 1, 7, (3, 100, 1)])
def test_any_cut_of_the_bytes_gives_the_same_deltas(way: Way, cut: Any) -> None:
    provider = ScriptedProvider([say("Grü", "ße 🙂", cut=cut)])
    assert shown(way.run(way.agent(provider))) == ["Grü", "ße 🙂"]


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 529])
def test_a_failure_is_told_with_its_status_and_words(way: Way, status: int) -> None:
    provider = ScriptedProvider([fail(status, "the words")])
    ran = way.run(way.agent(provider, retry=NO_RETRY))
    assert isinstance(ran.error, ProviderError)
    assert (ran.error.status, ran.error.message) == (status, "the words")
    assert ran.error.request_id == "req_1"


KINDS = {
    400: ErrorKind.INVALID_REQUEST,
    401: ErrorKind.AUTH,
    402: ErrorKind.BILLING,
    404: ErrorKind.NOT_FOUND,
    429: ErrorKind.RATE_LIMIT,
    500: ErrorKind.SERVER,
    529: ErrorKind.OVERLOADED,
}


@pytest.mark.parametrize("status", KINDS)
def test_a_failure_is_of_the_kind_that_its_status_means(face: Face, wire: str, status: int) -> None:
    way = Way(face, wire, serve=False)
    ran = way.run(way.agent(ScriptedProvider([fail(status)]), retry=NO_RETRY))
    assert ran.error.kind is KINDS[status]


def test_an_overflow_is_told_as_the_vendor_tells_it(way: Way) -> None:
    ran = way.run(way.agent(ScriptedProvider([overflow()]), retry=NO_RETRY))
    assert ran.error.kind is ErrorKind.CONTEXT_OVERFLOW


def test_a_failure_in_the_middle_is_an_error_event(way: Way) -> None:
    provider = ScriptedProvider([say("Hel", "lo") + fail(529, "Overloaded"), say("Hello")])
    ran = way.run(way.agent(provider))
    assert shown(ran) == ["Hel", "lo", "Hello"]
    (retry,) = ran.of(ProviderRetry)
    assert retry.info.message == "Overloaded"
    assert retry.info.voided
    provider.done()


def test_a_connection_breaks_after_so_many_deltas(way: Way) -> None:
    provider = ScriptedProvider([say("one ", "two ", "three", cut_after=2)])
    ran = way.run(way.agent(provider, retry=NO_RETRY))
    assert shown(ran) == ["one ", "two "]
    assert ran.error.kind is ErrorKind.CONNECTION
    assert ran.error.partial.text == "one two "
    assert provider.requests[0].ended == "broken"


def test_an_answer_may_end_without_its_end_signal(way: Way) -> None:
    provider = ScriptedProvider([say("one", cut_after=9, breaks="end")])
    ran = way.run(way.agent(provider, retry=NO_RETRY))
    assert shown(ran) == ["one"]
    assert ran.error.kind is ErrorKind.STREAM_ENDED


@pytest.mark.parametrize("step", [drop("silence"), say("one", cut_after=9, breaks="silence")])
def test_a_silent_provider_is_given_up_after_the_idle_timeout(way: Way, step: Any) -> None:
    ran = way.run(way.agent(ScriptedProvider([step]), retry=NO_RETRY, timeouts=Timeouts(idle=0.2)))
    assert ran.error.kind is ErrorKind.TIMEOUT
    assert "0.2 s (Timeouts.idle)" in ran.error.message


@pytest.mark.parametrize("step", [say("late", delay=0.4), say("a") + wait(0.4) + say("b"), say("a", pace=0.4)])
def test_who_waits_longer_than_the_idle_timeout_is_given_up_too(way: Way, step: Any) -> None:
    ran = way.run(way.agent(ScriptedProvider([step]), retry=NO_RETRY, timeouts=Timeouts(idle=0.1)))
    assert ran.error.kind is ErrorKind.TIMEOUT


def test_a_connection_that_breaks_before_the_answer_is_tried_again(way: Way) -> None:
    provider = ScriptedProvider([drop(), say("Hello")])
    ran = way.run(way.agent(provider))
    assert ran.of(ProviderRetry)[0].info.kind is ErrorKind.CONNECTION
    assert shown(ran) == ["Hello"]


def test_a_certificate_that_is_not_trusted_and_a_refused_connection_can_be_scripted_in_process(
    face: Face, wire: str
) -> None:
    way = Way(face, wire, serve=False)
    ran = way.run(way.agent(ScriptedProvider([drop("certificate")])))
    assert ran.error.kind is ErrorKind.CERTIFICATE
    ran = way.run(way.agent(ScriptedProvider([drop("refused")]), retry=NO_RETRY))
    assert ran.error.kind is ErrorKind.CONNECTION
    assert "refused" in ran.error.message


def test_raw_bytes_are_answered_as_they_are(face: Face) -> None:
    body = 'data: {"choices":[{"index":0,"delta":{"content":"raw"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    for serve in (False, True):
        way = Way(face, "openai_chat", serve)
        assert shown(way.run(way.agent(ScriptedProvider([raw(body[:30], body[30:])])))) == ["raw"]
        way.end()


def test_a_step_may_be_a_function_of_the_request(way: Way) -> None:
    provider = ScriptedProvider([lambda request: say(f"You said {request.last}.")])
    assert shown(way.run(way.agent(provider), "Boo")) == ["You said Boo."]


def test_text_beside_text_is_one_block_whatever_waits_between(way: Way) -> None:
    provider = ScriptedProvider([say("a") + wait(0.01) + say("b", delay=0.01, pace=0.001)])
    agent = way.agent(provider)
    way.run(agent)
    assert [block.text for block in agent.conversation.messages[-1].content] == ["ab"]


def test_closing_a_stream_closes_the_answer(face: Face, wire: str) -> None:
    way = Way(face, wire, serve=False)
    provider = ScriptedProvider([say("one", "two", "three")])
    way.run(way.agent(provider), stop=lambda event: isinstance(event, ContentDelta))
    assert provider.requests[0].ended == "closed"


def test_a_request_beyond_the_script_fails_and_says_which(face: Face, wire: str) -> None:
    provider = ScriptedProvider([say("Hello")])
    agent = face.agent(Config(provider=provider.config(wire)), transport=provider)
    face.run(agent, "one")
    with pytest.raises(ScriptError, match=r"request 2 .*last: 'two'.* is beyond the script, which has 1 steps"):
        face.run(agent, "two")
    with pytest.raises(AssertionError, match="request 2"):
        provider.done()


def test_a_request_beyond_the_script_of_a_server_is_told_to_the_client_and_at_the_end(face: Face, wire: str) -> None:
    provider = ScriptedProvider([])
    with pytest.raises(ScriptError, match=r"request 1 .*beyond the script"), provider.serve() as server:
        ran = face.run(face.agent(Config(provider=server.config(wire))), "one")
        assert isinstance(ran.error, ProviderError)
        assert "beyond the script" in ran.error.message
    assert ran.error.kind not in RETRYABLE_KINDS


def test_steps_that_were_not_used_are_named() -> None:
    with pytest.raises(AssertionError, match=r"2 of 2 steps .* not used") as caught:
        with ScriptedProvider([say("Hello"), fail(429)]):
            pass
    assert "step 2: Fail(status=429" in str(caught.value)


def test_an_exception_in_the_block_is_not_hidden_by_unused_steps() -> None:
    with pytest.raises(KeyError), ScriptedProvider([say("Hello")]):
        raise KeyError


def test_more_steps_may_be_added_while_it_is_used(face: Face) -> None:
    provider = ScriptedProvider().then(say("a"))
    agent = face.agent(Config(provider=provider.config()), transport=provider)
    face.run(agent, "one")
    provider.then("b")
    assert shown(face.run(agent, "two")) == ["b"]


def test_a_path_that_no_wire_has_is_refused() -> None:
    provider = ScriptedProvider([say("Hello")])
    with pytest.raises(ScriptError, match=r"/v1/embeddings.*/chat/completions"):
        provider.take("http://h/v1/embeddings", {}, b"{}")


def test_a_step_of_a_wrong_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="not a int"):
        ScriptedProvider([42]).take("http://h/v1/messages", {}, b"{}")  # type: ignore[list-item]


def test_arguments_of_a_call_are_text_or_named_not_both() -> None:
    with pytest.raises(TypeError, match="not both"):
        call("read", "{}", path="a")


def test_a_config_may_carry_any_field_and_either_wire() -> None:
    made = ScriptedProvider().config("anthropic_messages", model="m", max_tokens=7)
    assert (made.model, made.max_tokens, made.wire_identity().api_style) == ("m", 7, APIStyle.ANTHROPIC_MESSAGES)


def test_a_strict_provider_refuses_what_the_vendor_would_refuse(face: Face, wire: str) -> None:
    provider = ScriptedProvider(["Hi", "Hi"], strict=True)
    agent = face.agent(Config(provider=provider.config(wire)), transport=provider)
    assert shown(face.run(agent, "Hello")) == ["Hi"]
    agent.set_config(Config(provider=provider.config(wire, extra_body={"messages": []})))
    with pytest.raises(ScriptError, match=r"request 2 .* would be refused:\n  messages: .*at least one message"):
        face.run(agent, "Hello")
    assert provider.unused == ["Hi"]
