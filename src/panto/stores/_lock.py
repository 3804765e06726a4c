"""One writer at a time for a session file.

Law: the lock is advisory, held for one append, waited for a bounded time, and never left behind by a process that died.

`flock` where there is one, `msvcrt` on Windows. Where neither is to be had (a Python without `fcntl`, a file system
without locks) a lock file beside the session does it: `<id>.lock`, made exclusively, taken from its owner when it is
older than 30 seconds, which no append is. All programs that share a directory must then see it the same way.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

from panto.errors import SessionBusy

__all__ = ["STALE", "exclusive"]

STALE = 30.0
"""Seconds after which a lock file counts as left behind."""

_NO_LOCKS_HERE = {
    getattr(errno, name)
    for name in ("ENOLCK", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EINVAL", "EBADF")
    if hasattr(errno, name)
}

_try_lock: Callable[[int], None] | None = None
"""Take the lock of an open file or raise `BlockingIOError`/`PermissionError`; `None` where the system has none."""
_unlock: Callable[[int], None] | None = None

if sys.platform == "win32":
    import msvcrt

    _FAR = 0x7FFF_0000
    """Windows locks are mandatory: the locked byte lies where no session has one, so that readers go on."""

    def _try_msvcrt(fd: int) -> None:
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

    def _unlock_msvcrt(fd: int) -> None:
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

    _try_lock, _unlock = _try_msvcrt, _unlock_msvcrt
else:
    with contextlib.suppress(ImportError):
        import fcntl

        def _try_flock(fd: int) -> None:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

        def _unlock_flock(fd: int) -> None:
            fcntl.flock(fd, fcntl.LOCK_UN)

        _try_lock, _unlock = _try_flock, _unlock_flock


@contextlib.contextmanager
def exclusive(fd: int, path: Path, timeout: float) -> Generator[None]:
    """Hold the lock of the session file `path`, open as `fd`.

    Raises `SessionBusy` when another writer did not let go of it for `timeout` seconds.
    """
    if _try_lock is not None and _unlock is not None and _wait(lambda: _locked(fd), path, timeout):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                _unlock(fd)
        return
    beside = path.with_suffix(".lock")
    _wait(lambda: _made(beside), path, timeout)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def _wait(attempt: Callable[[], bool | None], path: Path, timeout: float) -> bool:
    """Try until it is had (true) or found impossible (false)."""
    give_up, pause = time.monotonic() + timeout, 0.0005
    while (had := attempt()) is None:
        if time.monotonic() >= give_up:
            raise SessionBusy(
                f"session file {path} is being written by another process; its lock was not had within {timeout:g} s. "
                "Try again, or close the other program"
            )
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    return had


def _locked(fd: int) -> bool | None:
    assert _try_lock is not None
    try:
        _try_lock(fd)
    except (BlockingIOError, PermissionError):
        return None
    except OSError as error:
        if error.errno in _NO_LOCKS_HERE:
            return False
        if error.errno in (errno.EDEADLK, errno.EINTR):
            return None
        raise
    return True


def _made(beside: Path) -> bool | None:
    try:
        fd = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        _take_if_stale(beside)
        return None
    with open(fd, "wb") as file:
        file.write(b"%d\n" % os.getpid())
    return True


def _take_if_stale(beside: Path) -> None:
    with contextlib.suppress(OSError):
        if time.time() - beside.stat().st_mtime > STALE:
            aside = beside.with_suffix(f".stale-{os.getpid()}-{time.monotonic_ns()}")
            beside.rename(aside)  # of two that try, one succeeds
            if time.time() - aside.stat().st_mtime <= STALE:  # it was taken and made anew in between: give it back
                os.link(aside, beside)
            aside.unlink()
