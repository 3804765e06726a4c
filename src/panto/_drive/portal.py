"""A private event loop in a thread, for async tools, hooks and stores under the sync agent.

Law: made on first use, stopped by `close`; what still runs on it then is cancelled, and no thread is left.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future


class Ended(Exception):
    """What was awaited raised `ended`, which would end the process and so must not go through the loop."""

    def __init__(self, ended: BaseException) -> None:
        super().__init__()
        self.ended = ended


class Portal:
    """Runs awaitables on a loop of its own, and waits for them in the calling thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def submit(self, awaitable: Awaitable[object]) -> Future[object]:
        """Start `awaitable` on the loop; cancelling the future cancels it. `result` tells what it brings."""
        import asyncio

        if self._pid != os.getpid():  # a fork has the loop and not its thread, and perhaps a lock that nobody holds
            self._lock, self._loop, self._thread, self._pid = threading.Lock(), None, None, os.getpid()
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="panto-portal", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(_finish(awaitable), self._loop)

    def wait(self, awaitable: Awaitable[object]) -> object:
        """What `awaitable` brings. An interrupt of the waiting thread cancels it."""
        future = self.submit(awaitable)
        try:
            return result(future)
        except BaseException:
            future.cancel()
            raise

    @property
    def here(self) -> bool:
        """Whether the calling code runs on the portal's own loop, and so must not wait for those who wait for it."""
        return self._thread is threading.current_thread()

    def close(self) -> None:
        """Stop the loop and its thread."""
        if self._pid != os.getpid():
            return
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            if thread is not None and thread is not threading.current_thread():
                thread.join(5)


def result(future: Future[object], timeout: float | None = None) -> object:
    """What a future of `submit` brings, waited for at most `timeout` seconds. Raises whatever was raised there."""
    try:
        return future.result(timeout)
    except Ended as error:
        raise error.ended from None


async def _finish(awaitable: Awaitable[object]) -> object:
    """A coroutine for anything that can be awaited."""
    try:
        return await awaitable
    except (KeyboardInterrupt, SystemExit) as error:
        raise Ended(error) from None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=1))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
