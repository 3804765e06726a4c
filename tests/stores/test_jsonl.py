"""FileSystemJSONLStore: the format, and what comes back of it."""

import json
import os
import re
import threading

import msgspec
import pytest
from tests.stores.records import IDENTITY, answer, fresh_id, offer, record, summary, system, texts, user

from panto.config import APIStyle, StopReason, WireIdentity
from panto.conversation import (
    Conversation,
    MediaBlock,
    Message,
    MessageRole,
    OpaqueBlock,
    StoredMediaPart,
    SystemMode,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    effective_system_blocks,
)
from panto.errors import SessionBusy, StoreError
from panto.session import PersistentMessage, replay_compaction
from panto.stores import FileSystemJSONLStore, _jsonl_file, _lock
from panto.usage import Usage


@pytest.fixture
def store(tmp_path):
    return FileSystemJSONLStore(tmp_path / "sessions", fsync=False)


def reopened(store):
    return FileSystemJSONLStore(store.directory, fsync=False)


def lines_of(store, id):
    return [json.loads(line) for line in (store.directory / f"{id}.jsonl").read_bytes().splitlines()]


def test_the_file_is_a_header_then_entries_and_each_entry_ends_with_its_tail(store):
    session = store.create()
    talk = Conversation(metadata='{"pointer": 7}')
    offer(session, system("Be brief."), user("Hello\n there"), answer("Hi"), talk=talk)
    header, *entries = lines_of(store, session.info.id)
    assert header == {
        "type": "session",
        "version": 1,
        "id": session.info.id,
        "created": header["created"],
        "metadata": '{"pointer": 7}',
    }
    stamp = {
        "api_style": "anthropic_messages",
        "base_url": "https://api.example.com",
        "model": "m-1",
        "reasoning": "high",
    }
    assert [entry["wire"] for entry in entries] == [None, stamp, stamp]
    assert [entry["type"] for entry in entries] == ["message"] * 3
    assert [list(entry)[-1] for entry in entries] == ["tail"] * 3
    assert entries[2]["usage"] == {"input_tokens": 10, "output_tokens": 5}
    assert entries[2]["message"] == {
        "role": "assistant",
        "content": [{"kind": "text", "text": "Hi"}],
        "stop_reason": "stop",
    }
    assert entries[2]["tail"] == {"count": 3, "time": entries[2]["time"], "stamp": stamp, "last_user": "Hello there"}
    assert entries[0]["tail"]["stamp"] is None
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", entry["time"]) for entry in entries)


BLOCKS = [
    TextualBlock('🦊 č 日本 \u2028\x00\x1f"\\,"tail":{'),
    MediaBlock("image/png", "iVBORw0KGgo="),
    ThinkingBlock("hm", signature="c2ln"),
    ThinkingBlock(redacted="cmVk"),
    ToolUseBlock("call_0", "weird name ☃", '{"a" : 1'),
    ToolResultBlock(
        "call_0", (TextPart("x"), StoredMediaPart("image/png", "aaaa")), True, {"a": [1, 2.5, None, {"b": True}]}
    ),
    OpaqueBlock("server_tool_use", '{"type" :"server_tool_use","z":1,"a":2.50}'),
]
OTHER = WireIdentity(APIStyle.OPENAI_CHAT, "http://h/v1", "x")
MESSAGES = {
    "every kind of block": Message(MessageRole.USER, BLOCKS, metadata=' {"b":1,\n "a":1.0}', id="m-1"),
    "no id": Message(MessageRole.USER, [TextualBlock("x")]),
    "nothing in it": Message(MessageRole.ASSISTANT, [], id="m-2", identity=IDENTITY),
    "an answer of nobody": Message(MessageRole.ASSISTANT, [TextualBlock("x")], id="m-3"),
    "an answer of somebody else": Message(MessageRole.ASSISTANT, [TextualBlock("x")], id="m-4", identity=OTHER),
    "a question with an identity": Message(MessageRole.USER, [TextualBlock("x")], id="m-5", identity=OTHER),
    "usage that the record does not have": Message(
        MessageRole.ASSISTANT, [], id="m", identity=IDENTITY, usage=Usage(1)
    ),
    "all fields": Message(
        MessageRole.ASSISTANT,
        BLOCKS,
        "not { json",
        "m-6",
        IDENTITY,
        Usage(1, 2, 3, 4, 5, 6),
        StopReason.PAUSE,
        "pause_turn",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_comes_back_as_it_was(store, name):
    session = store.create()
    message = MESSAGES[name]
    session.append([PersistentMessage(message, None, IDENTITY, Conversation())])
    offer(session, answer("done"))
    assert reopened(store).load(session.info.id).messages[0] == message


@pytest.mark.parametrize("metadata", [None, "", "{}", ' {"a": 1.0 ,"a":2}\n', "not json \udce9 {", "\x00é🦊"])
def test_both_bags_come_back_byte_for_byte(store, metadata):
    session = store.create()
    offer(session, user("x", metadata=metadata), answer("y", metadata=metadata), talk=Conversation(metadata))
    found = reopened(store).load(session.info.id)
    assert found.metadata == metadata
    assert [message.metadata for message in found.messages] == [metadata] * 2


def test_the_header_takes_the_bag_of_the_first_append_and_keeps_it(store):
    session = store.create()
    talk = Conversation("first")
    offer(session, user("x"), talk=talk)
    talk.metadata = "second"
    offer(session, answer("y"), talk=talk)
    offer(session, user("z"), talk=talk)
    assert reopened(store).load(session.info.id).metadata == "first"


def test_lone_surrogates_are_stored_and_come_back_as_they_were(store):
    session = store.create()
    poisoned = Message(
        MessageRole.USER,
        [ToolResultBlock("c", (TextPart("caf\udce9 é 🦊"),), details={"\ud83d": "\udc00"}), TextualBlock("\ud83d")],
        id="p",
    )
    offer(session, poisoned, answer("ok \udfff"))
    found = reopened(store).load(session.info.id)
    assert found.messages[0] == poisoned
    assert found.messages[1].text == "ok \udfff"
    assert store.list()[0].last_user_message == "\ufffd"
    raw = (store.directory / f"{session.info.id}.jsonl").read_bytes()
    raw.decode("utf-8")
    assert b"caf\\udce9" in raw


def test_details_that_are_no_json_cost_the_details_and_not_the_session(store, caplog):
    session = store.create()
    bad = Message(MessageRole.USER, [ToolResultBlock("c", (TextPart("x"),), details={(1, 2): object()})], id="b")
    offer(session, bad, answer("ok"))
    found = reopened(store).load(session.info.id)
    assert found.messages[0].content == [ToolResultBlock("c", (TextPart("x"),))]
    assert len(found.messages) == 2
    assert ["details" in line.message for line in caplog.records] == [True]


def test_what_goes_in_is_encoded_at_once(store):
    session = store.create()
    said = user("before")
    offer(session, said)
    said.content[0] = TextualBlock("after")
    offer(session, answer("y"))
    assert texts(reopened(store).load(session.info.id)) == ["before", "y"]


def test_a_compaction_is_an_entry_and_replays_to_system_entries_summary_and_kept_tail(store):
    session = store.create()
    history = [system("S1"), user("u1"), answer("a1"), system("S2", SystemMode.REPLACE), user("u2"), answer("a2")]
    offer(session, *history)
    left = summary("what was", 3)
    offer(session, left)
    offer(session, user("u3"), answer("a3"))
    found = reopened(store).load(session.info.id)
    assert texts(found) == ["S1", "S2", "what was", "a2", "u3", "a3"]
    assert [block.text for block in effective_system_blocks(found.messages)] == ["S2"]
    assert found.messages[2] == left
    assert [entry["type"] for entry in lines_of(store, session.info.id)].count("compaction") == 1
    assert len(lines_of(store, session.info.id)) == 10  # the log keeps the originals
    assert store.list()[0].message_count == 8


def test_a_second_compaction_counts_from_the_conversation_as_the_first_left_it(store):
    session = store.create()
    offer(session, system("S"), user("u1"), answer("a1"), user("u2"), answer("a2"), summary("one", 2), user("u3"))
    offer(session, summary("two", 2))
    assert texts(reopened(store).load(session.info.id)) == ["S", "two", "a2", "u3"]


def test_a_summary_that_replaces_nothing_is_a_message_like_any_other(store):
    session = store.create()
    offer(session, user("u1"), answer("a1"), summary("by hand", 0), user("u2"))
    assert texts(reopened(store).load(session.info.id)) == ["u1", "a1", "by hand", "u2"]


def test_a_summary_of_more_than_there_is_replaces_all():
    assert replay_compaction(["S", "a"], "sum", 9, lambda text: text == "S") == ["S", "sum"]


def test_the_messages_that_a_compaction_replaced_are_not_looked_into(store, caplog):
    session = store.create()
    offer(session, user("u1"), answer("a1"), answer("a2"))
    path = store.directory / f"{session.info.id}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"a1"}', b'"a1","kind":3}'))  # would be a block that cannot be read
    reopened(store).load(session.info.id)
    assert caplog.records
    caplog.clear()
    again = reopened(store)
    offer(again.resolve(session.info.id), summary("sum", 2))
    assert texts(reopened(store).load(session.info.id)) == ["sum", "a2"]
    assert not caplog.records


def test_unknown_fields_and_entry_types_are_kept_out_of_the_way_and_stay_in_the_file(store, caplog):
    session = store.create()
    offer(session, user("u1"), answer("a1"))
    path = store.directory / f"{session.info.id}.jsonl"
    foreign = b'{"type":"weather","message":3,"tail":{"count":2,"time":"2999-01-01T00:00:00.000000Z"}}\n'
    lines = path.read_bytes().replace(b'"type":"message",', b'"type":"message","mood":{"a":[1]},').splitlines(True)
    path.write_bytes(lines[0] + foreign + b"".join(lines[1:]))
    before = path.read_bytes()
    other = reopened(store)
    resumed = other.resolve(session.info.id)
    assert texts(resumed.load()) == ["u1", "a1"]
    offer(resumed, user("u2"))
    assert path.read_bytes().startswith(before)
    assert texts(reopened(store).load(session.info.id)) == ["u1", "a1", "u2"]
    assert not caplog.records


def test_blocks_efforts_and_reasons_of_a_later_version_do_not_hide_the_message(store, caplog):
    session = store.create()
    offer(session, user("u1"), answer("a1"))
    path = store.directory / f"{session.info.id}.jsonl"
    data = path.read_bytes().replace(b'"high"', b'"ultra"').replace(b'"stop"', b'"enlightened"')
    path.write_bytes(
        data.replace(b'{"kind":"text","text":"a1"}', b'{"kind":"smell","x":1},{"kind":"text","text":"a1"}')
    )
    found = reopened(store).load(session.info.id)
    assert texts(found) == ["u1", "a1"]
    assert found.messages[1].stop_reason is StopReason.UNKNOWN
    assert found.messages[1].identity.model == "m-1"
    assert ["smell" in line.getMessage() for line in caplog.records] == [True]
    assert store.list()[0].model == "m-1"


def test_a_file_of_a_later_format_is_listed_and_neither_loaded_nor_written_to(store):
    session = store.create()
    offer(session, user("u1"), answer("a1"))
    path = store.directory / f"{session.info.id}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2'))
    before = path.read_bytes()
    again = reopened(store)
    assert [info.id for info in again.list()] == [session.info.id]
    with pytest.raises(StoreError, match="format 2"):
        again.load(session.info.id)
    with pytest.raises(StoreError, match="format 2"):
        again.append_messages(session.info.id, [record(user("x"))])
    assert path.read_bytes() == before


def test_an_id_that_is_there_already_is_not_kept_twice(store):
    session = store.create()
    first, second = user("u1"), answer("a1")
    offer(session, first)
    offer(session, first, second, second)
    offer(session, second)
    assert len(lines_of(store, session.info.id)) == 3
    again = reopened(store)
    again.load(session.info.id)
    again.append_messages(session.info.id, [record(first)])
    assert texts(reopened(store).load(session.info.id)) == ["u1", "a1"]


def test_messages_without_ids_are_all_kept_and_come_back_without(store):
    session = store.create()
    for _ in range(3):
        offer(session, Message(MessageRole.USER, [TextualBlock("same")]))
    offer(session, answer("a"))
    found = reopened(store).load(session.info.id).messages
    assert [message.id for message in found[:3]] == [None] * 3


def test_a_resumed_session_goes_on_counting(store):
    session = store.create()
    offer(session, system("S"), user("u1"), answer("a1"))
    resumed = reopened(store).resolve(session.info.id)
    assert (resumed.info.message_count, resumed.info.last_user_message) == (3, "u1")
    offer(resumed, user("u2"), answer("a2"))
    offer(session, user("u3"))  # the first process again, which did not see the second write
    info = reopened(store).latest().info
    assert (info.message_count, info.last_user_message, info.identity) == (6, "u3", IDENTITY)


def test_results_of_tools_and_summaries_are_not_what_the_user_said_last(store):
    session = store.create()
    results = Message(MessageRole.USER, [ToolResultBlock("c", (TextPart("result"),))], id=fresh_id())
    offer(session, user("  the\tquestion  "), answer("a"), results, answer("b"), summary("sum", 2))
    assert store.list()[0].last_user_message == "the question"


def test_the_last_words_are_cut_to_200_characters(store):
    session = store.create()
    offer(session, user("🦊" * 5000), answer("a"))
    assert store.list()[0].last_user_message == "🦊" * 200


def test_create_touches_nothing_and_loading_it_is_none(store):
    session = store.create()
    assert not store.directory.exists()
    assert store.load(session.info.id) is None
    assert store.list() == []
    assert store.latest() is None
    assert not store.directory.exists()


def test_messages_held_back_are_acknowledged_and_load_in_the_same_process(store):
    session = store.create()
    offer(session, system("S"), user("u"), talk=Conversation("bag"))
    assert not store.directory.exists()
    found = store.load(session.info.id)
    assert texts(found) == ["S", "u"]
    assert found.metadata == "bag"


def test_the_session_notes_the_identity_used_last(store):
    session = store.create()
    offer(session, user("u"), answer("a", OTHER))
    assert session.info.identity == OTHER
    session.append([PersistentMessage(system("S"), None, None, Conversation())])
    assert session.info.identity == OTHER


def test_ids_are_version_seven_and_sort_by_age(store):
    ids = [store.create().info.id for _ in range(50)]
    assert len(set(ids)) == 50
    assert all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", id) for id in ids)
    assert [id[:13] for id in ids] == sorted(id[:13] for id in ids)


def test_an_append_is_one_write_and_one_wait_for_the_disk(tmp_path, monkeypatch):
    calls = []
    real_write, real_sync = _jsonl_file.write, _jsonl_file.sync
    monkeypatch.setattr(_jsonl_file, "write", lambda fd, data: calls.append("write") or real_write(fd, data))
    monkeypatch.setattr(_jsonl_file, "sync", lambda fd: calls.append("sync") or real_sync(fd))
    store = FileSystemJSONLStore(tmp_path)
    session = store.create()
    offer(session, user("u"), answer("a"))
    assert calls == ["write", "sync", "sync"]  # the file, and the directory that has a new name in it
    calls.clear()
    offer(session, user("u"), answer("a"), user("u"))
    assert calls == ["write", "sync"]
    calls.clear()
    offer(FileSystemJSONLStore(tmp_path, fsync=False).resolve(session.info.id), user("u"))
    assert calls == ["write"]


def test_an_empty_append_does_nothing(store):
    store.append_messages(store.create().info.id, [])
    assert not store.directory.exists()


def test_a_session_may_be_used_by_many_threads(store):
    session = store.create()
    offer(session, user("u"), answer("a"))
    other = reopened(store)

    def work(store):
        for _ in range(50):
            store.append_messages(session.info.id, [record(user("x"))])

    threads = [threading.Thread(target=work, args=(each,)) for each in (store, store, other, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reopened(store).load(session.info.id).messages) == 202
    assert reopened(store).list()[0].message_count == 202


def test_the_busy_lock_is_waited_for_in_bounded_time(store):
    session = store.create()
    offer(session, user("u"), answer("a"))
    path = store.directory / f"{session.info.id}.jsonl"
    hasty = FileSystemJSONLStore(store.directory, lock_timeout=0.05)
    fd = os.open(path, os.O_RDWR)
    try:
        with _lock.exclusive(fd, path, 1), pytest.raises(SessionBusy, match=r"another process.*0\.05 s"):
            hasty.append_messages(session.info.id, [record(user("x"))])
    finally:
        os.close(fd)
    hasty.append_messages(session.info.id, [record(user("x"))])
    assert texts(store.load(session.info.id)) == ["u", "a", "x"]


def test_drafts_that_a_killed_process_left_are_removed_after_an_hour(store):
    offer(store.create(), answer("a"))
    old, new = store.directory / "x.1-ab.new", store.directory / "x.2-ab.new"
    old.touch()
    new.touch()
    os.utime(old, (1, 1))
    again = reopened(store)
    offer(again.create(), answer("a"))
    assert not old.exists()
    assert new.exists()
    assert len(again.list()) == 2


def test_the_store_forgets_sessions_but_none_with_messages_held_back(store):
    waiting = store.create()
    offer(waiting, user("first"))
    for _ in range(1200):
        store._state(store.create().info.id)
    assert len(store._states) <= 1025
    offer(waiting, answer("late"))
    assert texts(store.load(waiting.info.id)) == ["first", "late"]


def test_a_record_type_has_no_place_for_a_key():
    assert "key" not in " ".join(
        field.name for type in (PersistentMessage, Message, WireIdentity) for field in msgspec.structs.fields(type)
    )
