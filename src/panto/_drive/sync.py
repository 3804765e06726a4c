"""The sync driver: performs effects by blocking, runs tools in threads.

Law: the only logic here is how to wait. A plan that was begun is driven to its end, also when it is closed.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
import queue
import threading
from collections.abc import Callable
from typing import TypeVar, cast

from panto._core.effects import (
    Append,
    CallUser,
    Cancelled,
    CloseResponse,
    Effect,
    Finished,
    Job,
    NextSignal,
    Open,
    Opened,
    Plan,
    Progress,
    Raised,
    Recv,
    Signal,
    Sleep,
    StartTools,
    StopTools,
    resume,
)

from . import http, jobs
from .clock import Clock, current
from .portal import Portal, result
from .world import instant, outgoing, reply_of, store_failure, transport_failure

T = TypeVar("T")

logger = logging.getLogger("panto")


class Driver:
    """Performs effects for one stream or call, by the given clock or that of the process."""

    def __init__(self, transport: Callable[[], http.Transport], portal: Portal, clock: Clock | None = None) -> None:
        self._transport = transport
        self._portal = portal
        self._clock = current() if clock is None else clock
        self._instant = instant(self._clock)
        self._response: http.Response | None = None
        self._whole: http.Response | None = None
        self._woken = threading.Event()
        self._batch: _Batch | None = None
        self._table: dict[type[Effect[object]], Callable[[Effect[object]], object]] = {
            Open: self._open,
            Recv: self._recv,
            CloseResponse: self._close_response,
            Sleep: lambda effect: self._clock.sleep(cast(Sleep, effect).seconds, self._woken),
            StartTools: self._start_tools,
            NextSignal: lambda effect: self._batch.next() if self._batch else None,
            StopTools: lambda effect: self._stop_tools(),
            Append: self._append,
            CallUser: self._call_user,
        }

    def perform(self, effect: Effect[object]) -> object:
        """The reply to `effect`; raises what is to be thrown into the plan."""
        kind = type(effect)
        if (at_once := self._instant.get(kind)) is not None:
            return at_once()
        try:
            return self._table[kind](effect)
        except (http.TransportError, ConnectionError, TimeoutError) as error:
            if (failure := transport_failure(effect, error)) is None:
                raise
            failure.__cause__ = error.__cause__
        try:
            raise failure  # here, so that the frames of the transport, which hold the key, are not its context
        finally:
            del failure  # its traceback leads here, and a cycle would keep a dropped stream alive

    def interrupt(self) -> None:
        """From another thread: end what this driver waits for, as far as that can be done. It performs no more."""
        self._woken.set()
        if (batch := self._batch) is not None:
            batch.interrupt()
        if (response := self._response) is not None:
            response.close()

    @property
    def interrupted(self) -> bool:
        """Whether somebody wants the stream closed."""
        return self._woken.is_set()

    def abort(self) -> None:
        """Close the connection and stop the tools at once; for a stream that was dropped."""
        self._stop_tools()
        if self._response is not None:
            self._response.close()
        self.finish()

    def finish(self) -> None:
        """Let go of the connection of a whole answer, for good."""
        response, self._whole = self._whole, None
        if response is not None:
            response.close()

    def _open(self, effect: Effect[object]) -> Opened:
        open_ = cast(Open, effect)
        self.finish()
        self._response = self._transport().open(*outgoing(open_), http.resolve_timeouts(open_.timeouts))
        return Opened(self._response.status, self._response.headers)

    def _recv(self, effect: Effect[object]) -> bytes:
        return self._response.read() if self._response is not None else b""

    def _close_response(self, effect: Effect[object]) -> None:
        response, self._response = self._response, None
        if cast(CloseResponse, effect).whole:
            self._whole = response
        elif response is not None:
            response.close()

    def _append(self, effect: Effect[object]) -> None:
        append = cast(Append, effect)
        try:
            done = append.session.append(append.records)
            if done is not None:
                self._portal.wait(done)
        except Exception as error:
            failure = store_failure(append.session.store, error)
            if failure is error:
                raise
            raise failure from error

    def _call_user(self, effect: Effect[object]) -> object:
        call = cast("CallUser[object]", effect)
        returned = call.function(*call.args)
        if inspect.isawaitable(returned):
            returned = self._portal.wait(returned)
        return reply_of(call, returned)

    def _start_tools(self, effect: Effect[object]) -> None:
        self._batch = _Batch(cast(StartTools, effect).jobs, self._portal, self._clock)

    def _stop_tools(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.stop()


class _Batch:
    """Jobs that run beside each other, each in a thread of its own."""

    def __init__(self, todo: tuple[Job, ...], portal: Portal, clock: Clock) -> None:
        self._portal = portal
        self._clock = clock
        self._signals: queue.SimpleQueue[Signal | BaseException] = queue.SimpleQueue()
        self._jobs = todo
        self._open = set(range(len(todo)))
        self._contexts: list[jobs.Context] = []
        self._timers = [clock.timer(job.timeout, self._signals) for job in todo]
        for at, job in enumerate(todo):
            context = jobs.Context(job.calls[0], lambda text, at=at: self._signals.put(Progress(at, text)))  # type: ignore[misc]
            self._contexts.append(context)
            run = contextvars.copy_context().run
            threading.Thread(target=run, args=(self._work, at, job, context), name="panto-tool", daemon=True).start()

    def next(self) -> Signal:
        """Wait for the next signal; a job that is over its time has timed out and is waited for no longer."""
        while True:
            soonest = min((self._timers[at].at for at in self._open), default=float("inf"))
            try:
                signal = self._clock.get(self._signals, soonest)
            except queue.Empty:
                at = min(self._open, key=lambda at: self._timers[at].at)
                self._contexts[at].cancel()
                signal = Finished(at, jobs.timed_out(self._jobs[at]))
            if isinstance(signal, BaseException):
                raise signal
            if signal.job not in self._open:
                continue  # said after it had timed out
            if isinstance(signal, Finished):
                self._open.discard(signal.job)
                self._timers[signal.job].cancel()
            return signal

    def interrupt(self) -> None:
        """End the wait of `next`."""
        self._signals.put(Closed())

    def stop(self) -> None:
        """Tell every job that nobody waits any more."""
        for context in self._contexts:
            context.cancel()
        for timer in self._timers:
            timer.cancel()

    def _work(self, at: int, job: Job, context: jobs.Context) -> None:
        try:
            returned = jobs.begin(job, context)
            if inspect.isawaitable(returned):
                future = self._portal.submit(returned)
                context.on_cancel(future.cancel)
                returned = result(future)  # the timer of `next` cancels it
            results = jobs.prepared(job, jobs.results(job, context, returned))
        except BaseException as error:
            if not isinstance(error, (Exception, *jobs.cancellations())):
                self._signals.put(error)
                return
            results = jobs.failure(job, error)
        self._signals.put(Finished(at, results))


class Closed(BaseException):
    """Another thread closed the stream while this one was waiting for its next event; the plan has ended."""


def answer(plan: Plan[T], driver: Driver, effect: Effect[object]) -> object:
    """The reply to one effect of a plan, to `resume` it with. An interrupt closes the plan, then goes on."""
    try:
        reply = driver.perform(effect)
    except Exception as error:
        reply = Raised(error)
    except BaseException:
        close_quietly(plan, driver)
        raise
    if driver.interrupted:
        close_quietly(plan, driver)
        raise Closed
    try:
        return reply
    finally:
        del reply  # an error's traceback leads here, and a cycle would keep a dropped stream alive


def close(plan: Plan[T], driver: Driver) -> None:
    """Throw `Cancelled` into a plan that was begun and drive it to its end; its last events go to nobody."""
    try:
        step = plan.throw(Cancelled())
        while True:
            if isinstance(step, Effect):
                try:
                    reply = driver.perform(step)
                except Exception as error:
                    reply = Raised(error)
                step = resume(plan, reply)
            else:
                step = plan.send(None)
    except (StopIteration, Cancelled):
        pass
    except BaseException:
        plan.close()
        raise


def close_quietly(plan: Plan[T], driver: Driver) -> None:
    """The same, on the way of something that matters more than what goes wrong here."""
    try:
        close(plan, driver)
    except Exception as error:
        logger.warning("a run could not be closed in order: %s: %s", type(error).__name__, error)


def drive(plan: Plan[T], driver: Driver) -> T:
    """Perform a whole plan that is no stream; what it returns."""
    try:
        step = plan.send(None)
        while True:
            step = resume(plan, answer(plan, driver, step) if isinstance(step, Effect) else None)
    except StopIteration as end:
        return cast(T, end.value)
