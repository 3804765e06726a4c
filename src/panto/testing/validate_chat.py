"""What OpenAI's chat completions, and strict hosts that speak them, refuse.

Law: each rule names its source; a rule that one kind of model makes applies to the models its vendor names.
"""

from __future__ import annotations

import json
import re
from typing import Final

from ._checks import TOOL_NAME, Checks, Object, is_array, is_object, says

_KEYS: Final[dict[str, frozenset[str]]] = {
    "system": frozenset({"role", "content", "name", "cache_control"}),
    "developer": frozenset({"role", "content", "name", "cache_control"}),
    # Empty `tool_calls` on a user's message: some clients send them, and hosts take them.
    "user": frozenset({"role", "content", "name", "cache_control", "tool_calls"}),
    # The reasoning keys are DeepSeek's, Groq's and OpenRouter's, `extra_content` Google's, `reasoning_opaque` GitHub's.
    "assistant": frozenset(
        {
            "role",
            "content",
            "name",
            "tool_calls",
            "refusal",
            "audio",
            "cache_control",
            "prefix",
            "reasoning",
            "reasoning_content",
            "reasoning_details",
            "reasoning_opaque",
            "extra_content",
        }
    ),
    "tool": frozenset({"role", "content", "tool_call_id", "name", "cache_control"}),
}

_PARTS: Final[dict[str, frozenset[str]]] = {
    "system": frozenset({"text"}),
    "developer": frozenset({"text"}),
    "user": frozenset({"text", "image_url", "input_audio", "file", "video_url", "document_url"}),
    # `thinking` is Mistral's.
    "assistant": frozenset({"text", "refusal", "thinking"}),
    "tool": frozenset({"text", "image_url", "file"}),
}

REASONS: Final = re.compile(r"(o[134]|gpt-5)(-(?!chat)|$)")
"""OpenAI's reasoning models (https://platform.openai.com/docs/guides/reasoning, 2026-12)."""

NO_PROMPT: Final = re.compile(r"o1-(mini|preview)")
"""Models that refuse `system` and `developer` messages."""

NO_EFFORT: Final = re.compile(r"grok-(code|3(?!-mini))")
"""xAI: "grok-code-fast-1 does not support parameter reasoningEffort" (https://docs.x.ai/docs/guides/reasoning)."""

_CALL_ID_MAX: Final = 64


def check_chat(checks: Checks, body: Object) -> None:
    """The whole body of a chat completion request."""
    messages = body.get("messages")
    if not is_array(messages):
        checks.bad("messages", "must be an array")
        return
    checks.need(bool(messages), "messages", "an empty array; at least one message is needed")
    tools = _check_tools(checks, body)
    _check_options(checks, body, tools)
    open_calls: dict[str, str] = {}
    for at, message in enumerate(messages):
        path = f"messages[{at}]"
        if not is_object(message):
            checks.bad(path, "must be an object")
            continue
        role = message.get("role")
        if not isinstance(role, str) or role not in _KEYS:
            checks.bad(f"{path}.role", f"unknown role {role!r}")
            continue
        checks.keys(path, message, _KEYS[role])
        if role != "tool":
            # "An assistant message with 'tool_calls' must be followed by tool messages responding to each."
            for call, where in open_calls.items():
                checks.bad(path, f"comes before the result of {call!r} ({where})")
            open_calls = {}
        _check_content(checks, path, role, message)
        match role:
            case "system" | "developer":
                checks.need(at == 0, f"{path}.role", "a system message must be the first and only one")
                model = body.get("model")
                refuses = isinstance(model, str) and NO_PROMPT.match(model) is not None
                checks.need(not refuses, f"{path}.role", f"does not support {role!r} with this model")
            case "user":
                checks.need(not message.get("tool_calls"), f"{path}.tool_calls", "a user calls no tools")
            case "assistant":
                open_calls = _check_calls(checks, path, message)
            case _:
                call_id = message.get("tool_call_id")
                known = isinstance(call_id, str) and open_calls.pop(call_id, None) is not None
                # "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'"
                checks.need(known, f"{path}.tool_call_id", f"{call_id!r} answers no open call")
    for call, where in open_calls.items():
        checks.bad(where, f"the call {call!r} has no result")


def _check_content(checks: Checks, path: str, role: str, message: Object) -> None:
    content = message.get("content")
    path = f"{path}.content"
    if content is None:
        holds = role == "assistant" and bool(message.get("tool_calls"))
        checks.need(holds, path, "may be null only in an assistant message with tool calls")
    elif isinstance(content, str):
        blank_is_fine = role in ("assistant", "tool")
        checks.need(blank_is_fine or bool(content.strip()), path, "is blank")
    elif is_array(content):
        checks.need(bool(content) or role == "tool", path, "an empty array")
        for at, part in enumerate(content):
            _check_part(checks, f"{path}[{at}]", role, part)
    else:
        checks.bad(path, "must be a string or an array of parts")
    if role == "assistant" and not message.get("tool_calls"):
        reasoning = [key for key in message if key.startswith("reasoning") and message[key]]
        empty = content is None or content == [] or (isinstance(content, str) and not content.strip())
        checks.need(not empty or bool(reasoning), path, "an assistant message that says nothing")


def _check_part(checks: Checks, path: str, role: str, part: object) -> None:
    if not is_object(part):
        checks.bad(path, "must be an object")
        return
    kind = part.get("type")
    if not isinstance(kind, str):
        checks.bad(f"{path}.type", "missing required parameter")
        return
    checks.need(kind in _PARTS[role], f"{path}.type", f"{kind!r} has no place in a message of {role}")
    match kind:
        case "text":
            checks.need(isinstance(part.get("text"), str), f"{path}.text", "must be a string")
            checks.need(role in ("assistant", "tool") or says(part.get("text")), f"{path}.text", "is blank")
        case "image_url":
            image = part.get("image_url")
            url = image.get("url") if is_object(image) else image
            if not isinstance(url, str):
                checks.bad(f"{path}.image_url", "must name a URL")
            elif url.startswith("data:"):
                head, _, data = url[5:].partition(",")
                checks.image(f"{path}.image_url", head.partition(";")[0], data)
        case _:
            checks.need(kind in part, f"{path}.{kind}", "missing required parameter")


def _check_calls(checks: Checks, path: str, message: Object) -> dict[str, str]:
    calls = message.get("tool_calls")
    if calls is None:
        return {}
    if not is_array(calls) or not calls:
        checks.bad(f"{path}.tool_calls", "must be an array with at least one call")
        return {}
    opened: dict[str, str] = {}
    for at, call in enumerate(calls):
        where = f"{path}.tool_calls[{at}]"
        function = call.get("function") if is_object(call) else None
        if not is_object(call) or not is_object(function):
            checks.bad(where, "must be an object with a function")
            continue
        checks.need(call.get("type") == "function", f"{where}.type", "must be 'function'")
        call_id = call.get("id")
        if isinstance(call_id, str) and 0 < len(call_id) <= _CALL_ID_MAX:
            checks.need(call_id not in opened, f"{where}.id", f"{call_id!r} is used twice")
            opened[call_id] = where
        else:
            checks.bad(f"{where}.id", f"must be a string of 1 to {_CALL_ID_MAX} characters")
        name = function.get("name")
        fine = isinstance(name, str) and TOOL_NAME.fullmatch(name) is not None
        checks.need(fine, f"{where}.function.name", f"{name!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$")
        checks.need(_is_json_object(function.get("arguments")), f"{where}.function.arguments", "must be a JSON object")
    return opened


def _is_json_object(text: object) -> bool:
    def refuse(constant: str) -> object:
        raise ValueError(constant)

    if not isinstance(text, str):
        return False
    try:
        return isinstance(json.loads(text, parse_constant=refuse, parse_int=float), dict)
    except (ValueError, RecursionError):
        return False


def _check_tools(checks: Checks, body: Object) -> set[str]:
    tools = body.get("tools")
    if tools is None:
        return set()
    if not is_array(tools):
        checks.bad("tools", "must be an array")
        return set()
    names: set[str] = set()
    for at, tool in enumerate(tools):
        path = f"tools[{at}]"
        function = tool.get("function") if is_object(tool) else None
        if not is_object(tool) or tool.get("type") != "function" or not is_object(function):
            checks.bad(path, "must be an object of type 'function' with a function")
            continue
        name = function.get("name")
        if not isinstance(name, str) or TOOL_NAME.fullmatch(name) is None:
            checks.bad(f"{path}.function.name", f"{name!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$")
            continue
        checks.need(name not in names, f"{path}.function.name", f"{name!r}: tool names must be unique")
        names.add(name)
        schema = function.get("parameters")
        fine = schema is None or (is_object(schema) and schema.get("type", "object") == "object")
        checks.need(fine, f"{path}.function.parameters", "must be the schema of an object")
    return names


def _check_options(checks: Checks, body: Object, tools: set[str]) -> None:
    checks.number(body, "temperature", 0, 2)
    checks.number(body, "top_p", 0, 1)
    for key in ("frequency_penalty", "presence_penalty"):
        checks.number(body, key, -2, 2)
    for key in ("max_tokens", "max_completion_tokens", "n"):
        checks.number(body, key, 1, 2**31, whole=True)
    both = body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None
    checks.need(not both, "max_tokens", "cannot stand beside max_completion_tokens")
    stream = body.get("stream")
    checks.need(stream is None or isinstance(stream, bool), "stream", "must be true or false")
    if body.get("stream_options") is not None:
        checks.need(stream is True, "stream_options", "only allowed when stream is true")
    model = body.get("model")
    if isinstance(model, str):
        checks.need(bool(model.strip()), "model", "is blank")
        if REASONS.match(model):
            checks.need(body.get("max_tokens") is None, "max_tokens", "use max_completion_tokens with this model")
        if NO_EFFORT.match(model):
            checks.need(body.get("reasoning_effort") is None, "reasoning_effort", "not supported with this model")
    elif model is not None:
        checks.bad("model", "must be a string")
    _check_choice(checks, body, tools)


def _check_choice(checks: Checks, body: Object, tools: set[str]) -> None:
    choice = body.get("tool_choice")
    if not tools:
        checks.need(choice in (None, "none", "auto"), "tool_choice", "only allowed when tools are specified")
        # OpenAI's rule; xAI takes it.
        model = body.get("model")
        takes = isinstance(model, str) and model.startswith("grok")
        alone = body.get("parallel_tool_calls") is not None and not takes
        checks.need(not alone, "parallel_tool_calls", "only allowed when tools are specified")
        return
    if is_object(choice):
        function = choice.get("function")
        name = function.get("name") if is_object(function) else None
        checks.need(name in tools, "tool_choice", f"names no tool of the request: {name!r}")
    elif choice is not None:
        # `any` is Mistral's word for `required`.
        checks.need(choice in ("none", "auto", "required", "any"), "tool_choice", f"unknown value {choice!r}")
    thinking = body.get("thinking")
    if is_object(thinking) and thinking.get("type") == "enabled":
        # DeepSeek: "Thinking mode does not support this tool_choice".
        checks.need(choice in (None, "auto", "none"), "tool_choice", "thinking mode does not support this tool_choice")
