"""Sessions and stores by their protocol: both kinds of store behind one `Session`, looking up who spoke last."""

import asyncio
import os

import pytest
from tests.stores.broken import Asynchronous
from tests.stores.records import IDENTITY, answer, fresh_id, offer, record, texts, user

from panto.config import AnthropicMessagesConfig, OpenAIChatConfig, ReasoningEffort
from panto.conversation import Message, MessageRole, ToolUseBlock
from panto.errors import SessionError, SessionNotFound, StoreError
from panto.session import Session, SessionInfo, SessionStore, match
from panto.stores import FileSystemJSONLStore, MemoryStore, NullStore


def stores(tmp_path):
    return [NullStore(), MemoryStore(), FileSystemJSONLStore(tmp_path, fsync=False)]


def test_every_store_is_a_session_store(tmp_path):
    assert all(isinstance(store, SessionStore) for store in [*stores(tmp_path), Asynchronous()])
    assert [getattr(store, "in_memory", False) for store in stores(tmp_path)] == [True, True, False]


def test_the_record_of_a_session_that_is_gone_is_an_error_that_says_so(tmp_path):
    for store in stores(tmp_path):
        with pytest.raises(SessionNotFound, match="is gone"):
            store.create().load()


def test_a_session_of_an_async_store_is_awaited_and_notes_the_identity_after_the_append():
    async def use():
        store = Asynchronous()
        session = store.create()
        done = session.append([record(user("u")), record(answer("a"))])
        assert session.info.identity is None
        await done
        assert session.info.identity == IDENTITY
        assert texts(await session.load()) == ["u", "a"]
        with pytest.raises(SessionNotFound):
            await store.create().load()

    asyncio.run(use())


def test_an_append_that_failed_leaves_the_identity_as_it_was(tmp_path):
    store = FileSystemJSONLStore(tmp_path, fsync=False)
    session = store.create()
    offer(session, user("u"), answer("a"))
    (tmp_path / f"{session.info.id}.jsonl").unlink()
    other = answer("b", IDENTITY.__class__(IDENTITY.api_style, "https://other", "m-2"))
    with pytest.raises(StoreError):
        session.append([record(other, identity=other.identity)])
    assert session.info.identity == IDENTITY


def test_match_finds_every_alias_that_speaks_with_the_identity_used_last():
    def chat(**more):
        return OpenAIChatConfig(**{"model": "m", "base_url": "https://h/v1", **more})

    candidates = {
        "one": chat(api_key="sk-1"),
        "two": chat(api_key="sk-2", base_url="https://u:p@h/v1/?key=x"),
        "other model": chat(model="n"),
        "other effort": chat(reasoning=ReasoningEffort.HIGH),
        "other host": chat(base_url="https://i/v1"),
        "other wire": AnthropicMessagesConfig(model="m", base_url="https://h/v1"),
    }
    info = SessionInfo(id="x", created="", modified="")
    assert match(candidates, info) == []
    session = Session(info, NullStore())
    session.append([record(answer("a"), identity=chat().wire_identity())])
    session.append([record(answer("a", None), identity=chat().wire_identity())])
    assert match(candidates, info) == ["one", "two"]
    assert match({}, info) == []


def test_dt_02_a_call_without_its_result_loads_as_it_stands_and_the_file_is_left_alone(tmp_path):
    store = FileSystemJSONLStore(tmp_path, fsync=False)
    session = store.create()
    called = Message(MessageRole.ASSISTANT, [ToolUseBlock("c", "run", "{}")], id=fresh_id(), identity=IDENTITY)
    offer(session, user("go"), called)
    path = tmp_path / f"{session.info.id}.jsonl"
    before = path.read_bytes()
    found = FileSystemJSONLStore(tmp_path).load(session.info.id)
    assert found.messages[-1] == called  # the view adds a result when it is sent
    assert found.problems()
    assert path.read_bytes() == before


def test_a_trailing_question_comes_back_like_any_other(tmp_path):
    store = FileSystemJSONLStore(tmp_path, fsync=False)
    session = store.create()
    offer(session, user("u"), answer("a"), user("unanswered"))
    assert texts(FileSystemJSONLStore(tmp_path).latest().load()) == ["u", "a", "unanswered"]


@pytest.mark.parametrize("make", [lambda path: MemoryStore(), lambda path: FileSystemJSONLStore(path, fsync=False)])
def test_a_deleted_session_is_gone_and_no_other(tmp_path, make):
    store = make(tmp_path)
    one, two, held = store.create(), store.create(), store.create()
    for session in (one, two):
        offer(session, user("u"), answer("a"))
    offer(held, user("held back"))
    assert store.delete(one.info.id) is True
    assert store.delete(one.info.id) is False
    assert store.delete(held.info.id) is True
    assert store.load(held.info.id) is None
    assert store.load(one.info.id) is None
    assert [info.id for info in store.list()] == [two.info.id]
    with pytest.raises(SessionError):
        store.delete("../x")


@pytest.mark.parametrize("held_back", [True, False])
def test_a_running_session_that_was_deleted_is_not_made_anew_without_its_beginning(tmp_path, held_back):
    store = FileSystemJSONLStore(tmp_path, fsync=False)
    session = store.create()
    offer(session, user("u"), *([] if held_back else [answer("a")]))
    assert store.delete(session.info.id)
    with pytest.raises(StoreError, match="is gone"):
        offer(session, answer("b"))
    assert list(tmp_path.iterdir()) == []


def test_a_message_that_is_no_json_is_told_by_its_id_and_harms_nothing(tmp_path):
    store = FileSystemJSONLStore(tmp_path, fsync=False)
    session = store.create()
    offer(session, user("u"), answer("a"))
    with pytest.raises(StoreError, match="message bad cannot be written as JSON"):
        session.append([record(Message(MessageRole.USER, [], metadata=object(), id="bad"))])
    assert texts(store.load(session.info.id)) == ["u", "a"]


def test_a_fork_in_the_middle_of_an_append_leaves_the_child_a_store_that_works(tmp_path):
    store = FileSystemJSONLStore(tmp_path, fsync=False)
    session = store.create()
    offer(session, user("u"), answer("a"))
    with store._state(session.info.id).lock, store._lock:  # as another thread of the parent would hold them
        child = os.fork()
        if child == 0:
            try:
                said = user("from the child")
                said.id = "another than the parent's"
                store.append_messages(session.info.id, [record(said)])
                os._exit(0)
            finally:
                os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    offer(session, user("from the parent"))
    assert texts(FileSystemJSONLStore(tmp_path).load(session.info.id))[2:] == ["from the child", "from the parent"]
