"""Properties of session files: any message comes back, any damage costs the damaged lines and nothing else."""

import logging
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stores.records import IDENTITY, record

from panto.config import APIStyle, ReasoningEffort, StopReason, WireIdentity
from panto.conversation import (
    Conversation,
    MediaBlock,
    Message,
    MessageRole,
    OpaqueBlock,
    StoredMediaPart,
    SystemBlock,
    SystemMode,
    TextPart,
    TextualBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from panto.session import PersistentMessage, replay_compaction
from panto.stores import FileSystemJSONLStore
from panto.stores._jsonl_entry import read_tail
from panto.usage import Usage

text = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)  # lone surrogates too
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
identity = st.builds(
    WireIdentity, st.sampled_from(APIStyle), st.text(max_size=9), st.text(max_size=9), st.sampled_from(ReasoningEffort)
)
maybe_text = st.none() | text
number = st.none() | st.integers(0, 2**63)
usage = st.builds(Usage, number, number, number, number, number, number)
parts = st.lists(st.builds(TextPart, text) | st.builds(StoredMediaPart, text, text), max_size=3)
block = st.one_of(
    st.builds(TextualBlock, text),
    st.builds(MediaBlock, text, text),
    st.builds(ThinkingBlock, text, maybe_text, maybe_text),
    st.builds(ToolUseBlock, text, text, text),
    st.builds(ToolResultBlock, text, parts.map(tuple), st.booleans(), json_value),
    st.builds(OpaqueBlock, text, text),
    st.builds(SystemBlock, text, st.sampled_from(SystemMode)),
)
message = st.builds(
    Message,
    st.sampled_from(MessageRole),
    st.lists(block, max_size=4),
    maybe_text,
    st.none(),
    st.none() | identity,
    st.none() | usage,
    st.none() | st.sampled_from(StopReason),
    maybe_text,
)
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(autouse=True)
def silence():
    logging.getLogger("panto").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("panto").setLevel(logging.NOTSET)


@quick
@given(st.lists(st.tuples(message, st.none() | usage, st.none() | identity), max_size=5), maybe_text)
def test_any_message_under_any_record_comes_back_as_it_was(messages, bag):
    with tempfile.TemporaryDirectory() as directory:
        store = FileSystemJSONLStore(directory, fsync=False)
        session = store.create()
        talk = Conversation(bag)
        ready = Message(MessageRole.ASSISTANT, [], id="answer")
        for at, (each, _, _) in enumerate(messages):
            each.id = f"id-{at}" if at % 2 else None
        offered = [PersistentMessage(each, used, stamp, talk) for each, used, stamp in messages]
        session.append([*offered, PersistentMessage(ready, None, None, talk)])
        again = FileSystemJSONLStore(directory)
        found = again.load(session.info.id)
        assert found.messages == [*(each for each, _, _ in messages), ready]
        assert found.metadata == bag
        [info] = again.list()
        assert info.message_count == len(messages) + 1


JUNK = [
    *(b"", b"\r", b"null", b"[]", b"{}", b'{"type":7}', b'{"type":"x","tail":{"count":9}}', b"\xff\xfe"),
    *(b'{"type":"message"}', b'{"type":"message","message":{"role":"user"}}', b"[" * 3000, b"\x00" * 99),
    b'{"type":"compaction","message":{"role":"user","content":"x"}}',
    b'{"type":"message","id":1e999}',
]
junk = st.binary(max_size=40) | st.sampled_from(JUNK)
damage = st.one_of(
    st.tuples(st.just("insert"), st.integers(0, 20), junk),
    st.tuples(st.just("flip"), st.integers(0, 20), st.integers(0, 10**6)),
    st.tuples(st.just("cut"), st.integers(0, 20), st.integers(0, 10**6)),
    st.tuples(st.just("repeat"), st.integers(0, 20), st.none()),
    st.tuples(st.just("crlf"), st.integers(0, 20), st.none()),
)


@quick
@given(st.integers(1, 8), st.lists(damage, max_size=5), st.binary(max_size=30), st.randoms(use_true_random=False))
def test_any_damage_costs_the_damaged_lines_alone(count, damages, torn, chance):
    with tempfile.TemporaryDirectory() as directory:
        store = FileSystemJSONLStore(directory, fsync=False)
        session = store.create()
        ids = [sha256(b"%d" % n).hexdigest()[:16] for n in range(count + 1)]  # no flip makes one of another
        session.append(
            [
                record(Message(MessageRole.ASSISTANT, [TextualBlock("é🦊\n")], id=id, identity=IDENTITY))
                for id in ids[:-1]
            ]
        )
        path = Path(directory) / f"{session.info.id}.jsonl"
        header, *lines = path.read_bytes().splitlines()
        body = [(line, id) for line, id in zip(lines, ids)]
        for what, at, how in damages:
            at %= len(body) or 1
            if not body and what != "insert":
                continue
            line, id = body[at] if body else (b"", None)
            match what:
                case "insert":
                    body.insert(at, (how, None))
                case "flip":
                    if line:
                        how %= len(line)
                        body[at] = (line[:how] + bytes([line[how] ^ 1 << chance.randrange(8)]) + line[how + 1 :], None)
                case "cut":
                    body[at] = (line[: how % (len(line) or 1)], None)
                case "repeat":
                    body.insert(at, (line, id))
                case "crlf":
                    body[at] = (line + b"\r", id)
        path.write_bytes(b"\n".join([header, *(line for line, _ in body), torn]))
        before = path.read_bytes()
        whole = list(dict.fromkeys(id for _, id in body if id))
        again = FileSystemJSONLStore(directory, fsync=False)
        assert [info.id for info in again.list()] == [session.info.id]
        found = [each.id for each in again.load(session.info.id).messages]
        assert [id for id in found if id in whole] == whole
        again.resolve(session.info.id).append([record(Message(MessageRole.USER, [TextualBlock("on")], id=ids[-1]))])
        assert path.read_bytes().startswith(before)
        last = FileSystemJSONLStore(directory).load(session.info.id).messages
        assert [each.id for each in last] == [*found, ids[-1]]


@quick
@given(st.binary(max_size=300), st.integers(0, 60))
def test_the_ends_of_any_file_are_read_without_an_exception(data, at):
    pieces = [b',"tail":{', b'{"count":3,"time":"x","stamp":null,"last_user":""}', b"}\n", b'"tail" : ', b"{" * 50]
    for piece in pieces:
        read_tail(data[:at] + piece + data[at:])
    assert read_tail(data + b',"tail":{"count":3}}\n').count == 3


@given(st.lists(st.booleans(), max_size=12), st.integers(0, 14))
def test_a_replayed_compaction_loses_no_system_message_and_no_more_than_it_replaced(kinds, replaced):
    history = [("s" if kind else "m", at) for at, kind in enumerate(kinds)]
    found = replay_compaction(history, ("sum", -1), replaced, lambda item: item[0] == "s")
    assert [item for item in found if item[0] == "s"] == [item for item in history if item[0] == "s"]
    plain = [item for item in history if item[0] == "m"]
    assert [item for item in found if item[0] == "m"] == plain[replaced:]
    before = found[: found.index(("sum", -1))]
    assert not [item for item in before if item[0] == "m"] or not replaced
