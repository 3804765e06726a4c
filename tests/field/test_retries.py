"""Family RY of the field cases: what is tried again, when, and what the caller sees of it."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest
from tests.drive.http_servers import Peer, Server
from tests.faces import Face
from tests.field.wires import all_valid, both_wires, echo
from tests.stage import QUICK, Stage, results, texts

import panto
from panto.testing import FakeClock, RecordedRequest, Step, call, drop, fail, raw, say, wait

NONE = panto.RetryConfig(max_retries=0)
START = 1_750_000_000.0
"""Where a `FakeClock` begins."""


def retries(ran: Any) -> list[panto.ProviderRetryInfo]:
    return [event.info for event in ran.of(panto.ProviderRetry)]


# ---- RY-01: an exhausted quota


@both_wires
@pytest.mark.parametrize(
    "refusal",
    [
        fail(429, body={"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "no credit"}}),
        fail(402, "no credit"),
        fail(402, body={"error": {"message": "no credit"}}),
    ],
    ids=["429", "402", "402 without a type"],
)
def test_ry_01_an_exhausted_quota_is_told_at_once_with_the_providers_words(
    stage: Stage, style: str, refusal: Step
) -> None:
    with FakeClock() as clock:
        agent, provider = stage.agent([refusal], style=style, retry=panto.RetryConfig())
        ran = stage.run(agent)
    assert isinstance(ran.error, panto.ProviderError)
    assert (ran.error.kind, ran.error.retryable) == (panto.ErrorKind.BILLING, False)
    assert "no credit" in str(ran.error)
    assert len(provider.requests) == 1
    assert retries(ran) == clock.sleeps == provider.clock.sleeps == []


# ---- RY-02: Retry-After in every form


RETRY_AFTER: list[tuple[dict[str, str], float | None]] = [
    ({"Retry-After": "3"}, 3),
    ({"Retry-After": "0.4"}, 0.4),
    ({"Retry-After": formatdate(START + 5, usegmt=True)}, 5),
    ({"Retry-After": formatdate(START - 3600, usegmt=True)}, 0),
    ({"retry-after-ms": "800"}, 0.8),
    ({"Retry-After": "0x10"}, None),
    ({"Retry-After": "-1"}, None),
    ({"Retry-After": ""}, None),
    ({"Retry-After": "1", "retry-after-ms": "0"}, 1),
    ({"Retry-After": "1", "retry-after-ms": "2500"}, 2.5),
    ({"Retry-After": "soon", "retry-after-ms": "2500"}, 2.5),
    ({"Retry-After": "2, 4"}, 4),  # as HTTP libraries join a header that came twice
    ({"Retry-After": "3600"}, 60),  # max_delay
]


@both_wires
@pytest.mark.parametrize(("headers", "seconds"), RETRY_AFTER)
def test_ry_02_the_wait_is_what_retry_after_says_in_any_form_and_a_back_off_where_it_is_malformed(
    stage: Stage, style: str, headers: dict[str, str], seconds: float | None
) -> None:
    with FakeClock(chance=0.5) as clock:
        agent, provider = stage.agent(
            [fail(429, "slow down", headers=headers), say("ok")],
            style=style,
            retry=panto.RetryConfig(initial_delay=8, max_delay=60),
        )
        if stage.way == "memory":
            clock = provider.clock
        ran = stage.run(agent)
    assert texts(ran) == "ok"
    back_off = 8 * 0.75 if stage.way == "loopback" else 8 * 0.5  # half of it by chance, as the clock says
    wanted = back_off if seconds is None else seconds
    assert clock.sleeps == [pytest.approx(wanted)]
    assert [info.delay for info in retries(ran)] == clock.sleeps


def test_ry_02_of_a_header_that_came_twice_the_larger_wins(face: Face) -> None:
    def script(peer: Peer) -> None:
        while peer.request() is not None:
            if len(peer.server.requests) == 1:
                peer.answer(b"{}", "retry-after: 7", "Retry-After: 2", status="429 Too Many Requests")
            else:
                peer.answer(ANSWER, "content-type: text/event-stream")

    with FakeClock() as clock, Server(script) as server:
        ran = face.run(face.agent(before(server, panto.RetryConfig())), "go")
    assert texts(ran) == "ok"
    assert clock.sleeps == [7]


# ---- RY-03: overloaded


BUSY_FIRST = {
    "openai_chat": raw(b'data: {"error":{"code":529,"type":"overloaded_error","message":"busy"}}\n\n'),
    "anthropic_messages": raw(
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    ),
}


@both_wires
@pytest.mark.parametrize("told", ["status", "event"])
def test_ry_03_an_overload_told_twice_by_status_or_as_the_first_event_is_got_over(
    stage: Stage, style: str, told: str
) -> None:
    busy = fail(529, "busy") if told == "status" else BUSY_FIRST[style]
    agent, provider = stage.agent([busy, busy, say("ok")], style=style)
    ran = stage.run(agent)
    assert texts(ran) == "ok"
    assert [(info.attempt, info.kind, info.voided, info.message) for info in retries(ran)] == [
        (1, panto.ErrorKind.OVERLOADED, False, "busy"),
        (2, panto.ErrorKind.OVERLOADED, False, "busy"),
    ]
    assert len(provider.requests) == 3
    assert len(agent.conversation.messages) == 2


@both_wires
@pytest.mark.parametrize("told", ["status", "event"])
def test_ry_03_an_overload_without_end_ends_after_the_configured_number_with_the_providers_words(
    stage: Stage, style: str, told: str
) -> None:
    busy = fail(529, "busy") if told == "status" else BUSY_FIRST[style]
    twice = panto.RetryConfig(max_retries=2, initial_delay=0)
    agent, provider = stage.agent([busy] * 3, style=style, retry=twice)
    ran = stage.run(agent)
    assert isinstance(ran.error, panto.ProviderError)
    assert (ran.error.kind, ran.error.retryable) == (panto.ErrorKind.OVERLOADED, True)
    assert "busy" in str(ran.error)
    assert [info.limit for info in retries(ran)] == [2, 2]
    assert len(provider.requests) == 3


@both_wires
@pytest.mark.parametrize(
    "failure",
    [
        *[fail(status, "later") for status in (408, 409, 429, 500, 502, 503, 504, 529)],
        drop("reset"),
        say("par", cut_after=9, breaks="end"),
    ],
    ids=["408", "409", "429", "500", "502", "503", "504", "529", "connection", "early end"],
)
def test_ry_03_what_may_pass_is_tried_again(stage: Stage, style: str, failure: Step) -> None:
    agent, provider = stage.agent([failure, say("ok")], style=style)
    ran = stage.run(agent)
    assert texts(ran).endswith("ok")
    assert len(provider.requests) == 2
    assert agent.conversation.messages[-1].text == "ok"


# ---- RY-04: failure after part of the answer was shown


FAILURES = {
    "reset": drop("reset"),
    "overloaded": fail(529, "busy", type="overloaded_error"),
}


@both_wires
@pytest.mark.parametrize("failure", FAILURES)
def test_ry_04_the_second_attempt_is_the_answer_and_the_deltas_before_it_are_told_void(
    stage: Stage, style: str, failure: str
) -> None:
    agent, _ = stage.agent([say("The answer is") + FAILURES[failure], say("The answer is 4")], style=style)
    ran = stage.run(agent)
    [retry] = ran.of(panto.ProviderRetry)
    assert retry.info.voided
    at = ran.events.index(retry)
    before = [event.text for event in ran.events[:at] if isinstance(event, panto.ContentDelta)]
    after = [event.text for event in ran.events[at:] if isinstance(event, panto.ContentDelta)]
    assert ("".join(before), "".join(after)) == ("The answer is", "The answer is 4")
    assert [event.index for event in ran.events[at:] if isinstance(event, panto.BlockStart)] == [0]
    assert [message.text for message in agent.conversation.messages] == ["go", "The answer is 4"]
    assert len(ran.of(panto.MessageComplete)) == 1


@both_wires
@pytest.mark.parametrize("failure", FAILURES)
def test_ry_04_a_tool_whose_message_failed_is_run_once_by_the_attempt_that_counts(
    stage: Stage, style: str, failure: str
) -> None:
    ran_with: list[Any] = []
    tool = stage.tool("note", lambda arguments: ran_with.append(arguments["x"]) or "noted")
    agent, provider = stage.agent(
        [call("note", x=1) + FAILURES[failure], call("note", x=2), say("ok")], tool, style=style
    )
    ran = stage.run(agent)
    assert ran_with == [2]
    assert [info.voided for info in retries(ran)] == [True]
    assert len(results(agent.conversation)) == len(ran.of(panto.ToolDispatchStart)) == 1
    assert len(provider.requests) == 3
    all_valid(provider)


@both_wires
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize(
    ("retry", "limit"),
    [
        (panto.RetryConfig(max_retries=0), 0),
        (panto.RetryConfig(max_retries=1, initial_delay=0), 1),
        (panto.RetryConfig(mid_stream=False), 0),
    ],
    ids=["off", "used up", "off in mid-stream"],
)
def test_ry_04_with_no_retry_left_the_error_carries_the_partial_message_and_the_history_none_of_it(
    stage: Stage, style: str, failure: str, retry: panto.RetryConfig, limit: int
) -> None:
    agent, provider = stage.agent([say("The answer is") + FAILURES[failure]] * (limit + 1), style=style, retry=retry)
    ran = stage.run(agent)
    assert isinstance(ran.error, panto.ProviderError)
    assert isinstance(ran.error.partial, panto.Message)
    assert ran.error.partial.text == "The answer is"
    assert [message.text for message in agent.conversation.messages] == ["go"]
    assert ran.of(panto.MessageComplete) == []
    assert len(provider.requests) == limit + 1


# ---- RY-05: the peer closes in mid-body


FIRST = b'data: {"choices":[{"index":0,"delta":{"content":"par"}}]}\n\n'
ANSWER = b'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def before(server: Server, retry: panto.RetryConfig = QUICK) -> panto.Config:
    provider = panto.OpenAIChatConfig(model="m", api_key="k", base_url=f"{server.url}/v1")
    return panto.Config(provider=provider, retry=retry)


def without_last_chunk(peer: Peer) -> None:
    peer.head("transfer-encoding: chunked", "content-type: text/event-stream")
    peer.chunks(FIRST, end=False)


def shorter_than_its_length(peer: Peer) -> None:
    peer.head(f"content-length: {len(FIRST) + 100}", "content-type: text/event-stream")
    peer.send(FIRST)


def reset(peer: Peer) -> None:
    without_last_chunk(peer)
    time.sleep(0.05)  # or the reset overtakes what was sent
    peer.reset()


CLOSES = [without_last_chunk, shorter_than_its_length, reset]


@pytest.mark.parametrize("closes", CLOSES)
def test_ry_05_a_peer_that_closes_in_mid_body_is_asked_again_over_a_fresh_connection(face: Face, closes: Any) -> None:
    def script(peer: Peer) -> None:
        while peer.request() is not None:
            if len(peer.server.requests) == 1:
                closes(peer)
                return
            peer.answer(ANSWER, "content-type: text/event-stream")

    with Server(script) as server:
        agent = face.agent(before(server))
        ran = face.run(agent, "go")
        assert (len(server.requests), server.connections) == (2, 2)
    [info] = retries(ran)
    assert (info.kind, info.voided) == (panto.ErrorKind.CONNECTION, True)
    assert [message.text for message in agent.conversation.messages] == ["go", "ok"]


@pytest.mark.parametrize("closes", CLOSES)
def test_ry_05_the_error_is_pantos_own_says_the_cause_and_leaks_no_library(face: Face, closes: Any) -> None:
    def script(peer: Peer) -> None:
        if peer.request() is not None:
            closes(peer)

    with Server(script) as server:
        ran = face.run(face.agent(before(server, NONE)), "go")
        assert server.connections == 1
        host = f"127.0.0.1:{server.port}"
    error = ran.error
    assert type(error) is panto.ProviderError
    assert (error.kind, error.retryable) == (panto.ErrorKind.CONNECTION, True)
    assert f"{host} closed the connection in the middle of its answer" in str(error)
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in seen:
        seen.append(link)
        link = link.__cause__ or link.__context__
    assert {type(each).__module__.partition(".")[0] for each in seen} <= {"panto", "builtins", "http", "asyncio"}


# ---- RY-06: silence


SHORT = panto.Timeouts(idle=0.2)


@both_wires
@pytest.mark.parametrize(
    ("silent", "voided"),
    [(say("par", "tial", cut_after=1, breaks="silence"), True), (drop("silence"), False)],
    ids=["after a delta", "before the headers"],
)
def test_ry_06_a_provider_that_falls_silent_is_given_up_after_the_idle_time_and_asked_again(
    stage: Stage, style: str, silent: Step, voided: bool
) -> None:
    agent, provider = stage.agent([silent, say("ok")], style=style, provider={"timeouts": SHORT})
    began = time.monotonic()
    ran = stage.run(agent)
    assert time.monotonic() - began < 5
    [info] = retries(ran)
    assert (info.kind, info.voided) == (panto.ErrorKind.TIMEOUT, voided)
    assert "0.2 s (Timeouts.idle)" in info.message
    assert [message.text for message in agent.conversation.messages] == ["go", "ok"]
    assert len(provider.requests) == 2


@both_wires
def test_ry_06_the_timeout_is_a_retryable_error_where_nothing_is_tried_again(stage: Stage, style: str) -> None:
    agent, _ = stage.agent([drop("silence")], style=style, provider={"timeouts": SHORT}, retry=NONE)
    ran = stage.run(agent)
    assert isinstance(ran.error, panto.ProviderError)
    assert (ran.error.kind, ran.error.retryable) == (panto.ErrorKind.TIMEOUT, True)
    assert panto.Timeouts().idle >= 120  # long enough for models that think before they speak


@both_wires
def test_ry_06_an_answer_that_keeps_flowing_may_take_as_long_as_it_likes(stage: Stage, style: str) -> None:
    pace, idle = (100.0, 120.0) if stage.way == "memory" else (0.06, 0.3)
    agent, provider = stage.agent(
        [say(*"twenty minutes", pace=pace)], style=style, provider={"timeouts": panto.Timeouts(idle=idle)}
    )
    start = provider.clock.time()
    ran = stage.run(agent)
    assert texts(ran) == "twenty minutes"
    assert retries(ran) == []
    if stage.way == "memory":
        assert provider.clock.time() - start > 20 * 60


@both_wires
def test_ry_06_an_idle_time_of_zero_is_none(stage: Stage, style: str) -> None:
    silence = 3 * 3600.0 if stage.way == "memory" else 0.5
    agent, _ = stage.agent(
        [say("a", delay=silence) + wait(silence) + say("b")], style=style, provider={"timeouts": panto.Timeouts(idle=0)}
    )
    ran = stage.run(agent)
    assert texts(ran) == "ab"
    assert retries(ran) == []


# ---- RY-07: what will not change


@both_wires
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_ry_07_a_deterministic_refusal_is_one_request_and_tells_status_words_and_request_id(
    stage: Stage, style: str, status: int
) -> None:
    def refused(request: RecordedRequest) -> Step:
        named = "x-request-id" if style == "openai_chat" else "request-id"
        return fail(status, "bad thing", headers={named: "req-7"})

    agent, provider = stage.agent([refused], style=style)
    ran = stage.run(agent)
    assert isinstance(ran.error, panto.ProviderError)
    assert (ran.error.status, ran.error.request_id, ran.error.retryable) == (status, "req-7", False)
    for word in (str(status), "bad thing", "req-7"):
        assert word in str(ran.error)
    assert len(provider.requests) == 1
    assert retries(ran) == []


@both_wires
def test_ry_07_an_invalid_request_is_not_sent_again_by_the_next_word_either(stage: Stage, style: str) -> None:
    agent, provider = stage.agent([fail(400, "bad thing"), say("ok")], stage.tool("echo", echo), style=style)
    stage.run(agent, "first")
    assert texts(stage.run(agent, "second")) == "ok"
    assert len(provider.requests) == 2
    all_valid(provider)
