"""One provider call: open it, stream its answer, try again.

Law: success needs evidence. An answer counts when its decoder saw the end signal; whatever else happens becomes one
typed failure, retried when waiting may cure it, and nothing of a failed attempt enters the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from panto._wire.failures import Failure
from panto._wire.protocol import Answer, Decoder, HTTPRequest, StreamEvent, Wire
from panto.config import RetryConfig, StopReason, Timeouts, WireIdentity
from panto.conversation import ContentBlock, Message, MessageRole
from panto.errors import RETRYABLE_KINDS, ContextOverflowError, ErrorKind, ProviderError
from panto.events import ProviderRetry, ProviderRetryInfo

from .effects import Cancelled, CloseResponse, Jitter, NewId, Now, Open, Plan, Recv, Sleep, TransportFailure, do
from .state import State, StateCell

MAX_ERROR_BODY = 1 << 20
"""Bytes of an error answer that are read; the rest is of no use to anybody."""


class Live:
    """What of an answer has come in and was shown, while its call goes on.

    It outlives the call's own frames: whatever ends them, what was shown can be kept.
    """

    __slots__ = ("decoder", "request", "rest")

    def __init__(self) -> None:
        self.request: HTTPRequest | None = None
        self.decoder: Decoder | None = None
        self.rest: Iterator[StreamEvent] = iter(())

    def partial(self) -> list[ContentBlock]:
        """The blocks as far as they were shown and may be kept. To be asked once."""
        return [] if self.decoder is None else self.decoder.partial(tuple(self.rest))


class Call(msgspec.Struct, frozen=True):
    """What one provider call needs: the wire, the request (made anew for each attempt), the rules of trying again.

    `identity` is that of the provider which is asked, whatever the agent's config becomes meanwhile.
    """

    wire: Wire
    identity: WireIdentity
    request: Callable[[], Plan[HTTPRequest]]
    timeouts: Timeouts | None
    retry: RetryConfig
    live: Live


class _Failed(Exception):
    """One attempt failed; `shown` tells whether the consumer saw any of it."""

    def __init__(self, failure: Failure, shown: bool, partial: list[ContentBlock]) -> None:
        super().__init__(failure.kind)
        self.failure = failure
        self.shown = shown
        self.partial = partial


def provider_call(call: Call, cell: StateCell) -> Plan[Answer]:
    """The whole answer to one request, its events yielded as they come.

    Raises `ProviderError` when no attempt brought one. When it is cancelled, `call.live` tells what had been shown.
    """
    attempt = 0
    while True:
        cell.move(State.OPENING)
        try:
            return (yield from _attempt(call, cell))
        except _Failed as failed:
            failure, shown, partial = failed.failure, failed.shown, failed.partial
        attempt += 1
        call.live.decoder = None
        url = ""
        if (request := call.live.request) is not None:
            failure, url = _struck(failure, request), request.url
        again = failure.should_retry and attempt <= call.retry.max_retries
        if not again or (shown and not call.retry.mid_stream):
            cell.move(State.FAILED)
            # Not in the handler above: its exception has the provider's words as they came, and would be the context.
            raise provider_error(failure, url, partial, tries=attempt)
        cell.move(State.BACKOFF)
        delay = _delay(call.retry, attempt, failure.retry_after, (yield from do(Jitter())))
        yield ProviderRetry(
            ProviderRetryInfo(
                attempt, call.retry.max_retries, delay, failure.kind, failure.status, failure.message, shown
            )
        )
        yield from do(Sleep(delay))


def _attempt(call: Call, cell: StateCell) -> Plan[Answer]:
    live, opened, shown = call.live, False, False
    try:
        live.request = request = yield from call.request()
        seed = yield from do(NewId())
        try:
            head = yield from do(Open(request, call.timeouts))
        except TransportFailure as error:
            raise _Failed(_transport_failure(error), False, []) from None
        opened = True
        if not 200 <= head.status < 300:
            failure = yield from _refusal(call, head.status, head.headers)
            raise _Failed(failure, False, [])
        live.decoder = decoder = call.wire.decoder(seed.replace("-", "")[-20:])
        cell.move(State.STREAMING)
        over = False
        while not over:
            broken: Failure | None = None
            try:
                data = yield from do(Recv())
            except TransportFailure as error:
                data, broken = b"", _transport_failure(error)
            events = decoder.feed(data) if data else []
            over = not data or decoder.done or decoder.failure is not None
            if over and decoder.failure is None:
                events = events + decoder.finish()
            if events:
                shown = True
                live.rest = iter(events)
                yield from live.rest
            if decoder.failure is not None:
                failure = decoder.failure if broken is None else broken
                yield from do(CloseResponse())
                opened = False
                raise _Failed(failure, shown, decoder.partial(()))
        yield from do(CloseResponse(whole=True))
        return decoder.answer()
    except Cancelled:
        if opened:
            yield from do(CloseResponse())
        raise


def _refusal(call: Call, status: int, headers: object) -> Plan[Failure]:
    """What an answer that is no stream says, read as far as it is of use."""
    body = b""
    try:
        while len(body) < MAX_ERROR_BODY and (data := (yield from do(Recv()))):
            body += data
    except TransportFailure:
        pass  # what came may still tell the cause
    yield from do(CloseResponse())
    now = yield from do(Now())
    return call.wire.failure(status, headers, body, now)  # type: ignore[arg-type]


def _struck(failure: Failure, request: HTTPRequest) -> Failure:
    """The failure without the keys of its request, which some providers repeat in their words."""
    message, id = request.strike(failure.message), failure.request_id and request.strike(failure.request_id)
    if (message, id) == (failure.message, failure.request_id):
        return failure
    return msgspec.structs.replace(failure, message=message, request_id=id)


def _transport_failure(error: TransportFailure) -> Failure:
    kind = error.kind if isinstance(error.kind, ErrorKind) else ErrorKind.CONNECTION
    again = kind in RETRYABLE_KINDS
    return Failure(kind=kind, status=None, message=error.message, retryable=again, should_retry=again)


def _delay(retry: RetryConfig, attempt: int, asked: float | None, jitter: float) -> float:
    """What the provider asks for, else doubling from `initial_delay`, half of it by chance; never over `max_delay`."""
    if asked is not None:
        return min(asked, retry.max_delay)
    return min(retry.initial_delay * 2.0 ** min(attempt - 1, 60), retry.max_delay) * (0.5 + jitter / 2)


HINTS: dict[ErrorKind, Callable[[str], str]] = {
    ErrorKind.AUTH: lambda url: "Check the API key: is it the right one for this host, and whole?",
    ErrorKind.BILLING: lambda url: "The account has no credit or quota left; waiting does not help.",
    ErrorKind.NOT_FOUND: lambda url: f"POST {url} was not found: check base_url (with or without /v1) and the model.",
    ErrorKind.CONTEXT_OVERFLOW: lambda url: "Shorten the conversation (`agent.conversation.messages`), or start anew.",
}
"""What to do next, by kind; told the URL that was called."""


def provider_error(failure: Failure, url: str, partial: list[ContentBlock], *, tries: int = 1) -> ProviderError:
    """The error that the caller gets."""
    kind = ContextOverflowError if failure.kind is ErrorKind.CONTEXT_OVERFLOW else ProviderError
    hints = [f"It was tried {tries} times."] if tries > 1 else []
    if (hint := HINTS.get(failure.kind)) is not None:
        hints.append(hint(url))
    return kind(
        failure.kind,
        failure.status,
        failure.message,
        failure.retryable,
        failure.retry_after,
        failure.request_id,
        Message(MessageRole.ASSISTANT, partial, stop_reason=StopReason.ABORTED) if partial else None,
        url=url,
        hint=" ".join(hints) or None,
    )
