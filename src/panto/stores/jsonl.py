"""Sessions as files in a directory: one a session, one JSON object a line.

Law: nothing is on disk before the first answer, and what was acknowledged is on disk on return; a file is only ever
appended to; a list reads a bounded amount of each file. The format stands in `_jsonl_entry`, the work on one file in
`_jsonl_file`, and for users in docs/sessions.md.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from panto.conversation import Conversation, Message
from panto.errors import SessionBusy, StoreError
from panto.session import PersistentMessage, Session, SessionInfo

from . import _ids, _jsonl_file
from ._jsonl_entry import COMPACTION, Prepared, header_line, prepare, read_header
from ._jsonl_file import Glance, Mark
from ._replay import replay
from ._tail import Tail

__all__ = ["FileSystemJSONLStore"]

_log = logging.getLogger("panto")

_REMEMBERED = 1024
"""Of so many sessions the store remembers what it last saw; it forgets no session with messages held back."""
_DELETED = Mark(-1, -1)
"""The mark of a session that was deleted here: no file is it."""
_LEFT_BEHIND = 3600.0
"""Seconds after which a draft that a killed process left is removed."""


class _State(msgspec.Struct, eq=False):
    """What this process knows of one session.

    lock: one thread at a time.
    mark: the file it was last seen in; `None` before.
    pending: records acknowledged and held back until there is an answer, and the bag that goes into the header.
    ids: of records that this process wrote or read.
    unsure: an append failed, and some of it may be in the file.
    """

    lock: threading.Lock
    mark: Mark | None = None
    pending: list[Prepared] = msgspec.field(default_factory=list)
    metadata: str | None = None
    ids: set[str] = msgspec.field(default_factory=set)
    unsure: bool = False


class FileSystemJSONLStore:
    """Sessions in `directory`, each in its own file `<id>.jsonl`. Safe over threads and processes.

    directory: made at the first answer, mode 0700, if it is not there; files have mode 0600.
    fsync: whether `append_messages` returns only when the disk has the records. Without it they survive the end of
        the process, not that of the machine.
    lock_timeout: seconds to wait for another process that writes to the same session, then `SessionBusy`.

    Messages before the first answer are held back in memory, and go to disk together with it.

    >>> import tempfile
    >>> from panto.conversation import Conversation, Message, MessageRole, TextualBlock
    >>> from panto.session import PersistentMessage
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     store = FileSystemJSONLStore(directory)
    ...     session = store.create()
    ...     talk = Conversation()
    ...     talk.add_assistant_message("Hello")
    ...     session.append([PersistentMessage(talk.messages[0], None, None, talk)])
    ...     store.latest().load().messages[0].text
    'Hello'
    """

    def __init__(self, directory: str | os.PathLike[str], *, fsync: bool = True, lock_timeout: float = 10.0) -> None:
        self.directory: Path = Path(directory).absolute()
        self._fsync = fsync
        self._lock_timeout = lock_timeout
        self._states: OrderedDict[str, _State] = OrderedDict()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._swept = False

    def __repr__(self) -> str:
        return f"FileSystemJSONLStore({str(self.directory)!r})"

    # ------------------------------------------------------------ choosing

    def create(self) -> Session:
        """A session with a new id. Cannot fail; nothing is on disk before its first answer."""
        now = _ids.now()
        return Session(SessionInfo(id=_ids.new_id(), created=now, modified=now), self)

    def list(self) -> list[SessionInfo]:
        """All sessions, the one with the newest message first.

        Reads 8 KB of each file, whatever its size; a file that is no session, or cannot be read, is left out.
        """
        found = [info for id in self._names() if (info := self._info(id)) is not None]
        return sorted(found, key=lambda info: (info.modified, info.id), reverse=True)

    def resolve(self, id: str) -> Session | None:
        """The session with this id, or whose id begins so, in either case, with or without hyphens.

        Raises `AmbiguousSession` when several do, `SessionError` for what is no id, `StoreError` when the file is
        there and cannot be read.
        """
        names = _ids.fitting(id, self._names())
        if len(names) > 1:
            infos = [info for name in names if (info := self._info(name)) is not None]
            if len(infos) > 1:
                raise _ids.ambiguous(id, infos)
            names = [info.id for info in infos]
        if not names:
            return None
        path = self._path(names[0])
        try:
            seen = _jsonl_file.glance(path)
        except OSError as error:
            raise StoreError(f"cannot read session file {path}: {error.strerror or error}") from error
        if seen is None:
            return None
        state = self._state(names[0])
        with state.lock:
            state.mark = Mark.of(seen.status) if state.mark is None else state.mark.renewed(seen.status)
        return Session(_info_of(names[0], seen), self)

    def latest(self) -> Session | None:
        """The session with the newest message."""
        found = self.list()
        return self.resolve(found[0].id) if found else None

    # ------------------------------------------------------------ reading

    def load(self, id: str) -> Conversation | None:
        """The conversation as it stood, or `None` if there is none.

        A line that cannot be read is skipped, with one warning that counts them. Raises `StoreError` when the file
        cannot be read or is no session.
        """
        path = self._path(id)
        state = self._state(id)
        with state.lock:
            try:
                fd = _jsonl_file.open_to_read(path)
            except FileNotFoundError:
                return Conversation(state.metadata, _unwritten(state.pending)) if state.pending else None
            except OSError as error:
                raise StoreError(f"cannot read session file {path}: {error.strerror or error}") from error
            try:
                with open(fd, "rb", buffering=1 << 18) as file:
                    compacted = _jsonl_file.holds(fd, COMPACTION)
                    file.seek(0)
                    header = read_header(file.readline())
                    if header is None:
                        raise StoreError(f"{path} is no session file: its first line is no session header")
                    _jsonl_file.refuse_later_format(header, path)
                    found = replay(file, compacted)
                    status = os.fstat(file.fileno())
                    state.mark = Mark.of(status) if state.mark is None else state.mark.renewed(status)
            except OSError as error:
                raise StoreError(f"cannot read session file {path}: {error.strerror or error}") from error
            state.ids = found.ids
            if found.bad:
                _log.warning("session file %s: %d line(s) that are no entries were skipped", path, found.bad)
            return Conversation(header.metadata, found.messages)

    # ------------------------------------------------------------ writing

    def append_messages(self, session_id: str, messages: Sequence[PersistentMessage]) -> None:
        """Keep the messages, after those kept before; on the disk on return, once there is an answer among them.

        A message whose id is there already is left out, so that what failed may be offered again. Raises `StoreError`
        that says what and where (a full disk, a directory that cannot be written to, a file replaced or deleted under
        the session), `SessionBusy` when the lock was not had in time; nothing is then kept of these messages, and
        what was written before is unharmed.
        """
        if not messages:
            return
        path = self._path(session_id)
        now = _ids.now()
        state = self._state(session_id)
        with state.lock:
            known = {record.id for record in state.pending} | state.ids if state.pending else state.ids
            fresh: list[Prepared] = []
            taken: set[str] = set()
            for record in messages:
                prepared = _prepared(record, now)
                if prepared.id not in known and prepared.id not in taken:
                    taken.add(prepared.id)
                    fresh.append(prepared)
            if not fresh:
                return
            if not state.pending and state.mark is None:
                state.metadata = messages[0].conversation.metadata
            batch = self._not_there(state, path, state.pending + fresh)
            if state.mark is None and not _exists(path):
                if not any(record.answers for record in batch):
                    state.pending = [*batch]
                    return
                self._make(state, path, session_id, batch)
            else:
                self._append(state, path, batch)
            state.pending = []
            state.ids.update(record.id for record in batch)

    def _make(self, state: _State, path: Path, id: str, batch: Sequence[Prepared]) -> None:
        try:
            _jsonl_file.make_directory(self.directory)
        except OSError as error:
            raise StoreError(
                f"cannot make the directory {self.directory} for sessions: {error.strerror or error}. Nothing was kept "
                "of this session; it is tried again with the next message"
            ) from error
        self._sweep()
        try:
            state.mark = _jsonl_file.create(
                path, header_line(id, state.metadata, batch[0].time), _lines(batch), self._fsync
            )
        except FileExistsError:  # another process, that has the same session from before a fork
            self._append(state, path, batch)

    def _append(self, state: _State, path: Path, batch: Sequence[Prepared]) -> None:
        state.unsure = True
        try:
            state.mark = _jsonl_file.append(path, _lines(batch), state.mark, self._fsync, self._lock_timeout)
        except (StoreError, SessionBusy) as error:
            state.unsure = isinstance(error.__cause__, OSError)
            raise
        state.unsure = False

    def _not_there(self, state: _State, path: Path, batch: Sequence[Prepared]) -> Sequence[Prepared]:
        """Without the records that a failed append brought to the file in spite of all."""
        if not state.unsure:
            return batch
        try:
            with open(_jsonl_file.open_to_read(path), "rb") as file:
                file.seek(state.mark.end if state.mark else 0)
                there = replay(file).ids
        except OSError:
            return batch
        state.ids |= there
        return [record for record in batch if record.id not in there]

    def delete(self, id: str) -> bool:
        """Remove the session with this full id for good; whether there was one.

        Messages held back go too, and a later append to it is a `StoreError`. Raises `StoreError` when the file cannot
        be removed.
        """
        path = self._path(id)
        state = self._state(id)
        with state.lock:
            there = bool(state.pending)
            try:
                path.unlink()
                there = True
            except FileNotFoundError:
                pass
            except OSError as error:
                raise StoreError(f"cannot delete session file {path}: {error.strerror or error}") from error
            if there:
                state.pending, state.mark = [], _DELETED
            return there

    # ------------------------------------------------------------ rooms

    def _path(self, id: str) -> Path:
        return self.directory / f"{_ids.check_id(id)}.jsonl"

    def _names(self) -> Sequence[str]:
        """The ids of all files in the directory, looked into or not."""
        try:
            with os.scandir(self.directory) as entries:
                names = [entry.name[:-6] for entry in entries if entry.name.endswith(".jsonl")]
            return [name for name in names if _ids.is_id(name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"cannot list the sessions in {self.directory}: {error.strerror or error}") from error

    def _info(self, id: str) -> SessionInfo | None:
        """What a list shows of a file; nothing of one that cannot be read."""
        try:
            seen = _jsonl_file.glance(self.directory / f"{id}.jsonl")
        except OSError:
            return None
        return None if seen is None else _info_of(id, seen)

    def _state(self, id: str) -> _State:
        if self._process != os.getpid():  # after a fork: a lock that another thread of the parent held stays shut here
            self._process, self._lock = os.getpid(), threading.Lock()
            for kept in self._states.values():
                kept.lock = threading.Lock()
        with self._lock:
            state = self._states.get(id)
            if state is None:
                state = self._states[id] = _State(threading.Lock())
                if len(self._states) > _REMEMBERED:
                    for old in [old for old, kept in self._states.items() if not kept.pending and old != id][:64]:
                        del self._states[old]
            self._states.move_to_end(id)
            return state

    def _sweep(self) -> None:
        """Once, remove drafts of sessions that a killed process left behind."""
        if self._swept:
            return
        self._swept = True
        with contextlib.suppress(OSError):
            before = time.time() - _LEFT_BEHIND
            for draft in self.directory.glob("*.new"):
                if draft.stat().st_mtime < before:
                    draft.unlink()


def _prepared(record: PersistentMessage, time: str) -> Prepared:
    try:
        return prepare(record, time)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise StoreError(f"message {record.message.id} cannot be written as JSON: {error}") from error


def _lines(batch: Sequence[Prepared]) -> _jsonl_file.Build:
    def build(tail: Tail) -> tuple[bytes, Tail]:
        lines: list[bytes] = []
        for record in batch:
            line, tail = record.line(tail)
            lines.append(line)
        return b"".join(lines), tail

    return build


def _unwritten(pending: Sequence[Prepared]) -> list[Message]:
    """The messages that are held back, as if they had been written."""
    return replay(_lines(pending)(Tail())[0].splitlines()).messages


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(f"cannot reach session file {path}: {error.strerror or error}") from error
    return True


def _info_of(id: str, seen: Glance) -> SessionInfo:
    return seen.tail.info(id, seen.header.created or _ids.created_of(id, seen.tail.time))
