"""Disks that fill up, directories that vanish, files replaced: what was acknowledged is there, once, and loads."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stores.records import answer, offer, record, texts, user

from panto.conversation import Message, MessageRole, TextualBlock
from panto.errors import StoreError
from panto.stores import FileSystemJSONLStore, _jsonl_file

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path):
    return FileSystemJSONLStore(tmp_path / "sessions", fsync=False)


def reopened(store):
    return FileSystemJSONLStore(store.directory, fsync=False)


def path_of(store, session):
    return store.directory / f"{session.info.id}.jsonl"


def ids_in(store, session):
    return [message.id for message in reopened(store).load(session.info.id).messages]


class FullDisk:
    """A write that takes so many bytes and no more, until `room` is None again."""

    def __init__(self, monkeypatch):
        self.room = None
        self._real = os.write
        monkeypatch.setattr(_jsonl_file, "write", self)

    def __call__(self, fd, data):
        if self.room is None:
            return self._real(fd, data)
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        took = self._real(fd, data[: self.room])
        self.room -= took
        return took


def short(id, role=MessageRole.USER):
    return Message(role, [TextualBlock("é")], id=id, identity=None)


def batches():
    yield [record(message, identity=None) for message in (short("u1"), short("a1", MessageRole.ASSISTANT))]
    yield [record(message, identity=None) for message in (short("u2"), short("a2", MessageRole.ASSISTANT), short("u3"))]


def length_of_an_append(tmp_path):
    store = FileSystemJSONLStore(tmp_path / "measure", fsync=False)
    id = store.create().info.id
    sizes = [0]
    for batch in batches():
        store.append_messages(id, batch)
        sizes.append((store.directory / f"{id}.jsonl").stat().st_size)
    return sizes[1], sizes[2] - sizes[1]


ALL = ["u1", "a1", "u2", "a2", "u3"]


@pytest.mark.parametrize("taken_back", [True, False], ids=["taken back", "cannot be taken back"])
@pytest.mark.parametrize("again", ["same store", "same store, loaded", "new store"])
def test_a_full_disk_at_every_byte_of_an_append_loses_and_doubles_nothing(
    store, tmp_path, monkeypatch, taken_back, again
):
    _, length = length_of_an_append(tmp_path)
    disk = FullDisk(monkeypatch)
    if not taken_back:

        def refuse(fd, size):
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "ftruncate", refuse)
    for room in range(0, length, 1 if again == "same store" else 3):
        session = store.create()
        first, second = batches()
        session.append(first)
        before = path_of(store, session).read_bytes()
        disk.room = room
        with pytest.raises(StoreError, match=r"append to session file .*jsonl: No space left") as told:
            session.append(second)
        assert str(path_of(store, session)) in str(told.value)
        disk.room = None
        assert path_of(store, session).read_bytes().startswith(before)
        if taken_back:
            assert path_of(store, session).read_bytes() == before
        assert ids_in(store, session)[:2] == ["u1", "a1"]
        user_of_it = reopened(store) if again == "new store" else store
        if again == "same store, loaded":
            user_of_it.load(session.info.id)
        user_of_it.append_messages(session.info.id, [*second, record(short("u4"))])
        user_of_it.append_messages(session.info.id, second)
        assert ids_in(store, session) == [*ALL, "u4"], room
        if again != "new store":
            assert store.resolve(session.info.id).info.message_count == 6
        path_of(store, session).unlink()


def test_a_full_disk_at_every_byte_of_the_first_write_leaves_nothing_and_the_next_try_has_it_all(
    store, tmp_path, monkeypatch
):
    length, _ = length_of_an_append(tmp_path)
    disk = FullDisk(monkeypatch)
    for room in range(length):
        session = store.create()
        first, second = batches()
        session.append(first[:1])
        disk.room = room
        with pytest.raises(StoreError, match=r"cannot make the session file .*jsonl: No space left on device"):
            session.append(first[1:])
        disk.room = None
        assert list(store.directory.iterdir()) == []
        assert reopened(store).list() == []
        assert [message.id for message in store.load(session.info.id).messages] == ["u1"]
        session.append([*first, *second])
        assert ids_in(store, session) == ALL
        path_of(store, session).unlink()


def test_a_process_killed_at_every_byte_of_an_append_leaves_a_session_that_goes_on(store, tmp_path):
    session = store.create()
    first, second = batches()
    session.append(first)
    size = path_of(store, session).stat().st_size
    session.append(second)
    whole = path_of(store, session).read_bytes()
    for cut in range(size, len(whole)):
        directory = tmp_path / "killed" / str(cut)
        directory.mkdir(parents=True)
        (directory / path_of(store, session).name).write_bytes(whole[:cut])
        after = FileSystemJSONLStore(directory, fsync=False)
        resumed = after.latest()
        assert [message.id for message in resumed.load().messages[:2]] == ["u1", "a1"]
        resumed.append(second)
        assert ids_in(after, session) == ALL, cut
        assert after.latest().info.message_count == 5


def test_a_process_killed_at_every_byte_of_the_first_write_leaves_no_session(store, monkeypatch):
    """The first records get their name when they are whole; before, there is a draft that nobody lists."""
    seen = []
    real = os.write

    def looking(fd, data):
        for at in range(0, len(data), 7):
            real(fd, data[at : at + 7])
            seen.append([reopened(store).list(), reopened(store).latest()])
        return len(data)

    monkeypatch.setattr(_jsonl_file, "write", looking)
    offer(store.create(), user("u"), answer("a"))
    assert len(seen) > 50
    assert all(found == [[], None] for found in seen)
    assert len(store.list()) == 1


@pytest.mark.parametrize("which", [0, 1], ids=["the file", "its directory"])
def test_a_disk_that_cannot_promise_gets_no_session(tmp_path, monkeypatch, which):
    store = FileSystemJSONLStore(tmp_path / "s")
    session = store.create()
    calls = []

    def failing(fd):
        calls.append(fd)
        if len(calls) == which + 1:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(_jsonl_file, "sync", failing)
    said, reply = user("u"), answer("a")
    offer(session, said)
    with pytest.raises(StoreError, match="Input/output error"):
        offer(session, reply)
    assert list(store.directory.iterdir()) == []
    offer(session, reply)
    assert ids_in(store, session) == [said.id, reply.id]


def test_an_append_that_the_disk_cannot_promise_is_taken_back(tmp_path, monkeypatch):
    store = FileSystemJSONLStore(tmp_path)
    session = store.create()
    offer(session, user("u"), answer("a"))
    before = path_of(store, session).read_bytes()
    later = user("later")

    def failing(fd):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(_jsonl_file, "sync", failing)
        with pytest.raises(StoreError, match="Input/output error"):
            offer(session, later)
    assert path_of(store, session).read_bytes() == before
    offer(session, later)
    assert texts(reopened(store).load(session.info.id)) == ["u", "a", "later"]


def test_an_interrupt_in_the_middle_of_an_append_takes_it_back(store, monkeypatch):
    session = store.create()
    offer(session, user("u"), answer("a"))
    before = path_of(store, session).read_bytes()

    def interrupted(fd, data):
        os.write(fd, data)
        raise KeyboardInterrupt

    later = user("later")
    with monkeypatch.context() as patch:
        patch.setattr(_jsonl_file, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            offer(session, later)
    assert path_of(store, session).read_bytes() == before
    offer(session, later)
    assert texts(reopened(store).load(session.info.id)) == ["u", "a", "later"]


def test_what_another_process_appended_after_a_failed_append_is_not_cut_off(store, monkeypatch):
    """Without locks (some network file systems) a second writer may come between the write and its failure."""
    session = store.create()
    offer(session, user("u"), answer("a"))
    others = b'{"type":"message","id":"other","message":{"role":"user","content":[]}}\n'

    def crowded(fd, data):
        os.write(fd, data)
        os.write(fd, others)
        raise OSError(errno.EIO, "Input/output error")

    later = user("later")
    with monkeypatch.context() as patch:
        patch.setattr(_jsonl_file, "write", crowded)
        with pytest.raises(StoreError):
            offer(session, later)
    offer(session, later)
    assert ids_in(store, session)[2:] == [later.id, "other"]


LIMITED = """
import resource, sys
from panto.errors import StoreError
from panto.stores import FileSystemJSONLStore
from tests.stores.records import answer, offer, texts, user
store = FileSystemJSONLStore(sys.argv[1])
session = store.create()
offer(session, user("u"), answer("a"))
path = store.directory / (session.info.id + ".jsonl")
before = path.read_bytes()
resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 500, resource.RLIM_INFINITY))
big = user("x" * 1000)
try:
    offer(session, big)
except StoreError as error:
    assert "File too large" in str(error) and str(path) in str(error), error
else:
    raise SystemExit("the system did not limit the file")
assert path.read_bytes() == before
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
offer(session, big, answer("b"))
assert len(texts(store.load(session.info.id))) == 4
print("fine")
"""


def test_a_limit_of_the_real_system_in_mid_write_is_taken_back(tmp_path):
    command = [sys.executable, "-c", LIMITED, tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60)
    assert (done.stdout, done.stderr) == ("fine\n", "")


UNPRIVILEGED = """
import os, tempfile
from panto.errors import StoreError
from panto.stores import FileSystemJSONLStore
from tests.stores.records import answer, offer, texts, user
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
base = tempfile.mkdtemp()
os.mkdir(base + "/ro")
store = FileSystemJSONLStore(base + "/ro")
session = store.create()
offer(session, user("u"), answer("a"))
other = store.create()
os.chmod(base + "/ro", 0o500)
said = user("x")
offer(other, said)
for attempt in range(2):
    try:
        offer(other, answer("y"))
    except StoreError as error:
        assert "Permission denied" in str(error) and base in str(error), error
    else:
        raise SystemExit("a read-only directory took a file")
offer(session, user("u2"))  # a file that is there can be written to
os.chmod(base + "/ro/" + session.info.id + ".jsonl", 0o400)
try:
    offer(session, user("u3"))
except StoreError as error:
    assert "Permission denied" in str(error) and session.info.id in str(error), error
else:
    raise SystemExit("a read-only file was written to")
assert texts(store.load(session.info.id)) == ["u", "a", "u2"]
os.chmod(base + "/ro/" + session.info.id + ".jsonl", 0o000)
assert FileSystemJSONLStore(base + "/ro").list() == []
for call in (FileSystemJSONLStore(base + "/ro").load, FileSystemJSONLStore(base + "/ro").resolve):
    try:
        call(session.info.id)
    except StoreError as error:
        assert "Permission denied" in str(error) and session.info.id in str(error), error
    else:
        assert call.__name__ == "resolve"
os.chmod(base + "/ro", 0o000)
for call in (store.list, store.latest, lambda: store.resolve(session.info.id)):
    try:
        call()
    except StoreError as error:
        assert "Permission denied" in str(error) and base in str(error), error
    else:
        raise SystemExit("an unreadable directory was listed")
os.chmod(base + "/ro", 0o700)
os.chmod(base + "/ro/" + session.info.id + ".jsonl", 0o600)
offer(other, answer("y"))
assert texts(store.load(other.info.id)) == ["x", "y"]
try:
    offer(FileSystemJSONLStore(base + "/ro/" + session.info.id + ".jsonl/below").create(), answer("a"))
except StoreError as error:
    assert "cannot make the directory" in str(error), error
print("fine")
"""


def test_directories_and_files_that_may_not_be_written_or_read_are_told_by_name_and_nothing_is_harmed():
    command = [sys.executable, "-c", UNPRIVILEGED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60)
    assert (done.stdout, done.stderr) == ("fine\n", "")


def test_a_directory_that_vanished_is_made_again_for_a_new_session_and_told_for_an_old_one(store):
    old, new = store.create(), store.create()
    offer(old, user("u"), answer("a"))
    offer(new, user("x"))
    shutil.rmtree(store.directory)
    with pytest.raises(StoreError, match=r"is gone.*moved or deleted"):
        offer(old, user("u2"))
    assert not store.directory.exists()
    offer(new, answer("y"))
    assert texts(reopened(store).load(new.info.id)) == ["x", "y"]


@pytest.mark.parametrize("seen_by", ["append", "resolve", "load"])
def test_a_file_replaced_under_a_session_is_told_and_left_alone_until_the_session_is_loaded_anew(store, seen_by):
    session = store.create()
    offer(session, user("u"), answer("a"))
    path = path_of(store, session)
    running = store if seen_by == "append" else reopened(store)
    if seen_by != "append":
        getattr(running, seen_by)(session.info.id)
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.replace(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"was replaced by another file") as told:
        running.append_messages(session.info.id, [record(user("u2"))])
    assert str(path) in str(told.value)
    assert path.read_bytes() == before
    assert texts(running.load(session.info.id)) == ["u", "a"]
    running.append_messages(session.info.id, [record(user("u2"))])
    assert texts(reopened(store).load(session.info.id)) == ["u", "a", "u2"]


def test_a_file_cut_short_under_a_session_is_told_and_left_alone(store):
    session = store.create()
    offer(session, user("u"), answer("a"))
    path = path_of(store, session)
    os.truncate(path, path.stat().st_size - 20)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"was cut short"):
        offer(session, user("u2"))
    assert path.read_bytes() == before
    store.load(session.info.id)
    offer(session, user("u2"))
    assert texts(reopened(store).load(session.info.id)) == ["u", "u2"]


def test_a_file_cut_short_is_told_also_when_the_session_was_listed_and_resolved_before(store):
    session = store.create()
    offer(session, user("u"), answer("a"))
    path = path_of(store, session)
    store.list()
    store.resolve(session.info.id)
    store.load(session.info.id)
    os.truncate(path, path.stat().st_size - 20)
    with pytest.raises(StoreError, match=r"was cut short"):
        offer(session, user("u2"))


def test_a_file_that_vanished_is_not_made_anew_without_its_beginning(store):
    session = store.create()
    offer(session, user("u"), answer("a"))
    path_of(store, session).unlink()
    with pytest.raises(StoreError, match="is gone"):
        offer(session, answer("b"))
    assert store.load(session.info.id) is None
    assert list(store.directory.iterdir()) == []


def test_two_processes_that_have_the_same_unwritten_session_both_keep_their_messages(store):
    """As after a fork: both hold back the same question and write their own answer."""
    id = store.create().info.id
    question, one, two = user("q"), answer("one"), answer("two")
    other = reopened(store)
    for each in (store, other):
        each.append_messages(id, [record(question)])
    store.append_messages(id, [record(one)])
    other.append_messages(id, [record(two)])
    assert [message.id for message in reopened(store).load(id).messages] == [question.id, one.id, two.id]


def test_a_file_system_without_hard_links_gets_its_sessions_all_the_same(store, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    session = store.create()
    offer(session, user("u"), answer("a"))
    assert texts(reopened(store).load(session.info.id)) == ["u", "a"]
    assert [path.name for path in store.directory.iterdir()] == [path_of(store, session).name]


def test_a_write_that_takes_nothing_ends_in_an_error_and_not_in_a_loop(store, monkeypatch):
    session = store.create()
    offer(session, user("u"), answer("a"))
    monkeypatch.setattr(_jsonl_file, "write", lambda fd, data: 0)
    with pytest.raises(StoreError, match="only 0 of"):
        offer(session, user("x"))
