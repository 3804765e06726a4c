"""Law 3 and 4: whenever a run is closed, its history is valid, stored, holds what was shown, and can be sent."""

from __future__ import annotations

import pytest

from panto import ContentBlockType, ContentDelta, ProviderRetry, RetryConfig, StopReason, Tool, ToolResultBlock
from panto._core.engine import Engine
from panto._core.state import State

from .world import World, calls, engine, reset, run, run_cell, text


def look(arguments: dict[str, object]) -> str:
    return f"seen {arguments}"


LOOK = Tool("look", "looks", {"type": "object", "properties": {}}, look)


def answers() -> list[object]:
    """A refusal, an answer that breaks off, two calls with words, and a last word."""
    whole = text("one ", "two ", "three")
    return [
        (529, b'{"error": {"message": "busy"}}'),
        [whole[:80], reset()],
        calls(("a", "look", '{"x": 1}'), ("b", "look", "{}"), words="I will look."),
        text("done"),
    ]


def prepared() -> Engine:
    return engine(LOOK, retry=RetryConfig(max_retries=3))


def steps_of_a_whole_run() -> int:
    return run_cell(prepared(), World(*answers()))[1]


@pytest.mark.parametrize("at", range(steps_of_a_whole_run() + 1))
def test_cancelled_at_every_single_step_leaves_a_history_that_is_valid_stored_and_sendable(at: int) -> None:
    made, world = prepared(), World(*answers())
    events, _, cell = run_cell(made, world, cancel_at=at)
    if made.loaded is None:  # cancelled while the session was loaded: nothing was said yet
        assert cell.value is State.ABORTED
        return
    talk = made.conversation
    assert talk.problems() == []
    assert talk.problems(made.config.provider.wire_identity()) == []
    assert made.session.store.load(made.session.info.id) in (talk, None) or talk.messages == []
    stored = made.session.store.load(made.session.info.id)
    assert stored is None or stored.messages == talk.messages
    asked = [block.id for message in talk.messages for block in message.tool_calls]
    answered = [b.id for m in talk.messages for b in m.content if isinstance(b, ToolResultBlock)]
    assert asked == answered
    shown = ""
    for event in events:
        if isinstance(event, ProviderRetry):
            shown = ""
        elif isinstance(event, ContentDelta) and event.type is ContentBlockType.TEXT:
            shown += event.text
    assert "".join(m.text for m in talk.messages if m.role == "assistant") == shown
    assert cell.value in (State.ABORTED, State.DONE)
    # The next run works, and sends a request that holds it all.
    world.answers = [text("again")]
    again = run(made, world, "and now?")
    assert again[-1].stop_reason is StopReason.STOP  # type: ignore[union-attr]
    assert talk.problems() == []
    assert "and now?" in str(world.requests[-1]["messages"])
    stored = made.session.store.load(made.session.info.id)
    assert stored is not None
    assert stored.messages == talk.messages


def test_text_that_was_shown_is_kept_in_a_message_stamped_aborted() -> None:
    made, world = engine(), World(text("one ", "two ", "three "))
    steps = 0
    for steps in range(100):
        made, world = engine(), World(text("one ", "two ", "three "), cut=10_000)
        events = run(made, world, cancel_at=steps)
        if [e.text for e in events if isinstance(e, ContentDelta)] == ["one ", "two "]:
            break
    kept = made.conversation.messages[-1]
    assert (kept.text, kept.stop_reason) == ("one two ", StopReason.ABORTED)
    assert world.closed == 1


def test_results_that_were_there_are_kept_and_the_others_say_interrupted() -> None:
    for steps in range(100):
        made, world = engine(LOOK), World(calls(("a", "look", "{}"), ("b", "look", "{}")))
        run(made, world, cancel_at=steps)
        if made.loaded is None:
            continue
        results = [b for m in made.conversation.messages for b in m.content if isinstance(b, ToolResultBlock)]
        if [r.is_error for r in results] == [True, False]:  # the world finishes the last job first
            break
    else:
        raise AssertionError("no step at which just one call had finished")
    assert "interrupted" in results[0].text
    assert results[1].text == "seen {}"
