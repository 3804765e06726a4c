"""How long `panto` takes to start: the version, and the first text of an answer.

Run: python bench/cli.py [rounds]

Two figures, each against bare Python in the same run, best and median of some rounds (30 unless told otherwise):
`panto --version` minus `python -c pass` (aim: 120 ms), and from the start of the process to the first text of a
scripted answer on its standard output, the server being on loopback in a process of its own (aim: 200 ms).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SERVER = """
import socket
chunks = b"".join(b"data: " + text + b"\\n\\n" for text in (
    b'{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}',
    b'{"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}', b"[DONE]"))
reply = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\nConnection: close\\r\\n\\r\\n" + chunks
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    peer, _ = server.accept()
    data = b""
    while b"\\r\\n\\r\\n" not in data:
        data += peer.recv(65536)
    head, _, body = data.partition(b"\\r\\n\\r\\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\\r\\n")[1:])
    length = int(fields[b"content-length"])
    while len(body) < length:
        body += peer.recv(65536)
    peer.sendall(reply)
    peer.close()
"""


def first_byte(argv: list[str], env: dict[str, str]) -> float:
    """Seconds from the start of a process to its first byte, or to its end if it says nothing."""
    begin = time.perf_counter()
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        return time.perf_counter() - begin


def whole(argv: list[str], env: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with (
        tempfile.TemporaryDirectory() as home,
        subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdout is not None
        try:
            env = {
                "PATH": os.environ.get("PATH", ""),
                "HOME": home,
                "OPENAI_API_KEY": "sk-bench",
                "OPENAI_BASE_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}/v1",
                "PANTO_STORE": str(Path(home) / "sessions"),
            }
            panto = [sys.executable, "-c", "import panto_cli; panto_cli.main()"]
            times: dict[str, list[float]] = {"python": [], "version": [], "first text": []}
            for _ in range(rounds):  # side by side, so that a busy machine is busy for all of them
                times["python"].append(whole([sys.executable, "-c", "pass"], env))
                times["version"].append(whole([*panto, "--version"], env))
                times["first text"].append(first_byte([*panto, "hello"], env))
        finally:
            server.terminate()
    bare = {"best": min(times["python"]), "median": statistics.median(times["python"])}
    print(f"{'':34}{'best':>8}{'median':>8}   ms, {rounds} rounds")
    for name, label, minus in (
        ("python", "python -c pass", False),
        ("version", "panto --version over that", True),
        ("first text", "start to first text of an answer", False),
    ):
        best, median = min(times[name]), statistics.median(times[name])
        if minus:
            best, median = best - bare["best"], median - bare["median"]
        print(f"{label:34}{best * 1000:8.0f}{median * 1000:8.0f}")


if __name__ == "__main__":
    main()
