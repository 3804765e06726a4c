"""CPU per streamed chunk, through `Agent` and `AsyncAgent`, as a ratio to the floor measured in the same run.

    python bench/chunks.py [--chunks 20000] [--rounds 5]

A loopback server in a process of its own sends the whole answer at once, from prebuilt bytes; where it says "chunked",
each event is an HTTP chunk of its own, as providers send it, and the floor is the same as without. The floor is what
nobody can do without: a bare socket (sync, and under asyncio), the bytes split at blank lines, each event decoded by
msgspec into a type. CPU is that of this process, the best of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

import panto

WORD = " wörd"


def chat_body(chunks: int) -> bytes:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    lines = [
        head | {"choices": [{"index": 0, "delta": {"content": WORD}, "logprobs": None, "finish_reason": None}]}
    ] * chunks
    lines.append(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return b"".join(b"data: " + json.dumps(line).encode() + b"\n\n" for line in lines) + b"data: [DONE]\n\n"


def messages_body(chunks: int) -> bytes:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORD}}] * chunks,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def chunked(body: bytes) -> bytes:
    """The body as HTTP chunks, one for each event."""
    events = [event + b"\n\n" for event in body.split(b"\n\n") if event]
    return b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"


def serve(port: multiprocessing.connection.Connection, body: bytes) -> None:
    """Answer every POST with the body, in HTTP chunks where the path says so; one connection after the other."""
    start = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    whole = start + b"content-length: %d\r\n\r\n" % len(body) + body
    in_chunks = start + b"transfer-encoding: chunked\r\n\r\n" + chunked(body)
    listener = socket.create_server(("127.0.0.1", 0))
    port.send(listener.getsockname()[1])
    while True:
        peer, _ = listener.accept()
        with peer:
            request = b""
            while b"\r\n\r\n" not in request:
                request += peer.recv(65536)
            _, _, rest = request.partition(b"\r\n\r\n")
            length = int(
                next(x for x in request.lower().split(b"\r\n") if x.startswith(b"content-length")).split(b":")[1]
            )
            while len(rest) < length:
                rest += peer.recv(65536)
            peer.sendall(in_chunks if b"/chunked/" in request.partition(b"\r\n")[0] else whole)


class Delta(msgspec.Struct):
    content: str | None = None


class Choice(msgspec.Struct):
    delta: Delta
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    choices: list[Choice]


class TextDelta(msgspec.Struct):
    text: str | None = None


class BlockDelta(msgspec.Struct):
    type: str
    index: int = 0
    delta: TextDelta | None = None


KINDS: dict[str, type] = {"chat": Chunk, "messages": BlockDelta}


def split(data: bytes, decode: Callable[[bytes], object]) -> tuple[int, bytes]:
    *events, rest = data.split(b"\n\n")
    count = 0
    for event in events:
        payload = event[event.find(b"data: ") + 6 :]
        if payload[:1] == b"{":
            decode(payload)
            count += 1
    return count, rest


REQUEST = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}"


def floor_sync(port: int, kind: str) -> int:
    decode, count = msgspec.json.Decoder(KINDS[kind]).decode, 0
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(REQUEST)
        rest = b""
        while data := peer.recv(1 << 18):
            if not rest and data.startswith(b"HTTP"):
                data = data.partition(b"\r\n\r\n")[2]
            got, rest = split(rest + data, decode)
            count += got
    return count


async def floor_async(port: int, kind: str) -> int:
    decode, count = msgspec.json.Decoder(KINDS[kind]).decode, 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST)
    await reader.readuntil(b"\r\n\r\n")
    rest = b""
    while data := await reader.read(1 << 18):
        got, rest = split(rest + data, decode)
        count += got
    writer.close()
    return count


def config(port: int, kind: str) -> panto.Config:
    kind, _, framing = kind.partition(" ")
    base = f"http://127.0.0.1:{port}" + (f"/{framing}" if framing else "")
    if kind == "chat":
        return panto.Config(provider=panto.OpenAIChatConfig(model="m", api_key="k", base_url=base + "/v1"))
    return panto.Config(provider=panto.AnthropicMessagesConfig(model="m", api_key="k", base_url=base))


def agent_sync(port: int, kind: str) -> int:
    count = 0
    with panto.Agent(config(port, kind), panto.NullStore().create()) as agent, agent.run("go") as stream:
        for event in stream:
            match event:
                case panto.ContentDelta():
                    count += 1
    return count


async def agent_async(port: int, kind: str) -> int:
    count = 0
    async with panto.AsyncAgent(config(port, kind), panto.NullStore().create()) as agent, agent.run("go") as stream:
        async for event in stream:
            match event:
                case panto.ContentDelta():
                    count += 1
    return count


def best(rounds: int, chunks: int, work: Callable[[], int]) -> float:
    """Microseconds of CPU a chunk, the best of the rounds."""
    took = []
    for _ in range(rounds):
        began = time.process_time()
        count = work()
        took.append(time.process_time() - began)
        assert count >= chunks, (count, chunks)
    return min(took) / chunks * 1e6


def run_async(work: Callable[[int, str], Awaitable[int]], port: int, kind: str) -> int:
    async def main() -> int:
        return await work(port, kind)

    return asyncio.run(main())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    bodies = {"chat": chat_body, "messages": messages_body}
    for kind in ("chat", "chat chunked", "messages", "messages chunked"):
        wire = kind.partition(" ")[0]
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.get_context("fork").Process(
            target=serve, args=(theirs, bodies[wire](options.chunks)), daemon=True
        )
        server.start()
        port = ours.recv()
        agent_sync(port, kind)  # imports and connections are not what is measured
        rows: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {
            "sync": (partial(floor_sync, port, wire), partial(agent_sync, port, kind)),
            "async": (partial(run_async, floor_async, port, wire), partial(run_async, agent_async, port, kind)),
        }
        for colour, (floor, agent) in rows.items():
            least = best(options.rounds, options.chunks, floor)
            mine = best(options.rounds, options.chunks, agent)
            print(f"{kind:16} {colour:6} floor {least:5.2f} us  panto {mine:5.2f} us  ratio {mine / least:4.2f}")
        server.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
