"""Sessions on disk: append, load, list and resume, as ratios measured in one run.

    python bench/sessions.py [--mb 50] [--sessions 5000] [--messages 10000] [--rounds 3] [--json]

Against: one `os.write` of the same bytes (and `fsync`) for append; `json.loads` of every line for load; reading every
file whole by `json.loads` for list; the same again for resume (resolve and load). Times are wall-clock, the best of
the rounds, files in the page cache: what is compared is the work of this process.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import json.decoder
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from panto.config import APIStyle, WireIdentity
from panto.conversation import Conversation, Message, MessageRole, TextPart, TextualBlock, ToolResultBlock, ToolUseBlock
from panto.session import PersistentMessage
from panto.stores import FileSystemJSONLStore
from panto.usage import Usage

IDENTITY = WireIdentity(APIStyle.ANTHROPIC_MESSAGES, "https://api.example.com", "model-1")
TALK = Conversation()
SOURCE = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in (argparse, json.decoder, random))
"""What tools of a coding agent return: source text."""
LINES = (5, 20, 60, 400)
"""Lines in a tool's result: most are short, most bytes are in the long ones."""
WORDS = ["the", "loop", "asks for", "an effect,", "naïve", "`view.py`", '"quoted"', "and then", "日本", "\n\n"]


def turns(chance: random.Random) -> Iterator[list[Message]]:
    """Turns of a coding agent: question, call, result, answer."""
    source = SOURCE.splitlines(keepends=True)

    def words(count: int) -> str:
        return " ".join(chance.choices(WORDS, k=count))

    for at in itertools.count():
        usage = Usage(input_tokens=chance.randrange(9000), output_tokens=90)
        call = ToolUseBlock(f"call_{at}", "read_file", '{"path":"src/panto/view.py"}')
        start = chance.randrange(len(source))
        result = ToolResultBlock(f"call_{at}", (TextPart("".join(source[start : start + chance.choice(LINES)])),))
        calls = [TextualBlock(words(9)), call]
        yield [
            Message(MessageRole.USER, [TextualBlock(words(12))], id=f"{at}-q"),
            Message(MessageRole.ASSISTANT, calls, id=f"{at}-c", identity=IDENTITY, usage=usage),
            Message(MessageRole.USER, [result], id=f"{at}-r"),
            Message(MessageRole.ASSISTANT, [TextualBlock(words(60))], id=f"{at}-a", identity=IDENTITY, usage=usage),
        ]


def records(messages: list[Message]) -> list[PersistentMessage]:
    return [PersistentMessage(each, each.usage, each.identity or IDENTITY, TALK) for each in messages]


def best(rounds: int, work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(rounds):
        gc.collect()
        began = time.perf_counter()
        kept = work()
        times.append(time.perf_counter() - began)
        del kept
    return min(times)


def read_whole(path: Path) -> list[object]:
    with path.open("rb") as file:
        return [json.loads(line) for line in file]


def session_of(directory: Path, megabytes: float = 0, messages: int = 0) -> tuple[FileSystemJSONLStore, str, Path]:
    store = FileSystemJSONLStore(directory, fsync=False)
    id = store.create().info.id
    path = directory / f"{id}.jsonl"
    count = 0
    for turn in turns(random.Random(7)):
        store.append_messages(id, records(turn))
        count += len(turn)
        if (messages and count >= messages) or (megabytes and path.stat().st_size >= megabytes * 1e6):
            return store, id, path
    raise AssertionError


def append(directory: Path, rounds: int) -> dict[str, float]:
    """Seconds an append of one message of about 1 KB, and the same bytes written and synced bare."""
    found: dict[str, float] = {}
    for fsync in (False, True):
        count = 200 if fsync else 2000
        store = FileSystemJSONLStore(directory / f"append-{fsync}", fsync=fsync)
        id = store.create().info.id
        store.append_messages(id, records(next(turns(random.Random(7)))))
        batches = [
            records([Message(MessageRole.USER, [TextualBlock("x" * 700)], id=f"{fsync}-{n}")])
            for n in range(count * rounds)
        ]
        offered = iter(batches)

        def through_the_store() -> None:
            for _ in range(count):
                store.append_messages(id, next(offered))

        line = b"x" * 1100 + b"\n"
        fd = os.open(directory / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def bare() -> None:
            for _ in range(count):
                os.write(fd, line)
                if fsync:
                    os.fsync(fd)

        name = "fsync" if fsync else "no fsync"
        found[f"append, {name}"] = best(rounds, through_the_store) / count
        found[f"bare write, {name}"] = best(rounds, bare) / count
        os.close(fd)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=50)
    parser.add_argument("--sessions", type=int, default=5000)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        directory = Path(base)
        seconds = append(directory, given.rounds)

        store, id, path = session_of(directory / "load", megabytes=given.mb)
        size = path.stat().st_size / 1e6
        seconds["load"] = best(given.rounds, lambda: FileSystemJSONLStore(store.directory).load(id))
        seconds["load, json.loads"] = best(given.rounds, lambda: read_whole(path))

        resumed, resumed_id, resumed_path = session_of(directory / "resume", messages=given.messages)

        def resume() -> object:
            found = FileSystemJSONLStore(resumed.directory).resolve(resumed_id)
            assert found is not None
            return found.load()

        seconds["resume"] = best(given.rounds, resume)
        seconds["resume, json.loads"] = best(given.rounds, lambda: read_whole(resumed_path))

        many = FileSystemJSONLStore(directory / "list", fsync=False)
        source = turns(random.Random(7))
        for _ in range(given.sessions):
            session = many.create().info.id
            for _ in range(3):
                many.append_messages(session, records(next(source)))
        files = sorted(many.directory.glob("*.jsonl"))
        held = sum(file.stat().st_size for file in files) / 1e6
        assert len(many.list()) == given.sessions
        seconds["list"] = best(given.rounds, lambda: FileSystemJSONLStore(many.directory).list())
        seconds["list, read whole"] = best(given.rounds, lambda: [len(read_whole(file)) for file in files])

    ratios = {
        "append to a bare write, no fsync": seconds["append, no fsync"] / seconds["bare write, no fsync"],
        "append to a bare write, fsync": seconds["append, fsync"] / seconds["bare write, fsync"],
        "load to json.loads a line": seconds["load"] / seconds["load, json.loads"],
        "resume to json.loads a line": seconds["resume"] / seconds["resume, json.loads"],
        "list to reading whole": seconds["list"] / seconds["list, read whole"],
    }
    if given.json:
        json.dump({"seconds": seconds, "ratios": ratios}, sys.stdout, indent=1)
        return
    print(f"append without fsync     {seconds['append, no fsync'] * 1e6:9.1f} us  a message of 1 KB")
    print(f"append with fsync        {seconds['append, fsync'] * 1e6:9.1f} us")
    print(f"load {size:.0f} MB               {seconds['load'] * 1e3:9.1f} ms")
    print(f"resume {given.messages} messages    {seconds['resume'] * 1e3:9.1f} ms")
    print(f"list {given.sessions} sessions       {seconds['list'] * 1e3:9.1f} ms  holding {held:.0f} MB")
    print()
    for name, ratio in ratios.items():
        print(f"{ratio:7.3f}  {name}")


if __name__ == "__main__":
    main()
