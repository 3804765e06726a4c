"""What a failed call means, by tables of bodies as providers send them, and that no body can do harm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panto._wire.error_body import MAX_MESSAGE_CHARS
from panto._wire.failures import Failure, classify, classify_error_object, is_error_payload
from panto._wire.overflow import OVERFLOW_CODES, OVERFLOW_WORDINGS
from panto._wire.sse import SSEParser
from panto.errors import RETRYABLE_KINDS, ErrorKind

NOW = 1_764_590_400.0  # Mon, 01 Dec 2025 12:00:00 GMT


def http(status: int, body: object, headers: Mapping[str, str] | None = None, **more: Any) -> Failure:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return classify(status, headers or {}, data, **more)


def openai(message: str, code: object = None, type: object = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def anthropic(type: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message}}


# ------------------------------------------------------------------ retries


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, {"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "no credit"}}),
        (402, openai("Insufficient Balance", "invalid_request_error", "unknown_error")),
        (402, b""),
        (400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")),
        (429, openai("Your account is suspended due to insufficient balance", type="exceeded_current_quota_error")),
        (429, {"error": {"code": "1113", "message": "Insufficient balance or no resource package. Please recharge."}}),
        (402, {"error": {"code": 402, "message": "Prompt tokens limit exceeded: 36163 > 29652. To increase, visit x"}}),
    ],
)
def test_ry_01_an_exhausted_quota_is_billing_and_never_tried_again(status: int, body: object) -> None:
    for headers in ({}, {"X-Should-Retry": "true", "Retry-After": "1"}):
        failure = http(status, body, headers)
        assert failure.kind is ErrorKind.BILLING
        assert not failure.retryable
        assert not failure.should_retry
    assert http(429, openai("no credit", "insufficient_quota")).message == "no credit"


def test_ry_01_geminis_quota_per_minute_is_a_rate_limit_with_its_delay() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    body = [{"error": {"code": 429, "message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED",
                       "details": [info]}}]  # fmt: skip
    failure = http(429, body)
    assert (failure.kind, failure.retry_after, failure.should_retry) == (ErrorKind.RATE_LIMIT, 34.5, True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after": "0.4"}, 0.4),
        ({"Retry-After": "Mon, 01 Dec 2025 12:00:05 GMT"}, 5.0),
        ({"Retry-After": "Monday, 01-Dec-25 12:00:05 GMT"}, 5.0),
        ({"Retry-After": "Mon Dec  1 12:00:05 2025"}, 5.0),
        ({"Retry-After": "Mon, 01 Dec 2025 11:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "800"}, 0.8),
        ({"Retry-After": "1", "Retry-After-Ms": "0"}, 1.0),
        ({"Retry-After": "1", "Retry-After-Ms": "2500"}, 2.5),
        ({"Retry-After": "bad", "Retry-After-Ms": "2500"}, 2.5),
        ({"Retry-After": "3, 5"}, 5.0),
        ({"Retry-After": " 7 "}, 7.0),
        *[
            ({name: bad}, None)
            for name in ("Retry-After", "Retry-After-Ms")
            for bad in ("0x10", "-1", "", " ", "nan", "inf", "1e3", "soon", "１", "1 s", "9" * 500,
                        "Mon, 41 Dec 2025 12:00:05 GMT", "Mon, 01 Foo 2025 12:00:05 GMT",
                        "Mon, 01 Dec 2025 25:00:05 GMT")
        ],
    ],
)  # fmt: skip
def test_ry_02_retry_after_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    failure = http(429, openai("slow down"), headers, now=NOW)
    assert failure.retry_after == (None if seconds is None else pytest.approx(seconds))
    assert failure.should_retry


def test_ry_02_a_date_without_a_clock_says_nothing() -> None:
    assert http(429, b"", {"Retry-After": "Mon, 01 Dec 2025 12:00:05 GMT"}).retry_after is None


@given(st.text(max_size=30) | st.from_regex(r"[0-9a-zA-Z,:. +-]{0,40}"), st.text(max_size=10))
def test_ry_02_no_header_raises_or_makes_a_negative_wait(seconds: str, ms: str) -> None:
    told = http(503, b"", {"Retry-After": seconds, "Retry-After-Ms": ms}, now=NOW).retry_after
    assert told is None or 0 <= told < 1e13


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (408, ErrorKind.TIMEOUT), (409, ErrorKind.SERVER), (429, ErrorKind.RATE_LIMIT), (500, ErrorKind.SERVER),
        (502, ErrorKind.SERVER), (503, ErrorKind.OVERLOADED), (504, ErrorKind.TIMEOUT), (529, ErrorKind.OVERLOADED),
        (599, ErrorKind.SERVER),
    ],
)  # fmt: skip
def test_ry_03_these_statuses_are_tried_again(status: int, kind: ErrorKind) -> None:
    failure = http(status, b"")
    assert (failure.kind, failure.status, failure.retryable, failure.should_retry) == (kind, status, True, True)


def test_ry_03_an_overload_is_known_under_any_status_and_inside_the_stream() -> None:
    bodies = [(529, anthropic("overloaded_error", "Overloaded")), (500, anthropic("api_error", "Overloaded"))]
    for status, body in bodies:
        assert http(status, body).kind is ErrorKind.OVERLOADED
        assert classify_error_object(body, status=200).kind is ErrorKind.OVERLOADED


def test_x_should_retry_false_decides_for_panto_and_leaves_retryable_alone() -> None:
    failure = http(529, anthropic("overloaded_error", "Overloaded"), {"x-should-retry": "false"})
    assert failure.retryable
    assert not failure.should_retry


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ErrorKind.INVALID_REQUEST), (401, ErrorKind.AUTH), (403, ErrorKind.PERMISSION),
        (404, ErrorKind.NOT_FOUND), (413, ErrorKind.REQUEST_TOO_LARGE), (422, ErrorKind.INVALID_REQUEST),
        (418, ErrorKind.INVALID_REQUEST),
    ],
)  # fmt: skip
@pytest.mark.parametrize("type", ["invalid_request_error", None])
def test_ry_07_a_refusal_that_will_not_change_is_not_tried_again(
    status: int, kind: ErrorKind, type: str | None
) -> None:
    failure = http(status, openai("no such field", type=type), {"X-Request-Id": "req_1", "X-Should-Retry": "true"})
    assert (failure.kind, failure.status, failure.request_id) == (kind, status, "req_1")
    assert failure.message == "no such field"
    assert not failure.retryable
    assert not failure.should_retry


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.",
                          "status": "INVALID_ARGUMENT"}}], ErrorKind.AUTH),
        (403, {"error": {"code": 403, "message": "Your chosen model requires moderation and your input was flagged"}},
         ErrorKind.CONTENT_FILTER),
        (400, anthropic("invalid_request_error", "Output blocked by content filtering policy"),
         ErrorKind.CONTENT_FILTER),
        (413, openai("Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000, please "
                     "reduce your message size and try again.", "rate_limit_exceeded", "tokens"),
         ErrorKind.REQUEST_OVER_RATE_BUDGET),
        (429, openai("Rate limit reached on tokens per min (TPM): Limit 30,000, Used 29,000, Requested 2,000. Please "
                     "try again in 2s.", "rate_limit_exceeded", "tokens"), ErrorKind.RATE_LIMIT),
        (429, openai("Rate limit reached on tokens per min (TPM): Limit: 30,000, Requested: 2,000.",
                     "rate_limit_exceeded"), ErrorKind.RATE_LIMIT),
        (503, openai("Loading model", 503, "unavailable_error"), ErrorKind.OVERLOADED),
    ],
)  # fmt: skip
def test_codes_and_sentences_say_more_than_the_status(status: int, body: object, kind: ErrorKind) -> None:
    assert http(status, body).kind is kind


# ----------------------------------------------------------------- overflow


@pytest.mark.parametrize("row", OVERFLOW_WORDINGS, ids=lambda row: row.vendor)
def test_ov_01_the_sentence_of_each_vendor_is_overflow(row: Any) -> None:
    own = [other.vendor for other in OVERFLOW_WORDINGS if re.search(other.pattern, row.example, re.IGNORECASE)]
    assert row.vendor in own
    assert row.source
    for status in (400, 413, 422, 500):
        assert http(status, openai(row.example)).kind is ErrorKind.CONTEXT_OVERFLOW
    assert http(400, {"error": row.example.upper()}).kind is ErrorKind.CONTEXT_OVERFLOW
    assert classify_error_object(openai(row.example), status=200).kind is ErrorKind.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    "body",
    [
        anthropic("invalid_request_error", "prompt is too long: 210400 tokens > 200000 maximum"),
        openai("too long", "context_length_exceeded", "invalid_request_error"),
        openai("This model's maximum context length is 65536 tokens. However, you requested 70000 tokens"),
        openai("This endpoint's maximum context length is 131072 tokens. However, you requested about 140000", 400),
    ],
)
def test_ov_01_overflow_is_a_kind_of_its_own_and_not_retried(body: object) -> None:
    failure = http(400, body)
    assert failure.kind is ErrorKind.CONTEXT_OVERFLOW
    assert not failure.retryable


@pytest.mark.parametrize("code", sorted(OVERFLOW_CODES))
def test_ov_01_the_code_is_enough(code: str) -> None:
    assert http(400, openai("sorry", code)).kind is ErrorKind.CONTEXT_OVERFLOW
    assert http(400, openai("sorry", 400, code)).kind is ErrorKind.CONTEXT_OVERFLOW


def test_ov_01_users_add_patterns_which_the_guards_still_overrule() -> None:
    words = openai("der Text ist zu LANG für das Modell")
    assert http(400, words).kind is ErrorKind.INVALID_REQUEST
    assert http(400, words, overflow_patterns=[r"zu lang für"]).kind is ErrorKind.CONTEXT_OVERFLOW
    assert classify_error_object(words, overflow_patterns=[r"zu lang"]).kind is ErrorKind.CONTEXT_OVERFLOW
    assert http(429, words, overflow_patterns=[r"zu lang"]).kind is ErrorKind.RATE_LIMIT


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (429, "Too many tokens, please wait before trying again.", ErrorKind.RATE_LIMIT),
        (503, "context deadline exceeded", ErrorKind.OVERLOADED),
        (429, "Limit of 20,000 input tokens per minute reached", ErrorKind.RATE_LIMIT),
        (429, "prompt is too long: 210400 tokens > 200000 maximum", ErrorKind.RATE_LIMIT),
        (500, "context deadline exceeded", ErrorKind.SERVER),
        (500, "prompt is too long for your rate limit of 8000 TPM", ErrorKind.SERVER),
        (400, "max_tokens: 100000 > 64000, the maximum allowed number of output tokens", ErrorKind.INVALID_REQUEST),
        (400, "Too many strict tools (21).", ErrorKind.INVALID_REQUEST),
    ],
)  # fmt: skip
def test_ov_02_what_looks_alike_is_no_overflow(status: int, message: str, kind: ErrorKind) -> None:
    assert http(status, openai(message)).kind is kind


def test_ov_02_a_throttling_sentence_inside_a_stream_is_a_rate_limit() -> None:
    assert classify_error_object("Too many tokens, please wait", status=200).kind is ErrorKind.RATE_LIMIT


def test_ov_03_the_sentence_about_input_and_max_tokens_is_overflow() -> None:
    words = "input length and `max_tokens` exceed context limit: 150000 + 64000 > 200000, decrease input length"
    assert http(400, anthropic("invalid_request_error", words)).kind is ErrorKind.CONTEXT_OVERFLOW


# ------------------------------------------------------------ inside a stream


@pytest.mark.parametrize(
    ("payload", "kind", "status", "code"),
    [
        ({"error": {"code": 429, "message": "pool is dry"}}, ErrorKind.RATE_LIMIT, 429, "429"),
        ({"error": {"code": "429", "message": "pool is dry"}}, ErrorKind.RATE_LIMIT, 429, "429"),
        ({"error": {"code": "server_error", "message": "pool is dry"}}, ErrorKind.SERVER, 200, "server_error"),
        ({"error": {"code": 502, "message": "pool is dry"}, "choices": [{"delta": {"content": ""}}]},
         ErrorKind.SERVER, 502, "502"),
        ({"error": {"code": "1302", "message": "pool is dry"}}, ErrorKind.SERVER, 200, "1302"),
        ({"error": {"message": "pool is dry", "type": "invalid_request_error", "status_code": 400}},
         ErrorKind.INVALID_REQUEST, 400, None),
        ({"error": "pool is dry"}, ErrorKind.SERVER, 200, None),
        ({"choices": [{"error": {"code": 401, "message": "pool is dry"}, "finish_reason": "error"}]},
         ErrorKind.AUTH, 401, "401"),
        ({"object": "error", "message": "pool is dry", "code": 400}, ErrorKind.INVALID_REQUEST, 400, "400"),
        ({"detail": "pool is dry"}, ErrorKind.SERVER, 200, None),
        ({"errors": [{"code": 10000, "message": "pool is dry"}], "success": False}, ErrorKind.SERVER, 200, "10000"),
        ([{"error": {"code": 503, "message": "pool is dry"}}], ErrorKind.OVERLOADED, 503, "503"),
    ],
)  # fmt: skip
def test_sse_09_an_error_inside_a_200_stream_is_classified_by_its_code(
    payload: object, kind: ErrorKind, status: int, code: str | None
) -> None:
    assert is_error_payload(payload)
    failure = classify_error_object(payload, status=200)
    assert (failure.kind, failure.status, failure.code) == (kind, status, code)
    assert failure.message == "pool is dry"
    assert failure.retryable is (kind in RETRYABLE_KINDS)


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": [{"delta": {"content": "x"}}], "error": None},
        {"choices": [], "usage": {"total_tokens": 1}, "error": ""},
        {"type": "message_start", "message": {"id": "m", "content": []}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "error"}},
        {"type": "info", "message": "place 3 in the queue"},
        {},
        [],
        None,
        "error",
        7,
    ],
)
def test_sse_09_a_chunk_of_an_answer_is_no_error(chunk: object) -> None:
    assert not is_error_payload(chunk)


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("overloaded_error", ErrorKind.OVERLOADED), ("rate_limit_error", ErrorKind.RATE_LIMIT),
        ("api_error", ErrorKind.SERVER), ("timeout_error", ErrorKind.TIMEOUT),
        ("invalid_request_error", ErrorKind.INVALID_REQUEST), ("authentication_error", ErrorKind.AUTH),
        ("permission_error", ErrorKind.PERMISSION), ("not_found_error", ErrorKind.NOT_FOUND),
        ("billing_error", ErrorKind.BILLING), ("request_too_large", ErrorKind.REQUEST_TOO_LARGE),
    ],
)  # fmt: skip
def test_sse_10_an_anthropic_error_event_is_classified_by_its_type(type: str, kind: ErrorKind) -> None:
    payload = {**anthropic(type, "busy"), "request_id": "req_9"}
    assert is_error_payload(payload)
    failure = classify_error_object(payload, status=200, headers={"Content-Type": "text/event-stream"})
    assert (failure.kind, failure.type, failure.message, failure.request_id) == (kind, type, "busy", "req_9")


# ------------------------------------------------------------------- shapes


def test_the_words_behind_a_router_are_kept_and_decide() -> None:
    raw = json.dumps({"error": {"message": "Content violates usage guidelines", "code": "x"}})
    for hidden in (raw, "Content violates usage guidelines"):
        body = {"error": {"code": 403, "message": "Provider returned error", "metadata": {"raw": hidden}}}
        failure = http(403, body)
        assert failure.kind is ErrorKind.CONTENT_FILTER
        assert failure.message == "Provider returned error: Content violates usage guidelines"
        assert failure.code == "403"


def test_two_routers_in_a_row_hide_nothing() -> None:
    inner = {"error": {"message": "balance is empty", "type": "exceeded_current_quota_error"}}
    outer = {"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": json.dumps(inner)}}}
    body = {"error": {"message": "Upstream failed", "code": 429, "metadata": {"raw": json.dumps(outer)}}}
    failure = http(429, body)
    assert failure.kind is ErrorKind.BILLING
    assert failure.message == "Upstream failed: Provider returned error: balance is empty"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"upstream connect error\n or disconnect", "upstream connect error or disconnect"),
        (b"<html><head><title>502 Bad Gateway</title></head><body>x</body></html>", "502 Bad Gateway"),
        (b"<html><body><h1>Oh</h1>no</body></html>", "Oh no"),
        (b'{"detail":[{"loc":["body","messages"],"msg":"field required","type":"missing"}]}',
         "body.messages: field required"),
        (b'data: {"error":{"message":"busy"}}\n\n', "busy"),
        (b'event: error\ndata: {"error":{"message":"busy"}}\n\n', "busy"),
        (b'"just words"', "just words"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", "the provider gave no reason"),
        (b"{}", "the provider gave no reason"),
        (b'{"error":{"code":"E7"}}', "E7"),
    ],
)  # fmt: skip
def test_a_body_of_any_shape_gives_words(body: bytes, message: str) -> None:
    failure = classify(502, {}, body)
    assert (failure.kind, failure.status, failure.message) == (ErrorKind.SERVER, 502, message)


def test_an_error_body_under_status_200_has_the_status_it_names() -> None:
    body = {"error": {"message": "filtered", "code": "content_filter", "status": 400}}
    failure = http(200, body)
    assert (failure.kind, failure.status) == (ErrorKind.CONTENT_FILTER, 400)


def test_an_answer_that_is_no_stream_and_no_error_is_a_protocol_failure() -> None:
    assert http(200, b"<html><title>Sign in</title></html>").kind is ErrorKind.PROTOCOL
    assert "Sign in" in http(200, b"<html><title>Sign in</title></html>").message
    assert http(200, {"id": "x", "choices": []}).kind is ErrorKind.PROTOCOL
    assert http(200, b"").kind is ErrorKind.STREAM_ENDED


def test_a_redirect_is_refused_and_shows_no_secret_of_its_target() -> None:
    failure = http(307, b"", {"Location": "https://user:pw@other.example/v1?key=abc"})
    assert (failure.kind, failure.should_retry) == (ErrorKind.INVALID_REQUEST, False)
    assert "other.example/v1" in failure.message
    assert "pw" not in failure.message
    assert "abc" not in failure.message


def test_a_long_message_is_cut_and_a_deep_body_does_no_harm() -> None:
    assert len(http(400, openai("x" * 1_000_000)).message) <= MAX_MESSAGE_CHARS + 4
    deep = b'{"error":' * 100_000 + b"1" + b"}" * 100_000
    assert classify(500, {}, deep).kind is ErrorKind.SERVER
    wide = {"error": [[[openai(f"{i}{j}{k}") for i in range(9)] for j in range(9)] for k in range(9)]}
    assert len(http(500, wide).message) <= MAX_MESSAGE_CHARS + 4


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["error", "message", "code", "type", "detail", "errors", "status", "metadata", "raw",
                         "choices", "details", "retryDelay", "request_id", "response", "loc", "msg", "x"]),
        inner, max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.integers(100, 599), st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
def test_no_body_raises_and_every_failure_has_words(status: int, body: bytes) -> None:
    failure = classify(status, {}, body, now=NOW)
    assert failure.message
    assert failure.retryable is (failure.kind in RETRYABLE_KINDS)
    assert failure.retryable or not failure.should_retry


@given(json_values, st.none() | st.just(200))
def test_no_payload_raises(value: object, status: int | None) -> None:
    assert classify_error_object(value, status=status).message
    assert is_error_payload(value) in (True, False)


def test_a_failure_of_our_own_follows_its_kind() -> None:
    torn = Failure.of(ErrorKind.STREAM_ENDED, "the stream ended without its end signal", 200)
    assert (torn.retryable, torn.should_retry, torn.status) == (True, True, 200)
    assert not Failure.of(ErrorKind.CERTIFICATE, "not trusted").should_retry


# ---------------------------------------------------------- recorded answers

RECORDED = Path(__file__).resolve().parents[2].parent / "shared" / "wire"
recorded = pytest.mark.skipif(
    not (RECORDED / "cases.jsonl").exists(), reason="../shared with recorded traffic is absent"
)


def cases() -> Iterator[tuple[dict[str, Any], bytes]]:
    for line in (RECORDED / "cases.jsonl").read_bytes().splitlines():
        case = json.loads(line)
        yield case, (RECORDED / case["response"]["body_file"]).read_bytes()


def lacks(told: Mapping[str, Any], failure: Failure) -> list[str]:
    words = [str(told[key])[:60] for key in ("message", "inner") if told.get(key)]
    return [f"{failure.message[:100]!r} lacks {word!r}" for word in words if word not in failure.message]


@recorded
def test_recorded_error_answers_have_the_kind_that_a_careful_reader_gives() -> None:
    bad: list[object] = []
    count = 0
    for case, body in cases():
        if case["kind"] != "error":
            continue
        count += 1
        want, response = case["expected"], case["response"]
        failure = classify(response["status"], response.get("headers") or {}, body)
        problems = lacks(want.get("error") or {}, failure)
        if failure.kind not in (want["category"], *want.get("also", [])):
            problems.append(f"{failure.kind}, want {want['category']}")
        own = re.search(rb'"status": ?(\d{3})', body)
        if failure.status != (int(own[1]) if own and response["status"] == 200 else response["status"]):
            problems.append(f"status {failure.status}")
        if problems:
            bad.append((case["id"], problems))
    assert count > 50
    assert not bad


@recorded
def test_recorded_streams_carry_an_error_exactly_where_the_facts_say_so() -> None:
    bad: list[object] = []
    for case, body in cases():
        if case["kind"] != "stream":
            continue
        parser = SSEParser()
        found: list[object] = []
        for _, data in parser.feed(body) + parser.finish():
            if data[:1] == b"{" and b"error" in data:
                try:
                    value = msgspec.json.decode(data)
                except msgspec.DecodeError:
                    continue
                found += [value] if is_error_payload(value) else []
        want = case["expected"].get("error")
        if len(found) != (1 if want else 0):
            bad.append((case["id"], found))
        elif want:
            failure = classify_error_object(found[0], status=200)
            if failure.kind not in want["categories"] or lacks(want, failure):
                bad.append((case["id"], failure))
    assert not bad
