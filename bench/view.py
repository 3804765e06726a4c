"""What a request costs to build from a long history: the first time, and the turn after.

    python bench/view.py [--messages 2000]

The floor is `msgspec.json.encode` of the finished request, once: what anybody pays who keeps nothing. Milliseconds of
CPU, the best of the rounds, one run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import msgspec

from panto import (
    AnthropicMessagesConfig,
    Message,
    MessageRole,
    OpenAIChatConfig,
    ProviderConfig,
    TextPart,
    TextualBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from panto._core.engine import wire_for
from panto._core.view import View
from panto._wire.names import NameTable
from panto.tools import ToolDecl

TOOLS = (ToolDecl("look", "looks at a file", {"type": "object", "properties": {"path": {"type": "string"}}}),)
WORDS = "It says that the quick brown fox jumps over the lazy dog, again and again. " * 6


def history(count: int) -> list[Message]:
    """Rounds of question, call, result and answer."""
    made: list[Message] = []
    while len(made) < count:
        id = f"call_{len(made)}"
        made += [
            Message(MessageRole.USER, [TextualBlock(f"What does file {len(made)} say?")]),
            Message(MessageRole.ASSISTANT, [TextualBlock("I look."), ToolUseBlock(id, "look", '{"path": "a.txt"}')]),
            Message(MessageRole.USER, [ToolResultBlock(id, (TextPart(WORDS),))]),
            Message(MessageRole.ASSISTANT, [TextualBlock(WORDS)]),
        ]
    return made[:count]


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    configs: list[ProviderConfig] = [OpenAIChatConfig(model="m"), AnthropicMessagesConfig(model="m")]
    for config in configs:
        first, turn, floor = [], [], []
        size = 0
        for _ in range(options.rounds):
            messages = history(options.messages)
            wire = wire_for(config, NameTable([("", "look")]))
            view = View(wire.target)

            def build() -> bytes:
                viewed = view.update(messages)
                return wire.request(viewed.system, TOOLS, viewed.items, first=True, key=None).body

            first.append(timed(build))
            messages += history(4)[:1]
            turn.append(timed(build))
            value = msgspec.json.decode(build())
            size = len(msgspec.json.encode(value))
            floor.append(timed(lambda: msgspec.json.encode(value)))
        a, b, c = min(first), min(turn), min(floor)
        print(
            f"{config.wire_identity().api_style:18} {options.messages} messages, {size / 1e6:.1f} MB: "
            f"first {a:6.1f} ms ({a / c:4.1f} of the floor), next turn {b:5.2f} ms ({b / c:4.2f}), floor {c:5.2f} ms"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
