"""Running one job of tool calls, in either colour: what is called, and what becomes of whatever it does.

Law: a job always ends in one result for each of its calls; an exception is a result, and only what would end the
process (`KeyboardInterrupt`, `SystemExit`) is not.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable
from typing import TypeAlias

from panto import _images
from panto._core.effects import Job
from panto.config import JSON
from panto.tools import ArgumentError, Tool, ToolCall, ToolCallResult, as_result

TIMED_OUT = "The call timed out after {seconds:g} seconds; it may have had effects."

Outcome: TypeAlias = tuple[ToolCallResult, ...]


class Context:
    """A `ToolContext`: what a running tool may use."""

    def __init__(self, call: ToolCall, progress: Callable[[str], None]) -> None:
        self.call = call
        self.details: JSON = None
        self._progress = progress
        self._cancelled = threading.Event()
        self._on_cancel: Callable[[], object] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the run is being closed."""
        return self._cancelled.is_set()

    def progress(self, text: str) -> None:
        """Show `text` to whoever reads the stream."""
        if not self.cancelled:
            self._progress(text)

    def cancel(self) -> None:
        """Tell the tool that nobody waits for it any more."""
        self._cancelled.set()
        if self._on_cancel is not None:
            self._on_cancel()

    def on_cancel(self, call: Callable[[], object]) -> None:
        """What else to do then; done at once when it is too late."""
        self._on_cancel = call
        if self.cancelled:
            call()


def cancellations() -> tuple[type[BaseException], ...]:
    """The exceptions that mean "cancelled" to somebody; raised by a tool of its own accord they are failures."""
    asyncio = sys.modules.get("asyncio")
    return (asyncio.CancelledError,) if asyncio is not None else ()


def begin(job: Job, context: Context) -> object:
    """Call the job's function; what it returns may have to be awaited."""
    runner = job.runner
    # A copy: what a tool does to its arguments is not what the model said.
    calls = [ToolCall(call.id, call.name, copy.deepcopy(call.arguments)) for call in job.calls]
    if isinstance(runner, Tool):
        arguments = calls[0].arguments
        return runner.run(arguments, context) if runner.takes_context else runner.run(arguments)
    return runner.call(calls)


def results(job: Job, context: Context, returned: object) -> Outcome:
    """What a job returned, as one result for each of its calls."""
    if isinstance(job.runner, Tool):
        result = as_result(returned)
        if result.details is None and context.details is not None:
            result = ToolCallResult(result.parts, result.is_error, context.details)
        return (result,)
    if isinstance(returned, (list, tuple)) and len(returned) == len(job.calls):
        return tuple(as_result(item) for item in returned)
    source = type(job.runner).__name__
    return failure(job, RuntimeError(f"{source}.call() did not return one result for each call"))


def unprepared(outcome: Outcome) -> bool:
    """Whether there are images or documents in the results, so that preparing them may take a while."""
    return any(map(_images.has_media, outcome))


def prepared(job: Job, outcome: Outcome) -> Outcome:
    """The results with their images fit for a history."""
    return tuple(_images.prepare_result(result, job.max_image_side) for result in outcome)


def failure(job: Job, error: BaseException) -> Outcome:
    """What an exception tells the model: type and message, never a traceback."""
    if isinstance(error, ArgumentError):
        text = str(error)
    else:
        words = str(error)
        text = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return (ToolCallResult.error(text),) * len(job.calls)


def timed_out(job: Job) -> Outcome:
    """The results of a job that took too long."""
    return (ToolCallResult.error(TIMED_OUT.format(seconds=job.timeout)),) * len(job.calls)
