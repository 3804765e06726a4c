"""A target for Atheris: coverage-guided fuzzing of both decoders. Run by hand; see docs/fuzzing.md.

    python -m tests.fuzz.atheris_decoders [libFuzzer options] CORPUS

The first byte of an input chooses the wire and the second how it is cut; the rest is the body. The checks are those of
the property tests (`reading.read`). `--seeds CORPUS` writes the streams to start from and ends.
"""

from __future__ import annotations

import sys
from itertools import cycle
from pathlib import Path

import atheris  # type: ignore[import-not-found]

with atheris.instrument_imports(include=["panto._wire"]):
    from .reading import WireName, read
    from .seeds import CHAT, MESSAGES, written

WIRES: tuple[WireName, WireName] = ("chat", "messages")


def one_input(data: bytes) -> None:
    if len(data) < 2:
        return
    wire, step, body = WIRES[data[0] & 1], data[1] % 64, data[2:]
    chunks = [body[at : at + step] for at in range(0, len(body), step)] if step else [body]
    assert read(wire, chunks).told() == read(wire, [body]).told()


def write_seeds(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    steps = cycle([0, 1, 7, 40])
    for number, seeds in enumerate((CHAT, MESSAGES)):
        for name, events in seeds.items():
            (folder / f"{WIRES[number]}-{name.replace(' ', '-')}").write_bytes(
                bytes([number, next(steps)]) + written(events)
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--seeds"]:
        write_seeds(Path(sys.argv[2]))
    else:
        atheris.Setup(sys.argv, one_input)
        atheris.Fuzz()
