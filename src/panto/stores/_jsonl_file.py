"""One session file: made, appended to, read at its ends.

Law: append-only, whole lines, one write an append, under a lock, on the disk on return. What fails is taken back, so
that a record is there once or not at all; what cannot be taken back (the process died in the middle) is a torn last
line, which the next append closes off. Nothing that is there is ever written over.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec

from panto.errors import StoreError

from ._ids import stamp_of
from ._jsonl_entry import VERSION, Header, read_header, read_tail
from ._lock import exclusive
from ._tail import Tail

__all__ = [
    "HEAD",
    "TAIL",
    "Mark",
    "append",
    "create",
    "glance",
    "holds",
    "make_directory",
    "open_to_read",
    "refuse_later_format",
]

HEAD = TAIL = 4096
"""Bytes read of each end of a file when sessions are listed."""

_FARTHER = (1 << 16, 1 << 20)
"""Where the end of a file is torn, or not panto's, so many bytes are looked through before a list gives up."""

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_APPEND = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)

write = os.write
"""Every byte of a session goes to the disk through this name, so that a test can put faults into it."""
sync = os.fsync
"""Every wait for the disk goes through this name."""

Build = Callable[[Tail], tuple[bytes, Tail]]
"""Makes the lines to append from the tail before them, and tells the tail after them."""


class Mark(msgspec.Struct, frozen=True):
    """Which file a session was last seen in, and where it ended after this process's own last append.

    `end` is 0 and `tail` `None` when this process has not written to it.
    """

    device: int
    inode: int
    end: int = 0
    tail: Tail | None = None

    @classmethod
    def of(cls, status: os.stat_result, end: int = 0, tail: Tail | None = None) -> Mark:
        """The mark of an open file."""
        return cls(status.st_dev, status.st_ino, end, tail)

    def renewed(self, status: os.stat_result) -> Mark:
        """The mark after the file was looked at again: this one, unless it is now another file or a shorter one."""
        return self if self.same_file(status) and self.end <= status.st_size else Mark.of(status)

    def same_file(self, status: os.stat_result) -> bool:
        """Whether that is the very file."""
        return self.inode == status.st_ino and self.device == status.st_dev


class Glance(msgspec.Struct, frozen=True):
    """What the two ends of a file tell."""

    header: Header
    tail: Tail
    status: os.stat_result


# ---------------------------------------------------------------- writing


def make_directory(directory: Path) -> None:
    """Make the directory, and those above it that are missing, for their owner alone whatever the umask."""
    missing = [directory, *directory.parents]
    missing = missing[: next((at for at, path in enumerate(missing) if path.exists()), len(missing))]
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            path.mkdir(0o700)
            path.chmod(0o700)


def create(path: Path, header: bytes, build: Build, durable: bool) -> Mark:
    """Make a session's file with its first records, all at once: before, there is none; after, it is whole.

    Raises `FileExistsError` when another process made it meanwhile, `StoreError` when it cannot be made.
    """
    draft = path.with_suffix(f".{os.getpid()}-{os.urandom(4).hex()}.new")
    lines, tail = build(Tail())
    try:
        fd = os.open(draft, _CREATE, 0o600)
        try:
            _for_owner(fd)
            _write_all(fd, header + lines)
            if durable:
                _sync(fd)
            mark = Mark.of(os.fstat(fd), len(header) + len(lines), tail)
        finally:
            os.close(fd)
        _publish(draft, path)
        try:
            if durable:
                _sync_directory(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
    except FileExistsError:
        raise
    except OSError as error:
        raise StoreError(
            f"cannot make the session file {path}: {_why(error)}. Nothing of it was kept; it is tried again with the "
            "next message"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return mark


def append(path: Path, build: Build, mark: Mark | None, durable: bool, timeout: float) -> Mark:
    """Append whole lines to a session's file.

    Raises `StoreError` when they could not be written, or the file is no longer the one that `mark` tells of, and
    `SessionBusy` when another process held the lock for too long; the file is then as it was.
    """
    try:
        fd = os.open(path, _APPEND)
    except FileNotFoundError as error:
        raise StoreError(
            f"session file {path} is gone; it was moved or deleted under a running session. Start a new session, or "
            "put the file back"
        ) from error
    except OSError as error:
        raise StoreError(f"cannot append to session file {path}: {_why(error)}") from error
    try:
        with exclusive(fd, path, timeout):
            size = _checked(fd, path, mark)
            if mark is not None and mark.tail is not None and mark.end == size:
                tail, torn = mark.tail, False
            else:
                tail, torn = _end_of(fd, size)
            lines, after = build(tail)
            if torn:
                lines = b"\n" + lines
            try:
                _write_all(fd, lines)
                if durable:
                    _sync(fd)
            except BaseException:
                _take_back(fd, size, len(lines))
                raise
            return Mark.of(os.fstat(fd), size + len(lines), after)
    except OSError as error:
        raise StoreError(
            f"cannot append to session file {path}: {_why(error)}. What was written before is unharmed; the rest is "
            "tried again with the next message"
        ) from error
    finally:
        with contextlib.suppress(OSError):  # what matters is on the disk, or was said to have failed
            os.close(fd)


def _checked(fd: int, path: Path, mark: Mark | None) -> int:
    """The size of the open file, once it is sure that it is the session's."""
    status = os.fstat(fd)
    try:
        replaced = not Mark.of(status).same_file(path.stat()) or (mark is not None and not mark.same_file(status))
    except FileNotFoundError:
        replaced = True
    if replaced:
        raise StoreError(
            f"session file {path} was replaced by another file under a running session; nothing was written to it. "
            "Resume the session anew to go on with what the file holds now"
        )
    if mark is not None and status.st_size < mark.end:
        raise StoreError(
            f"session file {path} was cut short under a running session ({status.st_size} bytes, it had {mark.end}); "
            "nothing was written to it. Resume the session anew to go on with what it holds now"
        )
    if mark is None:
        header = read_header(_read_at(fd, 0, HEAD).partition(b"\n")[0]) or _long_header(_read_at(fd, 0, HEAD))
        if header is None:
            raise StoreError(f"{path} is no session file: its first line is no session header; nothing was written")
        refuse_later_format(header, path)
    return status.st_size


def refuse_later_format(header: Header, path: Path) -> None:
    """Refuse a file of a later format."""
    if header.version > VERSION:
        raise StoreError(
            f"session file {path} has format {header.version}; this version of panto knows {VERSION}. Update panto"
        )


def _write_all(fd: int, data: bytes) -> None:
    """One write; more only where the system takes it in pieces (a full disk, more than 2 GB)."""
    done = write(fd, data)
    while done < len(data):
        took = write(fd, memoryview(data)[done:])
        if took <= 0:
            raise OSError(f"only {done} of {len(data)} bytes were taken")
        done += took


def _take_back(fd: int, size: int, length: int) -> None:
    """Cut what a failed append left, unless something else was appended after it."""
    with contextlib.suppress(OSError):
        if size < os.fstat(fd).st_size <= size + length:
            os.ftruncate(fd, size)


def _sync(fd: int) -> None:
    sync(fd)


def _sync_directory(directory: Path) -> None:
    """Make the new name durable; Windows has no such thing and needs none."""
    if os.name == "nt":
        return
    fd = os.open(directory, os.O_RDONLY)
    try:
        sync(fd)
    finally:
        os.close(fd)


def _publish(draft: Path, path: Path) -> None:
    """Give the finished file its name, unless there is one of that name."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except (OSError, AttributeError, NotImplementedError):  # a file system without hard links
        if path.exists():
            raise FileExistsError(path) from None
        draft.rename(path)


def _for_owner(fd: int) -> None:
    if change := getattr(os, "fchmod", None):
        with contextlib.suppress(OSError):  # a file system without modes
            change(fd, 0o600)


# ---------------------------------------------------------------- reading


def open_to_read(path: Path) -> int:
    """Open a session's file; `OSError` for what is no regular file, and no waiting on pipes."""
    fd = os.open(path, _READ)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(f"{path} is no regular file")


def glance(path: Path) -> Glance | None:
    """What the first and the last 4 KB of a file tell; `None` if it is no session. Raises `OSError`."""
    fd = open_to_read(path)
    try:
        status = os.fstat(fd)
        size = status.st_size
        head = _read_at(fd, 0, HEAD)
        header = read_header(head.partition(b"\n")[0]) or _long_header(head)
        if header is None:
            return None
        tail = read_tail(head if size <= HEAD else _read_at(fd, size - TAIL, TAIL))
        for length in _FARTHER:
            if tail is not None or size <= TAIL:
                break
            tail = read_tail(_read_at(fd, max(0, size - length), length))
        if tail is None:
            tail = Tail(time=stamp_of(status.st_mtime))
        return Glance(header, tail, status)
    finally:
        os.close(fd)


def holds(fd: int, what: bytes) -> bool:
    """Whether the bytes are anywhere in the file, looked through in pieces of 1 MB."""
    at, step = 0, 1 << 20
    while piece := _read_at(fd, at, step + len(what)):
        if what in piece:
            return True
        at += step
    return False


_CREATED = re.compile(rb'"created"\s*:\s*"([0-9T:.Z+-]{10,40})"')


def _long_header(head: bytes) -> Header | None:
    """The header of a file whose bag is longer than what is read of it."""
    if len(head) < HEAD or b"\n" in head or not head.removeprefix(b"\xef\xbb\xbf").startswith(b'{"type":"session",'):
        return None
    created = _CREATED.search(head)
    return Header("session", created=created[1].decode("ascii") if created else "")


def _end_of(fd: int, size: int) -> tuple[Tail, bool]:
    """The last tail in the file, however far back it is, and whether the last line is torn."""
    length = TAIL
    block = _read_at(fd, max(0, size - length), length)
    torn = not block.endswith(b"\n")
    while (tail := read_tail(block)) is None and length < size:
        length *= 16
        block = _read_at(fd, max(0, size - length), length)
    return tail or Tail(), torn


if hasattr(os, "pread"):

    def _read_at(fd: int, offset: int, length: int) -> bytes:
        return os.pread(fd, length, offset)

else:  # Windows

    def _read_at(fd: int, offset: int, length: int) -> bytes:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, length)


def _why(error: OSError) -> str:
    return error.strerror or str(error)
