"""The asyncio driver: performs effects by awaiting, runs async tools as tasks and blocking ones in threads.

Law: the only logic here is how to wait. Cancelling the task that reads a stream closes the plan, shielded and within
`CLOSING_SECONDS`, and then goes on; a write to the store that has begun is finished first.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from panto._core.effects import (
    UNSEEN,
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
from panto._core.engine import in_memory
from panto.tools import Tool

from . import http, jobs
from .clock import Clock, current
from .world import instant, outgoing, reply_of, store_failure, transport_failure

T = TypeVar("T")

logger = logging.getLogger("panto")

CLOSING_SECONDS = 10.0
"""How long a closing stream may take to leave its history in order."""


class Driver:
    """Performs effects for one stream or call, by the given clock or that of the process."""

    def __init__(self, transport: Callable[[], http.AsyncTransport], clock: Clock | None = None) -> None:
        self._transport = transport
        self._clock = current() if clock is None else clock
        self._instant = instant(self._clock)
        self._response: http.AsyncResponse | None = None
        self._whole: http.AsyncResponse | None = None
        self._batch: _Batch | None = None
        self.writing: asyncio.Future[None] | None = None
        self._table: dict[type[Effect[object]], Callable[[Effect[object]], Awaitable[object]]] = {
            Open: self._open,
            Recv: self._recv,
            CloseResponse: self._close_response,
            Sleep: lambda effect: self._clock.sleep_async(cast(Sleep, effect).seconds),
            StartTools: self._start_tools,
            NextSignal: self._next_signal,
            StopTools: self._stop_tools,
            Append: self._append,
            CallUser: self._call_user,
        }

    async def perform(self, effect: Effect[object]) -> object:
        """The reply to `effect`; raises what is to be thrown into the plan."""
        kind = type(effect)
        if (at_once := self._instant.get(kind)) is not None:
            return at_once()
        try:
            return await self._table[kind](effect)
        except (http.TransportError, ConnectionError, TimeoutError) as error:
            if (failure := transport_failure(effect, error)) is None:
                raise
            failure.__cause__ = error.__cause__
        try:
            raise failure  # here, so that the frames of the transport, which hold the key, are not its context
        finally:
            del failure  # its traceback leads here, and a cycle would keep a dropped stream alive

    def abort(self) -> None:
        """Close the connection and stop the tools at once; for a stream that was dropped."""
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.stop()
        if self._response is not None:
            self._response.close()
        self.finish()

    def finish(self) -> None:
        """Let go of the connection of a whole answer, for good."""
        response, self._whole = self._whole, None
        if response is not None:
            response.close()

    async def _open(self, effect: Effect[object]) -> Opened:
        open_ = cast(Open, effect)
        self.finish()
        self._response = await self._transport().open(*outgoing(open_), http.resolve_timeouts(open_.timeouts))
        return Opened(self._response.status, self._response.headers)

    async def _recv(self, effect: Effect[object]) -> bytes:
        return await self._response.read() if self._response is not None else b""

    async def _close_response(self, effect: Effect[object]) -> None:
        response, self._response = self._response, None
        if cast(CloseResponse, effect).whole:
            self._whole = response
        elif response is not None:
            response.close()

    async def _append(self, effect: Effect[object]) -> None:
        append = cast(Append, effect)
        session, records = append.session, append.records

        async def write() -> None:
            try:
                if in_memory(session.store) or inspect.iscoroutinefunction(session.store.append_messages):
                    done = session.append(records)
                else:
                    done = cast("Awaitable[None] | None", await in_thread(session.append, records))
                if done is not None:
                    await done
            except Exception as error:
                failure = store_failure(session.store, error)
                if failure is error:
                    raise
                raise failure from error

        self.writing = asyncio.ensure_future(write())
        try:
            await asyncio.shield(self.writing)
        except Exception:
            self.writing = None  # told now, and not again by whoever closes
            raise
        self.writing = None

    async def _call_user(self, effect: Effect[object]) -> object:
        call = cast("CallUser[object]", effect)
        if call.blocking and not inspect.iscoroutinefunction(call.function):
            returned = await in_thread(call.function, *call.args)
        else:
            returned = call.function(*call.args)
        if inspect.isawaitable(returned):
            returned = await returned
        return reply_of(call, returned)

    async def _start_tools(self, effect: Effect[object]) -> None:
        self._batch = _Batch(cast(StartTools, effect).jobs, self._clock)

    async def _next_signal(self, effect: Effect[object]) -> Signal:
        assert self._batch is not None
        return await self._batch.next()

    async def _stop_tools(self, effect: Effect[object]) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.stop()
            await batch.gone()


class _Batch:
    """Jobs that run beside each other, each a task; blocking functions in a thread of their own."""

    def __init__(self, todo: tuple[Job, ...], clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._signals: asyncio.Queue[Signal | BaseException] = asyncio.Queue()
        self._stopped = False
        self._contexts = [jobs.Context(job.calls[0], self._progress(at)) for at, job in enumerate(todo)]
        self._tasks = [asyncio.ensure_future(self._work(at, job, self._contexts[at])) for at, job in enumerate(todo)]

    async def next(self) -> Signal:
        """Wait for the next signal."""
        signal = await self._signals.get()
        if isinstance(signal, BaseException):
            raise signal
        return signal

    def stop(self) -> None:
        """Cancel every job; may be called from any thread, and after the loop's end."""
        self._stopped = True
        for context in self._contexts:
            context.cancel()
        if not self._loop.is_closed():
            for task in self._tasks:
                self._loop.call_soon_threadsafe(task.cancel)

    async def gone(self) -> None:
        """Wait, but not for long, until the cancelled tasks have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    def _progress(self, at: int) -> Callable[[str], None]:
        def progress(text: str) -> None:
            self._loop.call_soon_threadsafe(self._signals.put_nowait, Progress(at, text))

        return progress

    async def _work(self, at: int, job: Job, context: jobs.Context) -> None:
        limit = self._clock.limit(job.timeout)
        try:
            try:
                async with limit:
                    results = jobs.results(job, context, await _called(job, context))
                    if jobs.unprepared(results):
                        results = cast(jobs.Outcome, await in_thread(jobs.prepared, job, results))
            except TimeoutError as error:
                results = jobs.timed_out(job) if limit.expired() else jobs.failure(job, error)
        except asyncio.CancelledError as error:
            if self._stopped:
                raise
            results = jobs.failure(job, error)
        except Exception as error:
            results = jobs.failure(job, error)
        except BaseException as error:
            self._signals.put_nowait(error)
            return
        if limit.expired():
            context.cancel()
        # After whatever progress it told, which may still be on its way through the loop.
        self._loop.call_soon(self._signals.put_nowait, Finished(at, results))


async def _called(job: Job, context: jobs.Context) -> object:
    runner = job.runner
    if runner.is_async if isinstance(runner, Tool) else inspect.iscoroutinefunction(runner.call):
        returned = jobs.begin(job, context)
    else:
        returned = await in_thread(jobs.begin, job, context)
    return await returned if inspect.isawaitable(returned) else returned


async def in_thread(function: Callable[..., object], *args: object) -> object:
    """Call a blocking function in a daemon thread of its own, so that one that hangs keeps nobody from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()

    def tell(error: BaseException | None, value: object) -> None:
        if not future.done():
            if error is None:
                future.set_result(value)
            elif isinstance(error, StopIteration):
                future.set_exception(RuntimeError(f"StopIteration: {error}"))
            else:
                future.set_exception(error)

    def work() -> None:
        error, value = None, None
        try:
            value = function(*args)
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(tell, error, value)
        except RuntimeError:
            pass  # the loop has ended; nobody waits

    threading.Thread(target=contextvars.copy_context().run, args=(work,), name="panto-tool", daemon=True).start()
    return await future


async def answer(plan: Plan[T], driver: Driver, effect: Effect[object]) -> object:
    """The reply to one effect of a plan, to `resume` it with. A cancellation closes the plan, then goes on."""
    try:
        return await driver.perform(effect)
    except Exception as error:
        return Raised(error)
    except GeneratorExit:  # the coroutine is dropped, or its loop has ended: nothing can be awaited any more
        driver.abort()
        plan.close()
        raise
    except BaseException:
        await close_quietly(plan, driver)
        raise


async def close(plan: Plan[T], driver: Driver) -> None:
    """Throw `Cancelled` into a plan that was begun and drive it to its end; its last events go to nobody."""
    cancelled = Cancelled()
    try:
        if (writing := driver.writing) is not None:
            driver.writing = None
            try:
                await writing
            except Exception as error:
                step = plan.throw(error)
            else:
                step = plan.send(None)
            cancelled = Cancelled() if isinstance(step, Effect) else Cancelled(UNSEEN)
        step = plan.throw(cancelled)
        while True:
            if isinstance(step, Effect):
                try:
                    reply = await driver.perform(step)
                except Exception as error:
                    reply = Raised(error)
                step = resume(plan, reply)
            else:
                step = plan.send(None)
    except (StopIteration, Cancelled):
        pass


async def close_shielded(plan: Plan[T], driver: Driver) -> None:
    """Close a plan whatever cancels the caller meanwhile; after `CLOSING_SECONDS` the rest is given up.

    A cancellation that came meanwhile goes on when all is in order.
    """
    loop, cancelled = asyncio.get_running_loop(), False
    task = asyncio.ensure_future(close(plan, driver))
    deadline = loop.time() + CLOSING_SECONDS
    while not task.done() and (left := deadline - loop.time()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    if not task.done():
        task.cancel()
        driver.abort()
        await asyncio.wait({task}, timeout=1.0)
        plan.close()
    elif not task.cancelled() and (error := task.exception()) is not None and not cancelled:
        raise error
    if cancelled:
        raise asyncio.CancelledError


async def close_quietly(plan: Plan[T], driver: Driver) -> None:
    """The same, on the way of something that matters more than what goes wrong here."""
    try:
        await close_shielded(plan, driver)
    except Exception as error:
        logger.warning("a run could not be closed in order: %s: %s", type(error).__name__, error)


async def drive(plan: Plan[T], driver: Driver) -> T:
    """Perform a whole plan that is no stream; what it returns."""
    try:
        step = plan.send(None)
        while True:
            step = resume(plan, await answer(plan, driver, step) if isinstance(step, Effect) else None)
    except StopIteration as end:
        return cast(T, end.value)
