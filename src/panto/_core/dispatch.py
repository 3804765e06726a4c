"""One batch of tool calls: read, approve, run, collect.

Law: a call always has its result, in call order, whatever happened; a call that was not complete and readable, or not
allowed, is never run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from panto.config import Limits
from panto.conversation import MediaPart, ResultPartStored, StoredMediaPart, TextPart, ToolResultBlock, ToolUseBlock
from panto.events import ToolDispatchComplete, ToolDispatchStart, ToolProgress
from panto.rules.verdicts import arguments_rule
from panto.tools import (
    Allow,
    ArgumentError,
    Ask,
    Change,
    Decision,
    Deny,
    Hooks,
    Pause,
    Tool,
    ToolCall,
    ToolCallResult,
    ToolSource,
    as_result,
    limit_result,
)

from .effects import CallUser, Cancelled, Finished, Job, NextSignal, Plan, Progress, StartTools, StopTools, do
from .repair import clean_arguments

INTERRUPTED = "The call was interrupted by the user; it may have had effects."
NOT_STARTED = "The call was not run: the user interrupted before it began."
CUT = "The call was not run: the reply hit a limit ({reason}) and was cut, so the call was discarded."
NOT_STORED = "The call was not run: the session could not be stored."


class Dispatcher(msgspec.Struct, frozen=True):
    """What running calls needs: who answers to which name, the caller's hooks, and the limits.

    prepare: makes the images of a result fit for a history; of what a hook returned, since the driver did the rest.
    """

    runners: Mapping[str, Tool | ToolSource]
    hooks: Hooks
    limits: Limits
    max_image_side: int = 1568
    prepare: Callable[[ToolCallResult, int], ToolCallResult] | None = None


class Batch:
    """The calls of one message and what came of them; `results` fills up while they run.

    `why` is what a call is told that never began.
    """

    def __init__(self, blocks: Sequence[ToolUseBlock]) -> None:
        self.blocks = blocks
        self.results: dict[int, ToolCallResult] = {}
        self.begun: set[int] = set()
        self.why = NOT_STARTED

    def stored(self) -> list[ToolResultBlock]:
        """One block a call, in call order; a call without a result was interrupted."""
        return [
            stored_result(block.id, self.results.get(at) or self._interrupted(at))
            for at, block in enumerate(self.blocks)
        ]

    def _interrupted(self, at: int) -> ToolCallResult:
        return ToolCallResult.error(INTERRUPTED if at in self.begun else self.why)


def stored_result(id: str, result: ToolCallResult) -> ToolResultBlock:
    """A result as the history holds it."""
    parts: list[ResultPartStored] = [
        part if isinstance(part, TextPart) else StoredMediaPart.of(part) for part in result.parts
    ]
    return ToolResultBlock(id, tuple(parts), result.is_error, result.details)


def read_call(block: ToolUseBlock) -> tuple[ToolCall, str | None]:
    """The call, and what is wrong with it if it cannot be run. No text at all, or `null`, means no arguments."""
    text = block.arguments.strip()
    try:
        value = _parsed(text) if text else None
    except (ValueError, RecursionError):
        problem = "its arguments are not complete, valid JSON (the reply may have been cut); nothing was run"
        return ToolCall(block.id, block.name, {}), problem
    if value is None:
        return ToolCall(block.id, block.name, {}), None
    if not isinstance(value, dict):
        return ToolCall(block.id, block.name, {}), "its arguments must be a JSON object; nothing was run"
    return ToolCall(block.id, block.name, value), None


def _parsed(text: str) -> object:
    """The value of JSON text; lone surrogates, which JSON can escape and UTF-8 cannot carry, are replaced.

    Raises `ValueError` or `RecursionError` for what cannot be read.
    """
    try:
        return msgspec.json.decode(text)
    except ValueError:
        if arguments_rule(text) != "surrogates":
            raise
        return msgspec.json.decode(clean_arguments(text))


def refuse(batch: Batch, why: str) -> Plan[None]:
    """Give every call of the batch the same error result; none is run."""
    for at, block in enumerate(batch.blocks):
        call, _ = read_call(block)
        yield from _settle(batch, at, call, ToolCallResult.error(why), start=True)


def dispatch(batch: Batch, with_: Dispatcher) -> Plan[None]:
    """Run what may be run. When cancelled, running calls are stopped and `Cancelled` goes on; `batch` stays true."""
    try:
        approved: list[tuple[int, ToolCall]] = []
        for at, block in enumerate(batch.blocks):
            call, problem = read_call(block)
            if problem is None and call.name not in with_.runners:
                problem = f"there is no tool of that name; the tools are {', '.join(with_.runners) or 'none'}"
            if problem is not None:
                refusal = ToolCallResult.error(f"The call of {call.name} failed: {problem}.")
                yield from _settle(batch, at, call, refusal, start=True)
                continue
            if (misfit := (yield from _misfit(call, with_.runners[call.name]))) is not None:
                yield from _settle(batch, at, call, ToolCallResult.error(misfit), start=True)
                continue
            decision = yield from _approve(call, with_.hooks)
            if isinstance(decision, Deny):
                yield from _settle(batch, at, call, ToolCallResult.error(decision.reason), start=True)
                continue
            if isinstance(decision, Change):
                call = ToolCall(call.id, call.name, dict(decision.arguments))
            approved.append((at, call))
        for group in _groups(approved, with_.runners):
            yield from _run(batch, group, with_)
    except Cancelled:
        yield from do(StopTools())
        raise


def _misfit(call: ToolCall, runner: Tool | ToolSource) -> Plan[str | None]:
    """What does not fit in the arguments; nobody is asked about a call that cannot run."""
    if isinstance(runner, Tool):
        try:
            yield from do(CallUser(runner.check, (call.arguments,)))
        except ArgumentError as error:
            return str(error)
    return None


def _approve(call: ToolCall, hooks: Hooks) -> Plan[Decision]:
    if hooks.before_tool_call is None:
        return Allow()
    said: object = yield from do(CallUser(hooks.before_tool_call, (call,)))
    match said:
        case None | Allow():
            return Allow()
        case Deny() | Change():
            return said
        case Ask():
            if hooks.on_ask is None:
                return Deny(f"Not allowed: nobody is there to ask ({said.question}).")
            answer: object = yield from do(CallUser(hooks.on_ask, (said.question,)))
            if answer is True:
                return Allow()
            return Deny(answer if isinstance(answer, str) and answer else "The user did not allow this call.")
        case Pause():
            return Deny("Not allowed now: the call waits for a person, and none has answered.")
        case _:
            raise TypeError(f"before_tool_call returns Allow, Deny, Change, Ask or Pause, not {type(said).__name__}")


def _groups(
    approved: Sequence[tuple[int, ToolCall]], runners: Mapping[str, Tool | ToolSource]
) -> list[list[tuple[int, ToolCall]]]:
    """Calls that may run beside each other, in order; a tool that wants to be alone is a group of its own."""
    groups: list[list[tuple[int, ToolCall]]] = []
    together = False
    for at, call in approved:
        runner = runners[call.name]
        parallel = not isinstance(runner, Tool) or runner.parallel
        if parallel and together:
            groups[-1].append((at, call))
        else:
            groups.append([(at, call)])
        together = parallel
    return groups


def _run(batch: Batch, group: Sequence[tuple[int, ToolCall]], with_: Dispatcher) -> Plan[None]:
    jobs: list[Job] = []
    where: list[list[tuple[int, ToolCall]]] = []
    sources: dict[int, int] = {}
    for at, call in group:
        batch.begun.add(at)
        yield ToolDispatchStart(call)
        runner = with_.runners[call.name]
        if isinstance(runner, Tool):
            timeout = with_.limits.tool_timeout if runner.timeout is None else runner.timeout
            jobs.append(Job((call,), runner, timeout, with_.max_image_side))
            where.append([(at, call)])
        elif (position := sources.get(id(runner))) is not None:
            where[position].append((at, call))
            jobs[position] = msgspec.structs.replace(jobs[position], calls=(*jobs[position].calls, call))
        else:
            sources[id(runner)] = len(jobs)
            jobs.append(Job((call,), runner, with_.limits.tool_timeout, with_.max_image_side))
            where.append([(at, call)])
    yield from do(StartTools(tuple(jobs)))
    waiting = len(jobs)
    while waiting:
        signal = yield from do(NextSignal())
        match signal:
            case Progress():
                for _, call in where[signal.job]:
                    yield ToolProgress(call, signal.text)
            case Finished():
                waiting -= 1
                for (at, call), result in zip(where[signal.job], signal.results, strict=True):
                    # What a tool brought is kept even when the hook after it, or the consumer, cancels.
                    batch.results[at] = limit_result(result, with_.limits.max_tool_result_bytes)
                    if with_.hooks.after_tool_call is not None:
                        changed: object = yield from do(CallUser(with_.hooks.after_tool_call, (call, result)))
                        if changed is not None and not isinstance(changed, ToolCallResult):
                            kind = type(changed).__name__
                            raise TypeError(
                                f"after_tool_call returns a ToolCallResult, or None to change nothing, not {kind}"
                            )
                        if changed is not None:
                            fit = yield from _prepared(as_result(changed), with_)
                            batch.results[at] = limit_result(fit, with_.limits.max_tool_result_bytes)
                    yield ToolDispatchComplete(call, batch.results[at])


def _prepared(result: ToolCallResult, with_: Dispatcher) -> Plan[ToolCallResult]:
    if with_.prepare is None or not any(isinstance(part, MediaPart) for part in result.parts):
        return result
    return (yield from do(CallUser(with_.prepare, (result, with_.max_image_side), blocking=True)))


def _settle(batch: Batch, at: int, call: ToolCall, result: ToolCallResult, *, start: bool) -> Plan[None]:
    batch.results[at] = result
    if start:
        yield ToolDispatchStart(call)
    yield ToolDispatchComplete(call, result)
