"""The sync driver: performs effects by blocking, runs tools in threads.

Law: the only logic here is how to wait. A plan that was begun is driven to its end, also when it is closed.
"""

from __future__ import annotations

import contextvars
import inspect
import queue
import threading
import time
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
from .portal import Portal
from .world import INSTANT, as_plan_error, outgoing, reply_of

T = TypeVar("T")


class Driver:
    """Performs effects for one stream or call."""

    def __init__(self, transport: Callable[[], http.Transport], portal: Portal) -> None:
        self._transport = transport
        self._portal = portal
        self._response: http.Response | None = None
        self._batch: _Batch | None = None
        self._table: dict[type[Effect[object]], Callable[[Effect[object]], object]] = {
            Open: self._open,
            Recv: self._recv,
            CloseResponse: self._close_response,
            Sleep: lambda effect: time.sleep(cast(Sleep, effect).seconds),
            StartTools: self._start_tools,
            NextSignal: lambda effect: self._batch.next() if self._batch else None,
            StopTools: lambda effect: self._stop_tools(),
            Append: self._append,
            CallUser: self._call_user,
        }

    def perform(self, effect: Effect[object]) -> object:
        """The reply to `effect`; raises what is to be thrown into the plan."""
        kind = type(effect)
        if (instant := INSTANT.get(kind)) is not None:
            return instant()
        try:
            return self._table[kind](effect)
        except http.TransportError as error:
            raise as_plan_error(error) from error.__cause__

    def abort(self) -> None:
        """Close the connection and stop the tools at once; for a stream that was dropped."""
        self._stop_tools()
        if self._response is not None:
            self._response.close()

    def _open(self, effect: Effect[object]) -> Opened:
        open_ = cast(Open, effect)
        self._response = self._transport().open(*outgoing(open_), http.resolve_timeouts(open_.timeouts))
        return Opened(self._response.status, self._response.headers)

    def _recv(self, effect: Effect[object]) -> bytes:
        return self._response.read() if self._response is not None else b""

    def _close_response(self, effect: Effect[object]) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()

    def _append(self, effect: Effect[object]) -> None:
        append = cast(Append, effect)
        done = append.session.append(append.records)
        if done is not None:
            self._portal.wait(done)

    def _call_user(self, effect: Effect[object]) -> object:
        call = cast("CallUser[object]", effect)
        returned = call.function(*call.args)
        if inspect.isawaitable(returned):
            returned = self._portal.wait(returned)
        return reply_of(call, returned)

    def _start_tools(self, effect: Effect[object]) -> None:
        self._batch = _Batch(cast(StartTools, effect).jobs, self._portal)

    def _stop_tools(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.stop()


class _Batch:
    """Jobs that run beside each other, each in a thread of its own."""

    def __init__(self, todo: tuple[Job, ...], portal: Portal) -> None:
        self._portal = portal
        self._signals: queue.SimpleQueue[Signal | BaseException] = queue.SimpleQueue()
        self._jobs = todo
        self._open = set(range(len(todo)))
        self._contexts: list[jobs.Context] = []
        now = time.monotonic()
        self._deadlines = [now + job.timeout if job.timeout else float("inf") for job in todo]
        for at, job in enumerate(todo):
            context = jobs.Context(job.calls[0], lambda text, at=at: self._signals.put(Progress(at, text)))  # type: ignore[misc]
            self._contexts.append(context)
            run = contextvars.copy_context().run
            threading.Thread(target=run, args=(self._work, at, job, context), name="panto-tool", daemon=True).start()

    def next(self) -> Signal:
        """Wait for the next signal; a job that is over its time has timed out and is waited for no longer."""
        while True:
            soonest = min((self._deadlines[at] for at in self._open), default=float("inf"))
            left = soonest - time.monotonic()
            try:
                # A wait without end could not be interrupted on every platform.
                signal = self._signals.get(timeout=max(0.0, min(left, 3600.0)))
            except queue.Empty:
                if left > 0:
                    continue
                at = min(self._open, key=lambda at: self._deadlines[at])
                self._contexts[at].cancel()
                signal = Finished(at, jobs.timed_out(self._jobs[at]))
            if isinstance(signal, BaseException):
                raise signal
            if signal.job not in self._open:
                continue  # said after it had timed out
            if isinstance(signal, Finished):
                self._open.discard(signal.job)
            return signal

    def stop(self) -> None:
        """Tell every job that nobody waits any more."""
        for context in self._contexts:
            context.cancel()

    def _work(self, at: int, job: Job, context: jobs.Context) -> None:
        try:
            returned = jobs.begin(job, context)
            if inspect.isawaitable(returned):
                future = self._portal.submit(returned)
                context.on_cancel(future.cancel)
                returned = future.result(job.timeout or None)
            results = jobs.results(job, context, returned)
        except TimeoutError as error:
            late = time.monotonic() >= self._deadlines[at]
            results = jobs.timed_out(job) if late else jobs.failure(job, error)
        except BaseException as error:
            if not isinstance(error, (Exception, *jobs.cancellations())):
                self._signals.put(error)
                return
            results = jobs.failure(job, error)
        self._signals.put(Finished(at, results))


def answer(plan: Plan[T], driver: Driver, effect: Effect[object]) -> object:
    """The reply to one effect of a plan, to `resume` it with. A interrupt closes the plan, then goes on."""
    try:
        return driver.perform(effect)
    except Exception as error:
        return Raised(error)
    except BaseException:
        close(plan, driver)
        raise


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


def drive(plan: Plan[T], driver: Driver) -> T:
    """Perform a whole plan that is no stream; what it returns."""
    try:
        step = plan.send(None)
        while True:
            step = resume(plan, answer(plan, driver, step) if isinstance(step, Effect) else None)
    except StopIteration as end:
        return cast(T, end.value)
