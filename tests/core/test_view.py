"""The view: any history, fit for any provider, and the history itself untouched."""

from __future__ import annotations

from panto._core.repair import BEGINNING, INTERRUPTED, OUTCOME_UNKNOWN, clean_arguments
from panto._core.view import View, Viewed
from panto._wire.surrogates import well_formed
from panto.config import APIStyle, StopReason, WireIdentity
from panto.conversation import (
    CompactionSummaryBlock,
    ContentBlock,
    Conversation,
    Message,
    MessageRole,
    OpaqueBlock,
    SystemBlock,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from panto.rules import Target

CHAT = WireIdentity(APIStyle.OPENAI_CHAT, "https://chat.example/v1", "m")
MESSAGES = WireIdentity(APIStyle.ANTHROPIC_MESSAGES, "https://messages.example", "m")
SIGNED = ThinkingBlock("so I think", "c2ln")


def user(*blocks: ContentBlock | str) -> Message:
    return Message(MessageRole.USER, [TextualBlock(b) if isinstance(b, str) else b for b in blocks])


def answer(
    *blocks: ContentBlock | str, by: WireIdentity | None = None, stop: StopReason | None = StopReason.STOP
) -> Message:
    content: list[ContentBlock] = [TextualBlock(b) if isinstance(b, str) else b for b in blocks]
    return Message(MessageRole.ASSISTANT, content, identity=by, stop_reason=stop)


def call(id: str, arguments: str = "{}") -> ToolUseBlock:
    return ToolUseBlock(id, "f", arguments)


def result(id: str, text: str = "done") -> ToolResultBlock:
    return ToolResultBlock(id, (TextPart(text),))


def view(*messages: Message, target: Target | None = None) -> Viewed:
    return View(target or Target.of(CHAT)).update(list(messages))


def sent(*messages: Message, target: Target | None = None) -> list[tuple[str, list[ContentBlock]]]:
    return [(item.role, list(item.blocks)) for item in view(*messages, target=target).items]


# ------------------------------------------------------------------ pairing


def test_a_call_without_a_result_gets_one_that_does_not_claim_it_was_not_run() -> None:
    (_, _, (role, blocks)) = sent(user("go"), answer(call("a"), call("b")), user(result("a"), "go on"))
    assert role == "user"
    assert blocks[0] == result("a")
    assert blocks[1] == ToolResultBlock("b", (TextPart(OUTCOME_UNKNOWN),), is_error=True)
    assert blocks[2] == TextualBlock("go on")


def test_a_history_that_ends_with_calls_can_be_sent() -> None:
    assert [role for role, _ in sent(user("go"), answer(call("a")))] == ["user", "assistant", "user"]


def test_results_stand_in_call_order_right_after_their_calls_wherever_they_are_stored() -> None:
    calls = answer(*(call(n) for n in "12345"))
    items = sent(
        user("go"), calls, user(*(result(n, n) for n in "31")), user("wait"), user(*(result(n, n) for n in "524"))
    )
    assert items[2] == ("user", [*(result(n, n) for n in "12345"), TextualBlock("wait")])


def test_a_result_that_comes_after_the_next_answer_still_goes_to_its_call() -> None:
    items = sent(user("go"), answer(call("a")), user("well?"), answer("hm"), user(result("a")))
    assert items == [
        ("user", [TextualBlock("go")]),
        ("assistant", [call("a")]),
        ("user", [result("a"), TextualBlock("well?")]),
        ("assistant", [TextualBlock("hm")]),
    ]


def test_results_without_calls_and_second_results_are_dropped() -> None:
    items = sent(user("go", result("ghost")), answer(call("a")), user(result("a", "1"), result("a", "2"), "on"))
    assert items == [
        ("user", [TextualBlock("go")]),
        ("assistant", [call("a")]),
        ("user", [result("a", "1"), TextualBlock("on")]),
    ]


def test_repeated_ids_are_told_apart_and_each_result_goes_to_its_own_call() -> None:
    turn = [answer(call("call_0")), user(result("call_0", "first"))]
    again = [answer(call("call_0")), user(result("call_0", "second"))]
    items = sent(user("go"), *turn, *again)
    assert items[1] == ("assistant", [call("call_0")])
    assert items[2] == ("user", [result("call_0", "first")])
    (second,) = items[3][1]
    assert isinstance(second, ToolUseBlock)
    assert second.id != "call_0"
    assert items[4] == ("user", [result(second.id, "second")])


def test_a_legal_id_keeps_itself_also_when_an_earlier_one_was_encoded_to_it() -> None:
    first = sent(user("go"), answer(call("a b")))[1][1][0]
    assert isinstance(first, ToolUseBlock)
    growing = View(Target.of(CHAT))
    history = [user("go"), answer(call("a b")), user(result("a b"))]
    growing.update(history)
    history += [answer(call(first.id)), user(result(first.id))]
    items = growing.update(history).items
    ids = [b.id for item in items for b in item.blocks if isinstance(b, ToolUseBlock)]
    assert ids[1] == first.id
    assert ids[0] != first.id


def test_ids_take_the_shape_that_the_target_wants() -> None:
    target = Target(CHAT, id_pattern="[a-zA-Z0-9]{9}", id_max=9)
    items = sent(user("go"), answer(call("call_0")), user(result("call_0")), target=target)
    (block,) = items[1][1]
    assert isinstance(block, ToolUseBlock)
    assert len(block.id) == 9
    assert block.id.isalnum()
    assert items[2][1] == [result(block.id)]


# --------------------------------------------------------- empty and odd things


def test_blank_text_is_dropped_and_an_answer_with_nothing_left_lets_its_neighbours_join() -> None:
    items = sent(user("a", " \n"), answer("", " "), user("b"))
    assert items == [("user", [TextualBlock("a"), TextualBlock("b")])]


def test_an_answer_at_the_very_start_gets_a_question_before_it() -> None:
    assert sent(answer("hello"))[0] == ("user", [BEGINNING])


def test_lone_surrogates_become_replacement_characters_and_pairs_are_joined() -> None:
    assert well_formed("caf\udce9 \ud83d\ude00 \ud83d") == "caf\ufffd \U0001f600 \ufffd"
    assert (
        clean_arguments('{"a\\ud83d": "\\\\ud83d \\ud83d\\ude00 \ud83d"}')
        == '{"a\\ufffd": "\\\\ud83d \\ud83d\\ude00 \ufffd"}'
    )


def test_arguments_that_are_no_object_are_sent_as_an_empty_one() -> None:
    for bad in ("[1]", '{"a":', '"x"', '{"a": NaN}', "{}{}", "1", "[" * 100_000):
        assert clean_arguments(bad) == "{}"
    for none in ("", " ", "null", " null\n"):
        assert clean_arguments(none) == "{}"
    for good in ('{"a": 1}', '{"a": 1, "a": 2}', '{"n": ' + "9" * 5000 + "}", '{"n": 1e999}'):
        assert clean_arguments(good) is good


def test_system_messages_are_replayed_and_never_become_messages() -> None:
    seen = view(
        Message(MessageRole.SYSTEM, [SystemBlock("old")]),
        user("a"),
        system("new", replace=True),
        system(" "),
        system("more"),
        user("b"),
    )
    assert [block.text for block in seen.system] == ["new", "more"]
    assert [(i.role, len(i.blocks)) for i in seen.items] == [("user", 2)]


def system(text: str, replace: bool = False) -> Message:
    talk = Conversation()
    (talk.replace_system_message if replace else talk.add_system_message)(text)
    return talk.messages[0]


def test_a_summary_goes_as_words_of_the_user() -> None:
    ((role, (block,)),) = sent(user(CompactionSummaryBlock("we did things")))
    assert role == "user"
    assert isinstance(block, TextualBlock)
    assert block.text.endswith("we did things")


# ---------------------------------------------------------------- reasoning


def test_signed_thinking_goes_home_byte_for_byte_and_nowhere_else() -> None:
    redacted = ThinkingBlock(redacted="ZZ")
    empty = ThinkingBlock("", "c2ln")
    said = answer(redacted, SIGNED, empty, TextualBlock("x"), call("a"), by=MESSAGES)
    home = sent(user("go"), said, target=Target.of(MESSAGES))
    assert all(a is b for a, b in zip(home[1][1], said.content, strict=True))
    other_host = WireIdentity(APIStyle.ANTHROPIC_MESSAGES, "https://other.example", "m")
    for away in (Target.of(CHAT), Target.of(other_host)):
        assert sent(user("go"), said, target=away)[1][1] == [TextualBlock("x"), call("a")]


def test_foreign_reasoning_is_sent_as_text_where_the_config_says_so() -> None:
    target = Target(CHAT, foreign_reasoning="text")
    said = answer(SIGNED, ThinkingBlock(redacted="ZZ"), "x", by=MESSAGES)
    assert sent(user("go"), said, target=target)[1][1] == [
        TextualBlock("<thinking>\nso I think\n</thinking>"),
        TextualBlock("x"),
    ]


def test_unsigned_thinking_is_not_sent_where_a_signature_is_needed() -> None:
    said = answer(ThinkingBlock("cut"), "x", by=MESSAGES)
    assert sent(user("go"), said, target=Target.of(MESSAGES))[1][1] == [TextualBlock("x")]


def test_thinking_with_nothing_after_it_is_left_out_for_messages_unless_the_provider_paused() -> None:
    target = Target.of(MESSAGES)
    assert len(sent(user("go"), answer(SIGNED, by=MESSAGES), user("on"), target=target)) == 1
    assert sent(user("go"), answer("x", SIGNED, by=MESSAGES), target=target)[1][1] == [TextualBlock("x")]
    paused = answer("x", SIGNED, by=MESSAGES, stop=StopReason.PAUSE)
    assert sent(user("go"), paused, target=target)[1][1] == [TextualBlock("x"), SIGNED]


def test_unsigned_reasoning_goes_back_inside_the_tool_loop_only_where_the_host_wants_that() -> None:
    target = Target(CHAT, replay_reasoning="tool_loop")
    thought = ThinkingBlock("hm")
    history = [user("go"), answer(thought, call("a"), by=CHAT), user(result("a"))]
    growing = View(target)
    assert growing.update(history).items[1].blocks == (thought, call("a"))
    history += [answer(thought, "x", by=CHAT), user("next")]
    items = growing.update(history).items
    assert items[1].blocks == (call("a"),)
    assert items[3].blocks == (TextualBlock("x"),)
    assert growing.work == 5


def test_opaque_blocks_go_home_only() -> None:
    block = OpaqueBlock("search", '{"type":"search","x":1}')
    said = answer(block, "x", by=MESSAGES)
    assert sent(user("go"), said, target=Target.of(MESSAGES))[1][1] == [block, TextualBlock("x")]
    assert sent(user("go"), said, target=Target.of(CHAT))[1][1] == [TextualBlock("x")]


def test_a_server_tools_call_cut_before_its_result_is_left_out_unless_the_provider_paused() -> None:
    use = OpaqueBlock("server_tool_use", '{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}')
    found = OpaqueBlock("web_search_tool_result", '{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}')
    target = Target.of(MESSAGES)
    whole = answer(use, found, "x", by=MESSAGES)
    assert sent(user("go"), whole, target=target)[1][1] == whole.content
    cut = answer("x", use, by=MESSAGES, stop=StopReason.ABORTED)
    assert sent(user("go"), cut, target=target)[1][1] == [TextualBlock("x")]
    paused = answer("x", use, by=MESSAGES, stop=StopReason.PAUSE)
    assert sent(user("go"), paused, answer(found, "y", by=MESSAGES), target=target)[1][1] == [
        TextualBlock("x"),
        use,
        found,
        TextualBlock("y"),
    ]
    assert sent(user("go"), answer(found, "y", by=MESSAGES), target=target)[1][1] == [TextualBlock("y")]


def test_what_only_a_paused_answer_may_hold_is_left_out_once_the_user_speaks_again() -> None:
    use = OpaqueBlock("server_tool_use", '{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}')
    growing = View(Target.of(MESSAGES))
    history = [user("go"), answer("x", SIGNED, use, by=MESSAGES, stop=StopReason.PAUSE)]
    assert growing.update(history).items[1].blocks == (TextualBlock("x"), SIGNED, use)
    history.append(user("stop that"))
    assert growing.update(history).items[1].blocks == (TextualBlock("x"),)
    only = [user("go"), answer(SIGNED, use, by=MESSAGES, stop=StopReason.PAUSE), user("stop that")]
    assert sent(*only, target=Target.of(MESSAGES))[1] == ("assistant", [INTERRUPTED])


def test_a_refused_answer_is_left_out_where_the_vendor_asks_for_it() -> None:
    history = [user("go"), answer("no", by=MESSAGES, stop=StopReason.REFUSAL), user("please")]
    assert len(sent(*history, target=Target.of(MESSAGES))) == 1
    assert len(sent(*history, target=Target.of(CHAT))) == 3


# -------------------------------------------------------------- incremental


def test_what_did_not_change_stays_the_very_same_object() -> None:
    growing = View(Target.of(CHAT))
    history = [user("a"), answer("b"), user("c")]
    before = growing.update(history).items
    history += [answer(call("x")), user(result("x")), user("d")]
    after = growing.update(history).items
    assert all(a is b for a, b in zip(before, after))
    history.append(user("e"))
    assert growing.update(history).items[:4] == after[:4]
    assert growing.update(history).items[4] is not after[4]


def test_surgery_is_seen_and_what_it_did_not_touch_is_kept() -> None:
    growing = View(Target.of(CHAT))
    history = [user("a"), answer("b"), user("c"), answer("d"), user("e")]
    before = growing.update(history).items
    history[2].content[0] = TextualBlock("C")
    after = growing.update(history).items
    assert after[2].blocks == (TextualBlock("C"),)
    assert [a is b for a, b in zip(before, after)] == [True, True, False, True, True]
    del history[1:3]
    assert [len(i.blocks) for i in growing.update(history).items] == [1, 1, 1]
