"""A run: ask, answer, call tools, ask again, until the answer needs nothing more.

Law: persist, then announce; a call always has its result; and however a run ends, the history it leaves is valid,
stored, and can be sent by the next.
"""

from __future__ import annotations

import msgspec

from panto._wire.protocol import Answer
from panto.config import StopReason, WireIdentity
from panto.conversation import Message, MessageRole
from panto.errors import ConfigError, StoreError
from panto.events import MessageComplete, TurnComplete
from panto.usage import Usage

from .dispatch import CUT, NOT_STORED, dispatch, refuse
from .effects import Cancelled, Plan
from .engine import Engine, Offer, logger
from .state import State, StateCell
from .turn import provider_call

NOT_WHOLE = (StopReason.LENGTH, StopReason.CONTENT_FILTER, StopReason.REFUSAL)
"""An answer that ended so is not whole: none of its calls is run, and the turn ends."""


def run(engine: Engine, said: Message | None, cell: StateCell) -> Plan[None]:
    """One run of the agent, from the user's words to `TurnComplete`.

    Raises `ProviderError` when the provider brought no answer, `StoreError` when one could not be stored (after
    `MessageComplete`), and whatever the caller's own hooks raise.
    """
    usages: list[Usage | None] = []
    try:
        yield from engine.load()
        if said is None and not any(m.role is not MessageRole.SYSTEM for m in engine.conversation.messages):
            raise ConfigError("run(None) goes on from where the history stands, and there is nothing in it yet")
        offer = yield from engine.offer()
        if said is not None:
            yield from engine.prepare(said)
            engine.join(said, offer.decls)
            try:
                yield from engine.flush()
            except StoreError as error:
                # The answer matters more: the question is offered again together with it.
                logger.warning("the question could not be stored yet: %s", error)
        reason, detail = yield from _turns(engine, offer, cell, usages)
    except Cancelled:
        engine.interrupt()
        yield from settle(engine)
        cell.move(State.ABORTED)
        yield TurnComplete(StopReason.ABORTED, Usage.total(usages))
    except Exception:
        engine.call = None
        engine.close_batch()
        engine.behind = True
        cell.move(State.FAILED)
        raise
    except BaseException:
        # Dropped, or interrupted in our own code: nothing may be asked of the world here. The next to come stores it.
        engine.interrupt()
        cell.move(State.ABORTED)
        raise
    else:
        cell.move(State.DONE)
        try:
            yield TurnComplete(reason, Usage.total(usages), detail)
        except Cancelled:
            pass  # all was done already


def settle(engine: Engine) -> Plan[None]:
    """Store what an ended run left. Who fails now is told of in the log, and is offered all of it again."""
    try:
        yield from engine.flush()
    except Exception as error:  # the caller's own hook, too: nobody is there any more to raise to
        logger.warning("the end of a closed run could not be stored yet: %s: %s", type(error).__name__, error)


def _turns(
    engine: Engine, offer: Offer, cell: StateCell, usages: list[Usage | None]
) -> Plan[tuple[StopReason, str | None]]:
    """Call after call, until one needs nothing more; why it ended, and which limit did it."""
    limit = engine.config.limits.max_calls
    for made in range(limit):
        engine.call = call = engine.provider_call(offer, first=made == 0)
        answer = yield from provider_call(call, cell)
        usages.append(answer.usage)
        reason = answer.stop_reason
        yield from _announce(engine, _message(answer, call.identity), offer)
        if (batch := engine.batch) is not None:
            cell.move(State.DISPATCHING)
            if reason in NOT_WHOLE:
                yield from refuse(batch, CUT.format(reason=reason.value))
            else:
                yield from dispatch(batch, engine.dispatcher(offer))
            engine.close_batch()
            yield from engine.flush()
        if reason in NOT_WHOLE or (batch is None and reason is not StopReason.PAUSE):
            return reason, None
    return StopReason.LIMIT, f"max_calls: {limit} provider calls in one run"


def _message(answer: Answer, identity: WireIdentity) -> Message:
    return Message(
        MessageRole.ASSISTANT,
        list(answer.content),
        identity=identity,
        usage=answer.usage,
        stop_reason=answer.stop_reason,
        stop_raw=answer.stop_raw,
    )


def _announce(engine: Engine, message: Message, offer: Offer) -> Plan[None]:
    """Store an answer, then announce it. When it cannot be stored it is announced all the same, and then the error."""
    engine.join(message, offer.decls)
    engine.call = None
    failed: Exception | None = None
    try:
        yield from engine.flush()
    except Exception as error:  # a store's, or whatever the caller's own hook raised
        failed = error
    if failed is not None and engine.batch is not None:
        engine.batch.why = NOT_STORED
    told = msgspec.structs.replace(message, content=list(message.content))
    yield MessageComplete(told, message.usage, message.stop_reason or StopReason.UNKNOWN)
    if failed is not None:
        raise failed
