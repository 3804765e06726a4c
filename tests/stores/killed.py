"""A process that kills its children while they write sessions, and looks at what is left.

Run as `python -m tests.stores.killed DIRECTORY KILLS SEED`; prints one JSON object of what it saw. Its own process,
because it forks: 300 interpreters started anew would take minutes.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import random
import signal
import sys
import time
from typing import NoReturn

from tests.stores.records import answer, record, user

from panto.conversation import Conversation
from panto.stores import FileSystemJSONLStore, _jsonl_file

inside = mmap.mmap(-1, 1)
"""Shared with the children: 1 while one is in the middle of a write."""


def slow_write(fd: int, data: bytes) -> int:
    """A write in pieces, as a disk under load does it, so that a kill can fall between them."""
    inside[0] = 1
    piece = max(1, len(data) // 12)
    for at in range(0, len(data), piece):
        os.write(fd, data[at : at + piece])
        time.sleep(0.0004)
    inside[0] = 0
    return len(data)


def write_until_killed(directory: str, id: str, again: list[str], run: int, out: int) -> NoReturn:
    """Go on with the session: first what was offered and not acknowledged, then more and more."""
    _jsonl_file.write = slow_write
    store = FileSystemJSONLStore(directory, fsync=run % 2 == 0)
    talk = Conversation("bag")
    for at in range(10_000):
        names = again if at == 0 and again else [f"{run}.{at}.q", f"{run}.{at}.a"]
        batch = []
        for name in names:
            message = user("é" * 400) if name.endswith("q") else answer("🦊" * 300)
            message.id = name
            batch.append(record(message, talk))
        os.write(out, f"offer {' '.join(names)}\n".encode())
        store.append_messages(id, batch)
        os.write(out, f"kept {' '.join(names)}\n".encode())
    os._exit(1)


def main(directory: str, kills: int, seed: int) -> dict[str, object]:
    chance = random.Random(seed)
    logging.getLogger("panto").addHandler(logging.NullHandler())
    ids = [FileSystemJSONLStore(directory).create().info.id for _ in range(12)]
    kept: dict[str, list[str]] = {id: [] for id in ids}
    offered: dict[str, list[str]] = {id: [] for id in ids}
    hits = torn = 0
    for run in range(kills):
        id = ids[run * len(ids) // kills]
        read, write = os.pipe()
        inside[0] = 0
        child = os.fork()
        if child == 0:
            try:
                os.close(read)
                write_until_killed(directory, id, offered[id], run, write)
            except BaseException as error:
                os.write(write, f"failed {error!r}\n".encode())
            finally:
                os._exit(1)
        os.close(write)
        with open(read, "rb") as file:
            first = file.readline()  # the child is under way
            time.sleep(chance.uniform(0, 0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            hits += inside[0]
            lines = (first + file.read()).decode().splitlines()
        offered[id] = []
        for line in lines:
            what, *names = line.split(" ")
            assert what != "failed", line
            if what == "offer":
                offered[id] = names
            else:
                kept[id] += names
                offered[id] = []
        torn += looked_at(directory, id, kept[id], offered[id])
    for id in ids:
        looked_at(directory, id, kept[id], offered[id])
        finish(directory, id, kept[id], offered[id])
    return {"kills": kills, "inside": hits, "torn": torn, "kept": sum(len(names) for names in kept.values())}


def looked_at(directory: str, id: str, kept: list[str], offered: list[str]) -> bool:
    """Every acknowledged message loads, in order, once; beyond them at most what was offered last. Was the end torn?"""
    store = FileSystemJSONLStore(directory)
    listed = {info.id for info in store.list()}
    found = store.load(id)
    names = [] if found is None else [message.id for message in found.messages]
    assert names[: len(kept)] == kept, (id, names, kept)
    rest = names[len(kept) :]
    assert rest == offered[: len(rest)], (id, rest, offered)
    assert (id in listed) == (found is not None)
    if found is None:
        return False
    assert found.metadata == "bag"
    assert store.latest() is not None
    path = store.directory / f"{id}.jsonl"
    return not path.read_bytes().endswith(b"\n")


def finish(directory: str, id: str, kept: list[str], offered: list[str]) -> None:
    """The next run works."""
    store = FileSystemJSONLStore(directory)
    last = answer("the end")
    again = []
    for name in offered:
        message = user("again") if name.endswith("q") else answer("again")
        message.id = name
        again.append(record(message))
    store.append_messages(id, [*again, record(last)])
    found = FileSystemJSONLStore(directory).load(id)
    assert found is not None
    assert [message.id for message in found.messages] == [*kept, *offered, last.id]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
