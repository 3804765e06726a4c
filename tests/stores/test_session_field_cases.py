"""Families SE and SC of the field cases, as far as a store meets them: what broke sessions of other programs."""

import json
import logging
import os
import re
import resource
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest
from tests.stores.records import answer, offer, record, texts, user

from panto.config import OpenAIChatConfig
from panto.conversation import Conversation
from panto.errors import AmbiguousSession, SessionError, StoreError
from panto.session import PersistentMessage
from panto.stores import FileSystemJSONLStore, MemoryStore


@pytest.fixture
def store(tmp_path):
    return FileSystemJSONLStore(tmp_path / "sessions", fsync=False)


ROOT = Path(__file__).parents[2]


def reopened(store):
    return FileSystemJSONLStore(store.directory, fsync=False)


def path_of(store, session):
    return store.directory / f"{session.info.id}.jsonl"


FRAGMENT = b'{"type":"message","content":[{"te'


def test_se_01_a_torn_last_line_is_skipped_with_one_warning_and_the_next_append_is_not_glued_to_it(store, caplog):
    session = store.create()
    offer(session, user("u1"), answer("a1"))
    path = path_of(store, session)
    with path.open("ab") as file:
        file.write(FRAGMENT)
    again = reopened(store)
    resumed = again.resolve(session.info.id)
    assert texts(resumed.load()) == ["u1", "a1"]
    assert [line.levelname for line in caplog.records] == ["WARNING"]
    assert re.search(rf"{path}.* 1 line", caplog.text)
    offer(resumed, user("u2"), answer("a2"))
    assert b"\n".join([FRAGMENT, b'{"type":"message"']) in path.read_bytes()
    assert texts(reopened(store).load(session.info.id)) == ["u1", "a1", "u2", "a2"]
    assert again.list()[0].message_count == 4


def test_se_01_a_torn_line_longer_than_what_is_read_of_the_end_hides_nothing(store):
    session = store.create()
    offer(session, user("u1"), answer("a1"))
    with path_of(store, session).open("ab") as file:
        file.write(FRAGMENT + b"x" * 3_000_000)
    again = reopened(store)
    assert [info.id for info in again.list()] == [session.info.id]  # told by the file's own time
    offer(again.resolve(session.info.id), user("u2"), answer("a2"))
    assert again.list()[0].message_count == 4
    assert texts(reopened(store).load(session.info.id)) == ["u1", "a1", "u2", "a2"]


def test_se_01_a_last_line_that_lacks_only_its_end_is_kept(store, caplog):
    session = store.create()
    offer(session, user("u1"), answer("a1"))
    path = path_of(store, session)
    path.write_bytes(path.read_bytes()[:-1])
    again = reopened(store)
    assert texts(again.load(session.info.id)) == ["u1", "a1"]
    offer(again.resolve(session.info.id), user("u2"))
    assert texts(reopened(store).load(session.info.id)) == ["u1", "a1", "u2"]
    assert not caplog.records


def test_se_02_a_bad_line_in_the_middle_costs_that_line(store, caplog):
    session = store.create()
    offer(session, *[user(f"u{n}") if n % 2 else answer(f"a{n}") for n in range(19)])
    path = path_of(store, session)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 20
    lines[4], lines[6] = b"not json\n", b"[1, 2]\n"
    lines[8] = b'{"type":"mood","id":"x","value":"fine"}\n'
    path.write_bytes(b"".join(lines))
    before = path.read_bytes()
    found = reopened(store).load(session.info.id)
    assert len(found.messages) == 16
    assert [line.levelname for line in caplog.records] == ["WARNING"]
    assert "2 line" in caplog.text
    assert path.read_bytes() == before
    assert reopened(store).list()[0].id == session.info.id


@pytest.mark.parametrize("line", [b"{}\n", b"not json\n", b"\n", b"", b'{"type":"message"}\n', b"\x00" * 100, b"[]\n"])
def test_se_02_a_file_with_a_bad_header_is_no_session_and_breaks_no_list(store, line):
    good, bad = store.create(), store.create()
    for session in (good, bad):
        offer(session, user("u"), answer("a"))
    path = path_of(store, bad)
    path.write_bytes(line + b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    before = path.read_bytes()
    again = reopened(store)
    assert [info.id for info in again.list()] == [good.info.id]
    assert again.latest().info.id == good.info.id
    assert again.resolve(bad.info.id) is None
    with pytest.raises(StoreError, match=r"is no session file.*first line"):
        again.load(bad.info.id)
    with pytest.raises(StoreError, match=r"is no session file.*nothing was written"):
        again.append_messages(bad.info.id, [record(user("x"))])
    assert path.read_bytes() == before


WRITER = """
import sys
from panto.stores import FileSystemJSONLStore
from tests.stores.records import record, user
directory, id, name, count, size = sys.argv[1:]
store = FileSystemJSONLStore(directory, fsync=False, lock_timeout=60)
session = store.resolve(id)
print("ready", flush=True)
sys.stdin.readline()
for n in range(int(count)):
    message = user("x" * int(size))
    message.id = f"{name}-{n}"
    session.append([record(message)])
"""


def at_once(store, session, count, size, **environment):
    """Two processes append to one session at the same time."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, store.directory, session.info.id, name, str(count), str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **environment},
        )
        for name in "ab"
    ]
    for writer in writers:
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=100)
        assert writer.returncode == 0


def whole(store, session, count, caplog):
    found = reopened(store).load(session.info.id)
    ids = [message.id for message in found.messages[2:]]
    for name in "ab":
        assert [id for id in ids if id.startswith(name)] == [f"{name}-{n}" for n in range(count)]
    assert len(ids) == 2 * count
    assert not caplog.records
    counts = [json.loads(line)["tail"]["count"] for line in path_of(store, session).read_bytes().splitlines()[1:]]
    assert counts == list(range(1, 2 * count + 3))
    return ids


def test_se_03_two_processes_with_long_lines_tear_and_lose_none(store, caplog):
    session = store.create()
    offer(session, user("u"), answer("a"))
    at_once(store, session, 200, 100_000)
    whole(store, session, 200, caplog)


def test_se_03_two_processes_append_2000_messages_each_and_4000_are_there(store, caplog):
    session = store.create()
    offer(session, user("u"), answer("a"))
    at_once(store, session, 2000, 10)
    ids = whole(store, session, 2000, caplog)
    assert {id[0] for id in ids[:3000]} == {"a", "b"}  # they did run at the same time


def test_se_04_listing_reads_a_bounded_amount_of_each_file(store, monkeypatch):
    for n in range(2000):
        offer(store.create(), user(f"u{n}"), answer("a"))
    giant = store.create()
    offer(giant, user("big"), answer("b"))
    header = path_of(store, giant).read_bytes()
    with path_of(store, giant).open("r+b") as file:  # 300 MB of lines of 50 MB, most of it a hole
        file.truncate(300_000_000)
        for at in range(50_000_000, 300_000_000, 50_000_000):
            file.seek(at)
            file.write(b"\n")
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + header.splitlines(keepends=True)[-1])
    read = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: read.append(length) or real(fd, length, at))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    found = store.list()
    took = time.perf_counter() - began
    assert len(found) == 2001
    assert found[0].id == giant.info.id
    assert found[0].last_user_message == "big"
    assert took < 2
    assert sum(read) <= 2001 * 8192
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 30_000  # KB


def test_se_05_latest_goes_by_the_last_message_and_an_explicit_id_always_wins(store):
    one, two = store.create(), store.create()
    offer(one, user("u"), answer("a"))
    offer(two, user("u"), answer("a"))
    offer(one, user("again"), answer("a"))
    os.utime(path_of(store, two))  # a copy, a backup: the file's own time says nothing
    again = reopened(store)
    assert again.latest().info.id == one.info.id
    assert again.resolve(two.info.id).info.id == two.info.id
    assert texts(again.load(two.info.id)) == ["u", "a"]


SHARED = ["0195f2c4-7a51-7c3e-9d2b-4f6a8e1b0c77", "0195f2c4-7a51-7c3e-8000-000000000001"]


def named(store, ids):
    for n, id in enumerate(ids):
        store.append_messages(id, [record(user(f"words of {n}")), record(answer("a"))])


@pytest.mark.parametrize("make", [MemoryStore, None], ids=["memory", "jsonl"])
def test_se_06_an_ambiguous_prefix_is_an_error_that_lists_the_candidates(store, make):
    store = make() if make else store
    named(store, SHARED)
    with pytest.raises(AmbiguousSession) as told:
        store.resolve(SHARED[0][:8])
    assert sorted(told.value.candidates) == sorted(SHARED)
    for n, info in enumerate(sorted(store.list(), key=lambda info: info.id, reverse=True)):
        assert re.search(rf"{info.id}  {info.modified}  words of {n}", str(told.value))
    for text in (
        SHARED[0],
        SHARED[0].upper(),
        SHARED[0].replace("-", ""),
        f" {SHARED[0][:20]} ",
        SHARED[0][:20].upper(),
    ):
        assert store.resolve(text).info.id == SHARED[0]
    with pytest.raises(AmbiguousSession):
        store.resolve("0195F2C47a51")


def test_se_06_a_full_id_resolves_also_when_another_begins_with_it(store):
    named(store, ["abc", "abcd", "abc-e"])
    assert store.resolve("abc").info.id == "abc"
    assert store.resolve("ABC").info.id == "abc"
    assert store.resolve("abce").info.id == "abc-e"
    with pytest.raises(AmbiguousSession):
        store.resolve("ab")
    named(store, ["ab-c"])
    assert [store.resolve(id).info.id for id in ("abc", "ab-c")] == ["abc", "ab-c"]
    with pytest.raises(AmbiguousSession):
        store.resolve("ABC")


def test_se_06_a_long_list_of_candidates_is_cut_and_says_so(store):
    named(store, [f"x{n:02}" for n in range(30)])
    with pytest.raises(AmbiguousSession, match=r"fits 30 sessions.*\n(.*\n){10}  and 20 more") as told:
        store.resolve("x")
    assert len(told.value.candidates) == 30


@pytest.mark.parametrize("text", ["", " ", "\t\n", "*", "../x", "%", "/", ".", "..", "a/b", "\x00", "-", "--", "é"])
def test_se_07_an_empty_or_impossible_id_matches_nothing_and_leaves_the_store_alone(store, text, tmp_path):
    session = store.create()
    offer(session, user("u"), answer("a"))
    (tmp_path / "x.jsonl").write_bytes(path_of(store, session).read_bytes())
    for call in (store.resolve, store.load, lambda id: store.append_messages(id, [record(user("x"))])):
        with pytest.raises(SessionError, match=r"id"):
            call(text)
    with pytest.raises(SessionError):
        MemoryStore().resolve(text)


def test_se_08_a_session_without_an_answer_is_not_on_disk_and_its_prompt_comes_with_the_answer(store):
    quit_early = store.create()
    offer(quit_early, user("started and quit"))
    assert not store.directory.exists()
    assert store.list() == []
    assert store.latest() is None
    session = store.create()
    offer(session, user("asked"))
    offer(session, answer("answered"))
    assert [path.name for path in store.directory.iterdir()] == [path_of(store, session).name]
    assert reopened(store).latest().info.id == session.info.id
    assert texts(reopened(store).load(session.info.id)) == ["asked", "answered"]


ELSEWHERE = """
import sys, locale
assert sys.flags.utf8_mode == 0
from panto.stores import FileSystemJSONLStore
from tests.stores.records import answer, offer, texts, user
words = chr(0x1f98a) + " \\u010d \\u65e5\\u672c"
store = FileSystemJSONLStore(sys.argv[1])
session = store.create()
offer(session, user(words), answer(words))
again = FileSystemJSONLStore(sys.argv[1])
assert texts(again.latest().load()) == [words, words]
assert again.list()[0].last_user_message == words
path = again.directory / (session.info.id + ".jsonl")
data = path.read_bytes()
assert words.encode("utf-8") in data and b"\\r" not in data
path.write_bytes(data.replace(b"\\n", b"\\r\\n"))
assert texts(FileSystemJSONLStore(sys.argv[1]).latest().load()) == [words, words]
print(locale.getencoding())
"""


@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1"])
def test_se_09_sessions_are_utf_8_whatever_the_locale(tmp_path, locale):
    environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    strict = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
    command = [sys.executable, *strict, "-c", ELSEWHERE, tmp_path]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "utf" not in done.stdout.lower()


def test_se_09_crlf_lines_and_a_byte_order_mark_load_and_are_appended_to(store, caplog):
    session = store.create()
    offer(session, user("🦊 č 日本"), answer("a"))
    path = path_of(store, session)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    again = reopened(store)
    resumed = again.resolve(session.info.id)
    assert resumed.info.last_user_message == "🦊 č 日本"
    assert texts(resumed.load()) == ["🦊 č 日本", "a"]
    offer(resumed, user("u2"))
    assert texts(reopened(store).load(session.info.id)) == ["🦊 č 日本", "a", "u2"]
    assert again.list()[0].message_count == 3
    assert not caplog.records


def test_sc_01_and_sc_02_no_key_in_logs_errors_or_reprs_of_a_store(store, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    config = OpenAIChatConfig(
        model="m", api_key="sk-CANARY-1", base_url="https://u:CANARY@h/v1?key=CANARY", headers={"X-Token": "CANARY-2"}
    )
    identity = config.wire_identity()
    session = store.create()
    talk = Conversation()
    message = answer("a", identity)
    offered = PersistentMessage(message, message.usage, identity, talk)
    session.append([offered])
    path = path_of(store, session)
    with path.open("ab") as file:
        file.write(b"bad\n")
    found = reopened(store).load(session.info.id)
    path.write_bytes(b"bad\n")
    with pytest.raises(StoreError) as told:
        store.load(session.info.id)
    seen = [
        caplog.text,
        repr(told.value),
        repr(store),
        repr(session),
        repr(offered),
        repr(found.messages),
        repr(identity),
    ]
    assert "1 line" in caplog.text
    assert "https://h/v1" in seen[3]
    assert not [text for text in seen if "CANARY" in text]


def test_sc_03_session_files_hold_the_stamp_and_no_key_and_are_for_their_owner_alone(tmp_path):
    config = OpenAIChatConfig(model="m", api_key="sk-CANARY-1", base_url="https://u:CANARY@h/v1?key=CANARY")
    store = FileSystemJSONLStore(tmp_path / "deep" / "down" / "sessions")
    before = os.umask(0)
    try:
        session = store.create()
        message = answer("a", config.wire_identity())
        session.append([PersistentMessage(message, message.usage, config.wire_identity(), Conversation())])
    finally:
        os.umask(before)
    [path] = store.directory.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    for directory in (store.directory, *list(store.directory.parents)[:2]):
        assert directory.stat().st_mode & 0o777 == 0o700
    data = path.read_bytes()
    assert b"CANARY" not in data
    stamp = json.loads(data.splitlines()[1])["wire"]
    assert stamp == {"api_style": "openai_chat", "base_url": "https://h/v1", "model": "m", "reasoning": "default"}


def test_sc_03_a_narrow_umask_does_not_lock_the_owner_out(tmp_path):
    before = os.umask(0o777)
    try:
        store = FileSystemJSONLStore(tmp_path / "sessions")
        session = store.create()
        offer(session, user("u"), answer("a"))
        offer(session, user("u2"))
    finally:
        os.umask(before)
    [path] = store.directory.iterdir()
    assert (path.stat().st_mode & 0o777, store.directory.stat().st_mode & 0o777) == (0o600, 0o700)


def test_sc_03_a_directory_that_is_there_keeps_its_mode(tmp_path):
    tmp_path.chmod(0o750)
    offer(FileSystemJSONLStore(tmp_path).create(), user("u"), answer("a"))
    assert tmp_path.stat().st_mode & 0o777 == 0o750


BLOCKED = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "termios", "pwd"):
            raise ImportError(name + " is blocked")

for name in ("fcntl", "termios", "pwd"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Block())
"""


def test_without_fcntl_termios_and_pwd_a_lock_file_keeps_writers_apart(store, caplog, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BLOCKED, encoding="utf-8")
    session = store.create()
    offer(session, user("u"), answer("a"))
    checked = (
        "import panto.stores._lock as lock; import sys; assert lock._try_lock is None and 'fcntl' not in sys.modules"
    )
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    subprocess.run([sys.executable, "-c", checked], env={**os.environ, **environment}, check=True, timeout=60)
    at_once(store, session, 300, 10, **environment)
    whole(store, session, 300, caplog)
    assert [path.name for path in store.directory.iterdir()] == [path_of(store, session).name]


def test_a_lock_file_left_behind_by_a_killed_process_is_taken_after_30_seconds(store, monkeypatch):
    from panto.errors import SessionBusy
    from panto.stores import _lock

    monkeypatch.setattr(_lock, "_try_lock", None)
    session = store.create()
    offer(session, user("u"), answer("a"))
    left = store.directory / f"{session.info.id}.lock"
    left.touch()
    hasty = FileSystemJSONLStore(store.directory, fsync=False, lock_timeout=0.05)
    with pytest.raises(SessionBusy):
        hasty.append_messages(session.info.id, [record(user("x"))])
    old = time.time() - 31
    os.utime(left, (old, old))
    offer(hasty.resolve(session.info.id), user("x"))
    assert texts(reopened(store).load(session.info.id)) == ["u", "a", "x"]
    assert not left.exists()


def test_the_lock_of_a_process_that_was_killed_is_free_at_once(store):
    session = store.create()
    offer(session, user("u"), answer("a"))
    holder = (
        "import os, sys, time\nfrom pathlib import Path\nfrom panto.stores import _lock\n"
        "path = Path(sys.argv[1])\nfd = os.open(path, os.O_RDWR)\n"
        "with _lock.exclusive(fd, path, 1):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", holder, path_of(store, session)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    done = threading.Thread(target=offer, args=(session, user("waits")))
    done.start()
    process.kill()
    process.communicate()
    done.join(timeout=5)
    assert not done.is_alive()
    assert texts(store.load(session.info.id)) == ["u", "a", "waits"]


def test_what_lies_in_the_directory_and_is_no_session_breaks_no_list(store):
    session = store.create()
    offer(session, user("u"), answer("a"))
    (store.directory / "folder.jsonl").mkdir()
    os.mkfifo(store.directory / "pipe.jsonl")
    (store.directory / "dangling.jsonl").symlink_to("nowhere")
    (store.directory / "empty.jsonl").touch()
    (store.directory / ".hidden.jsonl").write_bytes(path_of(store, session).read_bytes())
    (store.directory / "notes.txt").write_text("x", encoding="utf-8")
    (store.directory / "not an id.jsonl").write_bytes(path_of(store, session).read_bytes())
    again = reopened(store)
    assert [info.id for info in again.list()] == [session.info.id]
    assert again.latest().info.id == session.info.id
    assert again.resolve(session.info.id[:4]).info.id == session.info.id
    with pytest.raises(StoreError, match="no regular file"):
        again.load("pipe")


def test_a_session_of_another_program_with_an_id_of_its_own_is_as_good_as_any(store):
    named(store, ["my-session_1"])
    [info] = reopened(store).list()
    assert info.id == "my-session_1"
    assert info.created <= info.modified


def test_a_bag_longer_than_what_is_read_of_the_head_hides_no_session(store):
    session = store.create()
    bag = json.dumps({"k": "v" * 100_000})
    offer(session, user("u"), answer("a"), talk=Conversation(bag))
    again = reopened(store)
    [info] = again.list()
    assert info.created == session.info.created[:23] + "000Z"
    offer(again.resolve(session.info.id), user("u2"))
    assert again.load(session.info.id).metadata == bag
    assert reopened(store).append_messages(session.info.id, [record(user("u3"))]) is None


def test_the_time_of_creation_is_told_by_the_id(store):
    session = store.create()
    offer(session, user("u"), answer("a"))
    milliseconds = uuid.UUID(session.info.id).int >> 80
    [info] = store.list()
    assert info.created.startswith(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds / 1000)))
