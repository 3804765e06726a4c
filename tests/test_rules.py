"""What a history must obey: each rule names the conversation that breaks it, and agrees with what the view does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.core.histories import TARGETS, clean_histories, histories, identities_for

from panto._core.repair import SUMMARY_PREFACE
from panto._core.view import View
from panto.config import APIStyle, StopReason, WireIdentity
from panto.conversation import (
    CompactionSummaryBlock,
    ContentBlock,
    Conversation,
    MediaBlock,
    Message,
    MessageRole,
    OpaqueBlock,
    StoredMediaPart,
    SystemBlock,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    effective_system_blocks,
)
from panto.rules import RULES, Target, problems
from panto.rules.ids import id_shape
from panto.rules.verdicts import no_arguments

CHAT = WireIdentity(APIStyle.OPENAI_CHAT, "https://chat.example/v1", "m")
MESSAGES = WireIdentity(APIStyle.ANTHROPIC_MESSAGES, "https://messages.example", "m")
SIGNED = ThinkingBlock("hm", "c2ln")
SERVER_USE = OpaqueBlock("server_tool_use", '{"type":"server_tool_use","id":"s","name":"web_search","input":{}}')
SERVER_RESULT = OpaqueBlock(
    "web_search_tool_result", '{"type":"web_search_tool_result","tool_use_id":"s","content":[]}'
)


def user(*blocks: ContentBlock | str) -> Message:
    return Message(MessageRole.USER, [TextualBlock(b) if isinstance(b, str) else b for b in blocks])


def answer(*blocks: ContentBlock | str, by: WireIdentity | None = None, stop: StopReason = StopReason.STOP) -> Message:
    content: list[ContentBlock] = [TextualBlock(b) if isinstance(b, str) else b for b in blocks]
    return Message(MessageRole.ASSISTANT, content, identity=by, stop_reason=stop)


def call(id: str = "a", arguments: str = "{}", name: str = "f") -> ToolUseBlock:
    return ToolUseBlock(id, name, arguments)


def result(id: str = "a", *texts: str) -> ToolResultBlock:
    return ToolResultBlock(id, tuple(TextPart(text) for text in texts or ("done",)))


Q = user("go")
PDF = MediaBlock("application/pdf", "JVBERi0x" * 2_000_000)

# The rule, the conversation that breaks it, for whom, and where (message, block).
BROKEN: list[tuple[str, list[Message], WireIdentity | Target | None, tuple[int, int | None]]] = [
    ("missing_result", [Q, answer(call("a"), call("b")), user(result("a"))], None, (1, 1)),
    ("orphan_result", [Q, answer("x"), user(result("ghost"), "y")], None, (2, 0)),
    ("orphan_result", [user(result("a"), "y"), answer(call("a")), user(result("a"))], None, (0, 0)),
    ("second_result", [Q, answer(call()), user(result(), result())], None, (2, 1)),
    ("result_order", [Q, answer(call("a"), call("b")), user(result("b"), result("a"))], None, (2, 1)),
    ("result_order", [Q, answer(call()), user("wait", result())], None, (2, 1)),
    ("result_order", [Q, answer(call()), answer("x"), user(result())], None, (3, 0)),
    ("repeated_id", [Q, answer(call()), user(result()), answer(call()), user(result())], None, (3, 0)),
    ("wrong_place", [user("go", call())], None, (0, 1)),
    ("wrong_place", [Q, answer("x", MediaBlock("image/png", "QUJD"))], None, (1, 1)),
    ("wrong_place", [Message(MessageRole.SYSTEM, [TextualBlock("x")]), Q], None, (0, 0)),
    ("empty_message", [Q, answer()], None, (1, None)),
    ("blank", [user("go", " \n")], None, (0, 1)),
    ("blank", [Message(MessageRole.SYSTEM, [SystemBlock("")]), Q], None, (0, 0)),
    ("blank", [Q, answer("x", ThinkingBlock(" "))], None, (1, 1)),
    ("surrogates", [user("caf\udce9")], None, (0, 0)),
    ("surrogates", [Q, answer(call(arguments='{"a": "\\ud83d"}')), user(result())], None, (1, 0)),
    ("surrogates", [Q, answer(call()), user(result("a", "\ud83d"))], None, (2, 0)),
    ("arguments", [Q, answer(call(arguments='{"a":')), user(result())], None, (1, 0)),
    ("blank_name", [Q, answer(call(name="")), user(result())], None, (1, 0)),
    ("blank_error", [Q, answer(call()), user(ToolResultBlock("a", (), True))], None, (2, 0)),
    ("blank_part", [Q, answer(call()), user(result("a", "x", " "))], None, (2, 0)),
    ("blank_part", [Q, answer(call()), user(ToolResultBlock("a", (StoredMediaPart("image/png", ""),)))], None, (2, 0)),
    ("broken_media", [user("see", MediaBlock("image/png", "not base64"))], None, (0, 1)),
    ("unreadable_media", [user("see", MediaBlock("image/png", "QUJD"))], None, (0, 1)),
    ("media_type", [user("see", MediaBlock("image/jpg", "/9j/4AAQ"))], None, (0, 1)),
    ("too_many_media", [user("see", PDF, PDF)], MESSAGES, (0, 1)),
    ("image_too_large", [user("see", MediaBlock("image/gif", "R0lGODlhQR8BAA=="))], MESSAGES, (0, 1)),
    ("broken_seal", [Q, answer(ThinkingBlock("\ud83d", "c2ln"), "x", by=MESSAGES)], MESSAGES, (1, 0)),
    ("broken_opaque", [Q, answer(OpaqueBlock("x", "{"), "x", by=MESSAGES)], None, (1, 0)),
    ("foreign_reasoning", [Q, answer(SIGNED, "x", by=MESSAGES)], CHAT, (1, 0)),
    ("foreign_reasoning", [Q, answer(SIGNED, "x")], MESSAGES, (1, 0)),
    ("reasoning_as_text", [Q, answer(SIGNED, "x")], Target(CHAT, foreign_reasoning="text"), (1, 0)),
    ("unsigned_reasoning", [Q, answer(ThinkingBlock("cut"), "x", by=MESSAGES)], MESSAGES, (1, 0)),
    ("own_reasoning", [Q, answer(ThinkingBlock("hm"), "x", by=CHAT)], CHAT, (1, 0)),
    (
        "own_reasoning",
        [Q, answer(ThinkingBlock("hm"), "x", by=CHAT), user("more")],
        Target(CHAT, replay_reasoning="tool_loop"),
        (1, 0),
    ),
    ("ends_on_thinking", [Q, answer("x", SIGNED, by=MESSAGES)], MESSAGES, (1, 1)),
    ("only_thinking", [Q, answer(SIGNED, by=MESSAGES)], MESSAGES, (1, 0)),
    ("foreign_opaque", [Q, answer(SERVER_USE, SERVER_RESULT, "x", by=MESSAGES)], CHAT, (1, 0)),
    ("open_server_use", [Q, answer("x", SERVER_USE, by=MESSAGES, stop=StopReason.ABORTED)], MESSAGES, (1, 1)),
    ("open_server_use", [Q, answer("x", SERVER_USE, by=MESSAGES, stop=StopReason.PAUSE), user("y")], MESSAGES, (1, 1)),
    ("ends_on_thinking", [Q, answer("x", SIGNED, by=MESSAGES, stop=StopReason.PAUSE), user("y")], MESSAGES, (1, 1)),
    ("orphan_server_result", [Q, answer(SERVER_RESULT, "x", by=MESSAGES)], MESSAGES, (1, 0)),
    ("refused", [Q, answer("no", by=MESSAGES, stop=StopReason.REFUSAL)], MESSAGES, (1, 0)),
    ("id_shape", [Q, answer(call("a.b")), user(result("a.b"))], MESSAGES, (1, 0)),
    ("id_shape", [Q, answer(call("x" * 65)), user(result("x" * 65))], CHAT, (1, 0)),
    ("begins_with_answer", [answer("hello")], CHAT, (0, None)),
    ("same_role", [user("a"), user("b")], CHAT, (1, None)),
]


@pytest.mark.parametrize(("rule", "messages", "for_", "where"), BROKEN, ids=[row[0] for row in BROKEN])
def test_problems_names_the_rule_that_a_conversation_breaks(
    rule: str, messages: list[Message], for_: WireIdentity | Target | None, where: tuple[int, int | None]
) -> None:
    found = problems(messages, for_)
    assert (rule, *where) in [(p.rule, p.message, p.block) for p in found]
    assert {p.rule for p in found} <= {rule, "foreign_opaque"}
    assert all(p.what and p.repair for p in found)


def test_every_rule_has_its_broken_conversation() -> None:
    assert {row[0] for row in BROKEN} == set(RULES)


def test_what_only_one_provider_refuses_is_no_problem_of_the_history() -> None:
    history = [Q, answer(SIGNED, "x", by=MESSAGES), user("a"), user("b")]
    assert problems(history) == []
    assert problems(history, MESSAGES) == []
    assert {p.rule for p in problems(history, CHAT)} == {"foreign_reasoning", "same_role"}


def test_what_a_cancellation_leaves_has_no_problems() -> None:
    stopped = ToolResultBlock("b", (TextPart("interrupted by the user"),), is_error=True)
    history = [
        Q,
        answer("let me", call("a"), call("b", ""), by=MESSAGES, stop=StopReason.ABORTED),
        user(result("a"), stopped),
        user("go on"),
        answer("well", by=MESSAGES, stop=StopReason.ABORTED),
    ]
    assert problems(history) == []
    assert problems(history, MESSAGES) == []


def test_a_conversation_reports_by_these_rules() -> None:
    talk = Conversation(messages=[Q, answer(call())])
    assert [problem.rule for problem in talk.problems()] == ["missing_result"]


def flat(sequence: Sequence[tuple[str, Sequence[ContentBlock]]]) -> list[tuple[str, ContentBlock]]:
    return [(role, plain(block)) for role, blocks in sequence for block in blocks]


def plain(block: ContentBlock) -> ContentBlock:
    """What is notation and no repair: a call without arguments, a summary as text."""
    match block:
        case ToolUseBlock() if no_arguments(block.arguments):
            return ToolUseBlock(block.id, block.name, "{}")
        case CompactionSummaryBlock():
            return TextualBlock(SUMMARY_PREFACE + block.text)
        case _:
            return block


def unchanged(messages: list[Message], target: Target) -> bool:
    """Whether the view sends the history as it stands, up to the joining of adjacent messages of one role."""
    viewed = View(target).update(messages)
    stored = [(m.role.value, m.content) for m in messages if m.role is not MessageRole.SYSTEM]
    same_system = list(viewed.system) == effective_system_blocks(messages)
    return same_system and flat([(item.role, item.blocks) for item in viewed.items]) == flat(stored)


@settings(max_examples=600, deadline=None)
@given(
    histories(),
    st.data(),
    st.sampled_from(["drop", "text"]),
    st.sampled_from(["never", "tool_loop", "always"]),
)
def test_the_view_changes_something_exactly_when_there_is_a_problem(
    messages: list[Message], data: st.DataObject, foreign: str, replay: str
) -> None:
    identity = data.draw(identities_for(messages))
    target = Target.of(identity)
    target = Target(
        identity,
        id_max=target.id_max,
        needs_signature=target.needs_signature,
        drop_refused=target.drop_refused,
        foreign_reasoning=foreign,  # type: ignore[arg-type]
        replay_reasoning=replay,  # type: ignore[arg-type]
    )
    found = [p.rule for p in problems(messages, target) if p.rule not in ("same_role", "empty_message")]
    if not found:
        assert unchanged(messages, target)
    elif not any(message.role is MessageRole.SYSTEM for message in messages):
        assert not unchanged(messages, target)


@settings(max_examples=50, deadline=None)
@given(st.data(), st.sampled_from(TARGETS))
def test_what_a_provider_made_in_order_has_no_problems_and_goes_back_as_it_is(
    data: st.DataObject, identity: WireIdentity
) -> None:
    assume(id_shape(identity).longest > 9)  # these histories are not in the shape of Mistral's ids
    messages = data.draw(clean_histories(identity))
    assert problems(messages) == []
    assert problems(messages, identity) == []
    assert unchanged(messages, Target.of(identity))


def test_a_server_tools_result_before_its_call_answers_nothing() -> None:
    found = problems([Q, answer(SERVER_RESULT, SERVER_USE, "x", by=MESSAGES)], MESSAGES)
    assert [(p.rule, p.block) for p in found] == [("orphan_server_result", 0), ("open_server_use", 1)]
