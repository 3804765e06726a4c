"""What Anthropic's Messages refuse.

Law: each rule is the vendor's, from https://platform.claude.com/docs/en/ (2026-12) or from an error message of the API.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ._checks import CALL_ID, Checks, Object, is_array, is_object, says
from .strict_schema import check_strict

_KEYS: Final = frozenset(
    {
        "cache_control",
        "container",
        "context_management",
        "inference_geo",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")

_BLOCKS: Final[dict[str, frozenset[str]]] = {
    "text": frozenset({"type", "text", "cache_control", "citations"}),
    "image": frozenset({"type", "source", "cache_control"}),
    "document": frozenset({"type", "source", "title", "context", "citations", "cache_control"}),
    "search_result": frozenset({"type", "source", "title", "content", "citations", "cache_control"}),
    "container_upload": frozenset({"type", "file_id", "cache_control"}),
    "tool_use": frozenset({"type", "id", "name", "input", "caller", "cache_control"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
    # No cache_control: "thinking blocks cannot be marked".
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
}
"""Keys of the blocks a client may write. All others (of server tools) are the vendor's own and go back as they came."""

_USER: Final = frozenset({"text", "image", "document", "search_result", "container_upload", "tool_result"})
_ASSISTANT: Final = frozenset({"text", "tool_use", "thinking", "redacted_thinking"})
_IN_RESULT: Final = frozenset({"text", "image", "document", "search_result", "tool_reference"})

_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
NO_XHIGH: Final = re.compile(r"claude-(opus-4-[56]|sonnet-4-6)")
"""Models that know efforts, but not `xhigh` (build-with-claude/effort)."""


def check_messages(checks: Checks, body: Object) -> None:
    """The whole body of a Messages request."""
    checks.keys("body", body, _KEYS)
    checks.need(says(body.get("model")), "model", "field required")
    checks.need(isinstance(body.get("max_tokens"), int), "max_tokens", "field required")
    checks.number(body, "max_tokens", 1, 2**31, whole=True)
    checks.number(body, "temperature", 0, 1)
    checks.number(body, "top_p", 0, 1)
    _check_system(checks, body.get("system"))
    stops = body.get("stop_sequences")
    for at, stop in enumerate(stops if is_array(stops) else ()):
        checks.need(says(stop), f"stop_sequences[{at}]", "each stop sequence must contain non-whitespace")
    _check_tools(checks, body)
    _check_thinking(checks, body)
    marks = _marks(body)
    checks.need(marks <= 4, "cache_control", f"a maximum of 4 blocks may be marked, found {marks}")
    messages = body.get("messages")
    if not is_array(messages) or not messages:
        checks.bad("messages", "at least one message is required")
        return
    turns: list[tuple[str, str, list[Object]]] = []
    for at, message in enumerate(messages):
        _check_message(checks, f"messages[{at}]", message, at == len(messages) - 1, turns)
    if turns:
        checks.need(turns[0][0] == "user", "messages[0].role", "the first message must be the user's")
    _check_pairs(checks, turns)


def _check_message(
    checks: Checks, path: str, message: object, last: bool, turns: list[tuple[str, str, list[Object]]]
) -> None:
    if not is_object(message) or message.get("role") not in ("user", "assistant"):
        checks.bad(path, "must be an object whose role is 'user' or 'assistant'")
        return
    role = str(message["role"])
    checks.keys(path, message, frozenset({"role", "content"}))
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    if not is_array(content):
        checks.bad(f"{path}.content", "must be a string or an array of blocks")
        return
    # "all messages must have non-empty content except for the optional final assistant message"
    checks.need(bool(content) or (last and role == "assistant"), f"{path}.content", "is empty")
    blocks: list[Object] = []
    for at, block in enumerate(content):
        if is_object(block) and isinstance(block.get("type"), str):
            blocks.append(block)
            _check_block(checks, f"{path}.content[{at}]", role, block)
        else:
            checks.bad(f"{path}.content[{at}]", "must be an object with a type")
    if role == "assistant" and blocks:
        final = blocks[-1]
        # "The final block in an assistant message cannot be `thinking`."
        checks.need(
            last or final["type"] not in ("thinking", "redacted_thinking"),
            f"{path}.content",
            "the final block in an assistant message cannot be `thinking`",
        )
        text = final.get("text")
        # "final assistant content cannot end with trailing whitespace"
        trails = last and isinstance(text, str) and text != text.rstrip()
        checks.need(not trails, f"{path}.content", "final assistant content cannot end with trailing whitespace")
    if turns and turns[-1][0] == role:  # "consecutive turns will be combined into a single turn"
        turns[-1][2].extend(blocks)
    else:
        turns.append((role, path, blocks))


def _check_block(checks: Checks, path: str, role: str, block: Object) -> None:
    kind = str(block["type"])
    if kind not in _BLOCKS:
        # A server tool's block: only an answer holds them.
        checks.need(role == "assistant", path, f"{kind!r} has no place in a user's message")
        return
    checks.keys(path, block, _BLOCKS[kind])
    allowed = _USER if role == "user" else _ASSISTANT
    checks.need(kind in allowed, path, f"{kind!r} has no place in a message of {role}")
    match kind:
        case "text":
            # "text content blocks must be non-empty", "... must contain non-whitespace text"
            checks.need(says(block.get("text")), f"{path}.text", "text content blocks must contain non-whitespace text")
        case "image" | "document":
            _check_source(checks, f"{path}.source", kind, block.get("source"))
        case "tool_use":
            call_id, name = block.get("id"), block.get("name")
            fine = isinstance(call_id, str) and CALL_ID.fullmatch(call_id) is not None
            checks.need(fine, f"{path}.id", f"{call_id!r} does not match ^[a-zA-Z0-9_-]+$")
            fine = isinstance(name, str) and _NAME.fullmatch(name) is not None
            checks.need(fine, f"{path}.name", f"{name!r} does not match ^[a-zA-Z0-9_-]{{1,128}}$")
            checks.need(is_object(block.get("input")), f"{path}.input", "input should be a valid dictionary")
        case "tool_result":
            _check_result(checks, path, block)
        case "thinking":
            checks.need(isinstance(block.get("thinking"), str), f"{path}.thinking", "field required")
            checks.need(bool(block.get("signature")), f"{path}.signature", "field required")
        case "redacted_thinking":
            checks.need(bool(block.get("data")), f"{path}.data", "field required")
        case _:
            pass


def _check_source(checks: Checks, path: str, kind: str, source: object) -> None:
    if not is_object(source):
        checks.bad(path, "field required")
    elif source.get("type") == "base64" and kind == "image":
        checks.image(path, source.get("media_type"), source.get("data"))
    elif source.get("type") == "base64":
        checks.need(source.get("media_type") == "application/pdf", path, "a base64 document must be a PDF")


def _check_result(checks: Checks, path: str, block: Object) -> None:
    content = block.get("content")
    parts: Sequence[object] = content if is_array(content) else ()
    for at, part in enumerate(parts):
        where = f"{path}.content[{at}]"
        if not is_object(part) or part.get("type") not in _IN_RESULT:
            checks.bad(where, "a result holds text, images, documents, search results")
        elif part["type"] == "text":
            checks.need(says(part.get("text")), where, "text content blocks must contain non-whitespace text")
        elif part["type"] in ("image", "document"):
            _check_source(checks, f"{where}.source", str(part["type"]), part.get("source"))
    if not is_array(content):
        checks.need(content is None or isinstance(content, str), f"{path}.content", "must be a string or an array")
    # "content cannot be empty if `is_error` is true"
    checks.need(not block.get("is_error") or bool(content), f"{path}.content", "cannot be empty if `is_error` is true")


def _check_pairs(checks: Checks, turns: list[tuple[str, str, list[Object]]]) -> None:
    """Each call has its result in the next message, each result its call in the one before."""
    used: set[str] = set()
    server: set[object] = set()
    waiting: list[object] = []
    for at, (role, path, blocks) in enumerate(turns):
        results = [b.get("tool_use_id") for b in blocks if b["type"] == "tool_result"]
        for call_id in results:
            checks.need(call_id in waiting, path, f"unexpected `tool_use_id` in `tool_result` blocks: {call_id!r}")
        checks.need(len(set(map(str, results))) == len(results), path, "each tool_use must have a single result")
        for call_id in waiting:
            checks.need(call_id in results, path, f"`tool_use` without `tool_result` immediately after: {call_id!r}")
        first = [b["type"] == "tool_result" for b in blocks[: len(results)]]
        checks.need(all(first), path, "tool_result blocks must come first in the content")
        waiting = [b.get("id") for b in blocks if b["type"] == "tool_use"]
        for call_id in map(str, waiting):
            checks.need(call_id not in used, path, f"`tool_use` ids must be unique: {call_id!r}")
            used.add(call_id)
        if role == "assistant":
            for block in blocks:
                kind = str(block["type"])
                if kind.endswith("_tool_use"):
                    server.add(block.get("id"))
                elif kind.endswith("_tool_result"):
                    known = block.get("tool_use_id") in server
                    checks.need(known, path, f"`{kind}` must have a corresponding `server_tool_use` block before it")
            if at < len(turns) - 1 and not waiting:
                # "`web_search` tool use with id ... was found without a corresponding `web_search_tool_result` block"
                answered = {b.get("tool_use_id") for b in blocks}
                for block in blocks:
                    use = block.get("id") if block["type"] == "server_tool_use" else None
                    checks.need(use is None or use in answered, path, f"the server tool use {use!r} has no result")
        if at == len(turns) - 1:
            for call_id in waiting:
                checks.bad(path, f"`tool_use` without `tool_result` immediately after: {call_id!r}")


def _check_system(checks: Checks, system: object) -> None:
    if system is None:
        return
    if isinstance(system, str):
        return
    if not is_array(system):
        checks.bad("system", "must be a string or an array of text blocks")
        return
    for at, block in enumerate(system):
        text = block.get("text") if is_object(block) and block.get("type") == "text" else None
        checks.need(says(text), f"system[{at}]", "system: text content blocks must be non-empty")


def _check_tools(checks: Checks, body: Object) -> None:
    tools = body.get("tools")
    tools = tools if is_array(tools) else ()
    names: set[object] = set()
    strict: list[tuple[str, Object]] = []
    for at, tool in enumerate(tools):
        path = f"tools[{at}]"
        name = tool.get("name") if is_object(tool) else None
        if not is_object(tool) or not isinstance(name, str) or _NAME.fullmatch(name) is None:
            checks.bad(f"{path}.name", f"{name!r} does not match ^[a-zA-Z0-9_-]{{1,128}}$")
            continue
        checks.need(name not in names, f"{path}.name", "tool names must be unique")
        names.add(name)
        if tool.get("type") not in (None, "custom"):
            continue
        schema = tool.get("input_schema")
        if not is_object(schema):
            checks.bad(f"{path}.input_schema", "input does not match the expected shape")
        elif schema.get("type") != "object":
            checks.bad(f"{path}.input_schema.type", "field required, must be 'object'")
        elif tool.get("strict") is True:
            strict.append((f"{path}.input_schema", schema))
    check_strict(checks, strict)
    outputs = [body.get("output_format")]
    if is_object(config := body.get("output_config")):
        outputs.append(config.get("format"))
        effort, model = config.get("effort"), body.get("model")
        knows = effort is None or effort in _EFFORTS
        if isinstance(model, str) and NO_XHIGH.match(model):
            knows = knows and effort != "xhigh"
        checks.need(knows, "output_config.effort", f"this model does not support effort level {effort!r}")
    for output in outputs:
        if is_object(output) and is_object(schema := output.get("schema")):
            check_strict(checks, [("output_format.schema", schema)])
    choice = body.get("tool_choice")
    if is_object(choice):
        kind = choice.get("type")
        checks.need(kind in ("auto", "any", "tool", "none"), "tool_choice.type", f"unknown type {kind!r}")
        checks.need(bool(tools), "tool_choice", "may only be specified while providing tools")
        if kind == "tool":
            checks.need(choice.get("name") in names, "tool_choice.name", "names no tool of the request")
    else:
        checks.need(choice is None, "tool_choice", "must be an object")


def _check_thinking(checks: Checks, body: Object) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = thinking.get("type") if is_object(thinking) else None
    known = ("enabled", "disabled", "adaptive", "between_tools")
    if not is_object(thinking) or not checks.need(kind in known, "thinking.type", f"unknown type {kind!r}"):
        return
    if kind != "enabled":
        return
    budget, most = thinking.get("budget_tokens"), body.get("max_tokens")
    if not checks.need(isinstance(budget, int), "thinking.budget_tokens", "field required"):
        return
    assert isinstance(budget, int)
    checks.need(budget >= 1024, "thinking.budget_tokens", "must be at least 1024")
    checks.need(
        not isinstance(most, int) or budget < most, "max_tokens", "must be greater than `thinking.budget_tokens`"
    )
    checks.need(body.get("temperature") in (None, 1), "temperature", "may only be 1 when thinking is enabled")
    choice = body.get("tool_choice")
    forced = is_object(choice) and choice.get("type") in ("any", "tool")
    checks.need(not forced, "tool_choice", "thinking may not be enabled when tool_choice forces tool use")


def _marks(value: object) -> int:
    if is_object(value):
        here = value.get("cache_control") is not None
        return here + sum(_marks(item) for key, item in value.items() if key not in ("input", "input_schema"))
    if is_array(value):
        return sum(_marks(item) for item in value)
    return 0
