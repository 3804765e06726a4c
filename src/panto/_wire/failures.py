"""Status, headers and body of a failed call: what kind of failure it is, whether to try again, and when.

The law: one table for HTTP errors, error bodies under status 200 and errors inside a stream. What is read first is what
says most: exact codes, then sentences, then the status, and last the words that providers use for everything
("invalid_request_error" stands beside 401, 403, 404, 429 and 503 alike). The provider's words are kept.

`retryable` follows the kind alone. `should_retry` is what panto itself does: the same, unless the provider says
`x-should-retry: false`. `true` cannot make panto repeat what waiting does not cure, such as an exhausted quota.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from panto._wire.error_body import ErrorBody, is_error_payload, read_body, read_error
from panto._wire.overflow import OVERFLOW_CODES, says_overflow
from panto._wire.retry_after import retry_after
from panto.errors import RETRYABLE_KINDS, ErrorKind

__all__ = ["Failure", "classify", "classify_error_object", "is_error_payload"]


class Failure(msgspec.Struct, frozen=True):
    """What went wrong with one provider call.

    Attributes:
        kind: What kind of failure.
        status: The HTTP status; where an error body under 200 names its own, that one; None without an answer.
        message: The provider's words, also those of a provider behind a router. Never empty.
        retryable: Whether trying again later may help; follows `kind` alone.
        should_retry: Whether panto tries again by itself.
        retry_after: Seconds the provider asks to wait, uncapped and never negative, or None.
        request_id: The provider's id of the request, or None.
        code: The provider's `code`, as text, or None.
        type: The provider's `type`, or None.
    """

    kind: ErrorKind
    status: int | None
    message: str
    retryable: bool
    should_retry: bool
    retry_after: float | None = None
    request_id: str | None = None
    code: str | None = None
    type: str | None = None

    @classmethod
    def of(cls, kind: ErrorKind, message: str, status: int | None = None, request_id: str | None = None) -> Failure:
        """A failure that no provider told of: a torn stream, a timeout, a connection that could not be made."""
        retry = kind in RETRYABLE_KINDS
        return cls(kind, status, message, retryable=retry, should_retry=retry, request_id=request_id)


_NO_HEADERS: Final[Mapping[str, str]] = {}
_REQUEST_ID_HEADERS: Final = (
    "request-id",  # Anthropic
    "x-request-id",  # OpenAI and most others
    "apim-request-id",  # Azure
    "x-amzn-requestid",  # AWS
    "cf-ray",  # whatever stands behind Cloudflare
)

_CODES: Final[Mapping[str, ErrorKind]] = {
    # Codes, types and reasons that mean one thing, whatever the status. Lower case, underscores.
    "insufficient_quota": ErrorKind.BILLING,  # OpenAI, under 429
    "billing_hard_limit_reached": ErrorKind.BILLING,  # OpenAI
    "billing_error": ErrorKind.BILLING,  # Anthropic, 402
    "exceeded_current_quota_error": ErrorKind.BILLING,  # Moonshot, under 429: MoonshotAI/kimi-code#1857
    "arrearage": ErrorKind.BILLING,  # Alibaba
    "content_filter": ErrorKind.CONTENT_FILTER,  # Azure
    "content_policy_violation": ErrorKind.CONTENT_FILTER,  # OpenAI
    "responsibleaipolicyviolation": ErrorKind.CONTENT_FILTER,  # Azure, innererror
    "data_inspection_failed": ErrorKind.CONTENT_FILTER,  # Alibaba
    "datainspectionfailed": ErrorKind.CONTENT_FILTER,  # Alibaba
    "rate_limit_error": ErrorKind.RATE_LIMIT,  # Anthropic
    "rate_limit_exceeded": ErrorKind.RATE_LIMIT,  # OpenAI, Groq
    "rate_limit_reached_error": ErrorKind.RATE_LIMIT,  # Moonshot
    "ratelimitreached": ErrorKind.RATE_LIMIT,  # Azure
    "too_many_requests": ErrorKind.RATE_LIMIT,
    "throttlingexception": ErrorKind.RATE_LIMIT,  # Bedrock
    "throttling": ErrorKind.RATE_LIMIT,  # Alibaba
    "resource_exhausted": ErrorKind.RATE_LIMIT,  # Gemini: per minute or per day
    "overloaded_error": ErrorKind.OVERLOADED,  # Anthropic
    "overloaded": ErrorKind.OVERLOADED,
    "engine_overloaded_error": ErrorKind.OVERLOADED,  # Moonshot
    "serviceunavailableexception": ErrorKind.OVERLOADED,  # Bedrock
    "modelnotreadyexception": ErrorKind.OVERLOADED,  # Bedrock
    "authentication_error": ErrorKind.AUTH,  # Anthropic, DeepSeek
    "invalid_api_key": ErrorKind.AUTH,  # OpenAI, Groq
    "api_key_invalid": ErrorKind.AUTH,  # Gemini, under 400
    "unauthenticated": ErrorKind.AUTH,  # Gemini
    "permission_error": ErrorKind.PERMISSION,  # Anthropic
    "permission_denied": ErrorKind.PERMISSION,  # Gemini
    "accessdeniedexception": ErrorKind.PERMISSION,  # Bedrock
    "not_found_error": ErrorKind.NOT_FOUND,  # Anthropic
    "model_not_found": ErrorKind.NOT_FOUND,  # OpenAI, Groq
    "invalid_model": ErrorKind.NOT_FOUND,  # Mistral, under 400
    "deploymentnotfound": ErrorKind.NOT_FOUND,  # Azure
    "timeout_error": ErrorKind.TIMEOUT,  # Anthropic, 504
    "deadline_exceeded": ErrorKind.TIMEOUT,  # Gemini
    "modeltimeoutexception": ErrorKind.TIMEOUT,  # Bedrock
}

_VAGUE_CODES: Final[Mapping[str, ErrorKind]] = {
    # Read last: providers put these beside statuses that say more.
    "request_too_large": ErrorKind.REQUEST_TOO_LARGE,  # Anthropic
    "not_found": ErrorKind.NOT_FOUND,
    "unavailable": ErrorKind.OVERLOADED,
    "service_unavailable": ErrorKind.OVERLOADED,
    "timeout": ErrorKind.TIMEOUT,
    "invalid_request_error": ErrorKind.INVALID_REQUEST,
    "invalid_request": ErrorKind.INVALID_REQUEST,
    "invalid_argument": ErrorKind.INVALID_REQUEST,
    "badrequesterror": ErrorKind.INVALID_REQUEST,
    "bad_request": ErrorKind.INVALID_REQUEST,
    "validationexception": ErrorKind.INVALID_REQUEST,
    "failed_precondition": ErrorKind.INVALID_REQUEST,
    "tool_use_failed": ErrorKind.INVALID_REQUEST,  # Groq
    "api_error": ErrorKind.SERVER,
    "server_error": ErrorKind.SERVER,
    "internal_error": ErrorKind.SERVER,
    "internal_server_error": ErrorKind.SERVER,
    "internal": ErrorKind.SERVER,
}

_STATUSES: Final[Mapping[int, ErrorKind]] = {
    401: ErrorKind.AUTH,
    402: ErrorKind.BILLING,
    403: ErrorKind.PERMISSION,
    404: ErrorKind.NOT_FOUND,
    405: ErrorKind.NOT_FOUND,  # the path is there for others: a wrong base_url
    407: ErrorKind.AUTH,
    408: ErrorKind.TIMEOUT,
    409: ErrorKind.SERVER,
    410: ErrorKind.NOT_FOUND,
    413: ErrorKind.REQUEST_TOO_LARGE,
    424: ErrorKind.SERVER,  # a dependency of theirs failed
    425: ErrorKind.OVERLOADED,
    429: ErrorKind.RATE_LIMIT,
    451: ErrorKind.PERMISSION,
    498: ErrorKind.OVERLOADED,  # Groq, flex tier out of capacity
    499: ErrorKind.SERVER,  # Gemini, CANCELLED
    501: ErrorKind.INVALID_REQUEST,  # will not be implemented on the next try either
    503: ErrorKind.OVERLOADED,
    504: ErrorKind.TIMEOUT,
    522: ErrorKind.TIMEOUT,  # Cloudflare
    524: ErrorKind.TIMEOUT,  # Cloudflare
    529: ErrorKind.OVERLOADED,  # Anthropic
}


class _Sentence(NamedTuple):
    kind: ErrorKind
    pattern: re.Pattern[str]
    statuses: range  # under which it counts; it always does where no status is known


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_ANY: Final = range(400, 600)
_SENTENCES: Final = (
    _Sentence(
        # Anthropic says it under 400, Z.ai and Moonshot under 429, OpenAI-like proxies under 403.
        ErrorKind.BILLING,
        _words(r"credit balance is too low|insufficient (?:account )?(?:balance|credits?|funds|quota)"
               r"|exceeded your current quota|requires more credits"),
        _ANY,
    ),
    _Sentence(
        # Azure; xAI; OpenRouter (403); Anthropic and Alibaba (400).
        ErrorKind.CONTENT_FILTER,
        _words(r"content management policy|violates? (?:our |the )?usage (?:guidelines|policy|policies)"
               r"|input was flagged|blocked by (?:our )?content filter|inappropriate content"),
        _ANY,
    ),
    _Sentence(
        # Gemini says it under 400.
        ErrorKind.AUTH, _words(r"api key not valid|(?:invalid|incorrect) api[ -]key"), range(400, 401),
    ),
    _Sentence(
        # OpenAI as server_error, Anthropic as 500 api_error: anthropics/anthropic-sdk-typescript#616.
        ErrorKind.OVERLOADED, _words(r"\boverloaded\b|\b(?:at|over|out of) capacity\b"), range(500, 600),
    ),
    # A plain sentence inside a stream, without code or status.
    _Sentence(
        ErrorKind.RATE_LIMIT, _words(r"rate.?limit|too many (?:requests|tokens)|throttl|tokens per min"), range(0),
    ),
    _Sentence(ErrorKind.TIMEOUT, _words(r"\btimed?.?out\b|deadline exceeded"), range(0)),
)  # fmt: skip

_OVER_BUDGET: Final = _words(r"request too large for .{1,300}\bper (?:min|minute|hour|day)\b")
_LIMIT_REQUESTED: Final = _words(r"\blimit:? ([\d,]{1,12}),? requested:? ([\d,]{1,12})")


def classify(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    overflow_patterns: Sequence[str] = (),
    now: float | None = None,
) -> Failure:
    """What an answer that is no stream means: an HTTP error, a redirect, or an error body under status 200.

    Args:
        status: The HTTP status.
        headers: Response headers, their names in any case.
        body: The whole body, content-encoding undone. Any bytes; nothing raises.
        overflow_patterns: Regular expressions of sentences that mean context overflow too, from the config.
        now: Seconds since 1970-01-01 UTC, for dates in `Retry-After`.
    """
    error = read_body(body)
    if status >= 400 or error.is_error:
        return _failure(status, headers, error, overflow_patterns, now)
    told = {name.lower(): value for name, value in headers.items()}
    if status >= 300:
        where = told.get("location", "").partition("?")[0].rpartition("@")[2]
        kind, message = ErrorKind.INVALID_REQUEST, f"redirected to {where or 'another place'}, which is not followed"
    elif error.message or body.strip():
        kind, message = ErrorKind.PROTOCOL, f"the answer is no event stream: {error.message[:500] or 'unknown JSON'}"
    else:
        kind, message = ErrorKind.STREAM_ENDED, "the answer is empty"
    return Failure.of(kind, message, status, _request_id(told, error))


def classify_error_object(
    error: object,
    *,
    status: int | None = None,
    headers: Mapping[str, str] = _NO_HEADERS,
    overflow_patterns: Sequence[str] = (),
    now: float | None = None,
) -> Failure:
    """What an error inside a stream means, or one that is decoded already.

    Args:
        error: The decoded JSON of the event, whole (`{"error": {...}}`, `{"type": "error", ...}`, a chunk with
            `error` beside `choices`) or its error alone; an object, a list or a plain string.
        status: The HTTP status of the stream. One that the error names wins.
        headers: Headers of the stream, their names in any case.
        overflow_patterns: As for `classify`.
        now: As for `classify`.
    """
    return _failure(status, headers, read_error(error), overflow_patterns, now)


def _failure(
    status: int | None, headers: Mapping[str, str], error: ErrorBody, patterns: Sequence[str], now: float | None
) -> Failure:
    told = {name.lower(): value for name, value in headers.items()}
    known = status if status is not None and status >= 400 else error.status
    kind = _kind(known, error, patterns)
    waits = [wait for wait in (retry_after(told, now), error.retry_after) if wait is not None]
    return Failure(
        kind=kind,
        status=known if known is not None else status,
        message=error.message or error.code or error.type or "the provider gave no reason",
        retryable=kind in RETRYABLE_KINDS,
        should_retry=kind in RETRYABLE_KINDS and told.get("x-should-retry", "").strip().lower() != "false",
        retry_after=max(waits, default=None),
        request_id=_request_id(told, error),
        code=error.code,
        type=error.type,
    )


def _kind(status: int | None, error: ErrorBody, patterns: Sequence[str]) -> ErrorKind:
    text = error.message
    if not OVERFLOW_CODES.isdisjoint(error.words):
        return ErrorKind.CONTEXT_OVERFLOW
    if status in (None, 413, 429) and _over_rate_budget(text):
        return ErrorKind.REQUEST_OVER_RATE_BUDGET
    for word in error.words:
        if word in _CODES:
            return _CODES[word]
    for sentence in _SENTENCES:
        if (status is None or status in sentence.statuses) and sentence.pattern.search(text):
            return sentence.kind
    if says_overflow(status, text, patterns):
        return ErrorKind.CONTEXT_OVERFLOW
    if status is not None and status in _STATUSES:
        return _STATUSES[status]
    for word in error.words:
        if word in _VAGUE_CODES:
            return _VAGUE_CODES[word]
    return ErrorKind.INVALID_REQUEST if status is not None and status < 500 else ErrorKind.SERVER


def _over_rate_budget(text: str) -> bool:
    """Whether this one request is larger than a whole minute's budget, so that no wait can help (OpenAI, Groq)."""
    if _OVER_BUDGET.search(text):
        return True
    told = _LIMIT_REQUESTED.search(text)
    if told is None:
        return False
    limit, requested = (int(number.replace(",", "") or 0) for number in told.groups())
    return 0 < limit < requested


def _request_id(told: Mapping[str, str], error: ErrorBody) -> str | None:
    return next((told[name] for name in _REQUEST_ID_HEADERS if told.get(name)), error.request_id)
