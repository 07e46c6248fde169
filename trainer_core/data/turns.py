"""Message lists, in OpenAI's spelling (role, content) and ShareGPT's (from, value), as turns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trainer_core.data.example import BadRow, Turn

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "function_call": "assistant",
    "tool": "tool",
    "function": "tool",
    "function_response": "tool",
    "observation": "tool",
    "ipython": "tool",
}

_PASSED_ON = ("name", "tool_call_id")
_REASONING = ("reasoning_content", "thinking", "reasoning")


def parse_turns(value: Any, where: str) -> tuple[Turn, ...]:
    """Turns of a message list, or of one message that stands alone.

    Args:
        value: what stands under the key.
        where: the key, for the wording of a problem.

    Raises:
        BadRow: it is not a list of messages, or one of them has an unknown role or no text.
    """
    if isinstance(value, Mapping):
        return (_turn(value, where),)
    if not isinstance(value, list):
        raise BadRow(f"{where} is {kind_of(value)}, not a list of messages", _EXAMPLE)
    if not value:
        raise BadRow(f"{where} is an empty list", _EXAMPLE)
    return tuple(_turn(item, f"{where}[{index}]") for index, item in enumerate(value))


_EXAMPLE = 'a message is {"role": "user", "content": "..."}'


def _turn(item: Any, where: str) -> Turn:
    if not isinstance(item, Mapping):
        raise BadRow(f"{where} is {kind_of(item)}, not a message", _EXAMPLE)
    named = item.get("role", item.get("from"))
    if named is None:
        raise BadRow(f"{where} has no role", _EXAMPLE)
    role = _ROLES.get(named.strip().lower()) if isinstance(named, str) else None
    if role is None:
        known = "system, user, assistant or tool (ShareGPT: human, gpt, function_call, observation)"
        raise BadRow(
            f"{where} has the unknown role {json.dumps(named, ensure_ascii=False)[:60]}",
            f"use {known}",
        )
    content = item.get("content", item.get("value"))
    extra = {key: item[key] for key in _PASSED_ON if item.get(key) is not None}
    reasoning, content = _reasoning(item, content, where)
    if reasoning and role == "assistant":
        extra["reasoning_content"] = reasoning
    calls = item.get("tool_calls")
    if str(named).strip().lower() == "function_call":
        calls, content = _sharegpt_calls(content, where), ""
    elif role == "assistant" and item.get("function_call") and not calls:
        calls = [item["function_call"]]
    if calls:
        extra["tool_calls"] = [_call(call, where) for call in _list(calls, f"{where}.tool_calls")]
        content = "" if content is None else content
    text = _text(content, where)
    if not text.strip() and "tool_calls" not in extra and role != "tool":
        raise BadRow(f"{where} ({role}) is empty", "remove the row, or fill in the text")
    return Turn(role, text, extra)


def _reasoning(item: Mapping[str, Any], content: Any, where: str) -> tuple[str, Any]:
    """What was thought before the answer, and the content without it.

    It stands under a key of its own, or in parts of the type thinking.
    """
    told = next((item[key] for key in _REASONING if item.get(key)), "")
    thoughts = [require_text(told, f"the reasoning of {where}")] if told else []
    if not isinstance(content, list):
        return "".join(thoughts), content
    rest = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind in ("thinking", "reasoning"):
            thought = part.get("thinking", part.get("text", part.get(kind)))
            thoughts.append(require_text(thought, f"the reasoning of {where}"))
        else:
            rest.append(part)
    return "\n".join(thoughts), rest


def _text(content: Any, where: str) -> str:
    """Text of a content field, which may also be a list of text parts."""
    if isinstance(content, list):
        parts = []
        for part in content:
            if isinstance(part, Mapping) and part.get("type") not in (None, "text"):
                kind = str(part["type"])
                raise BadRow(f"{where} holds a part of the type {kind}", "only text can be trained")
            parts.append(
                require_text(part.get("text") if isinstance(part, Mapping) else part, where)
            )
        return "".join(parts)
    return require_text(content, f"the content of {where}")


def require_text(value: Any, where: str) -> str:
    """The value if it is text that can be written as UTF-8.

    Raises:
        BadRow: it is not.
    """
    if not isinstance(value, str):
        raise BadRow(f"{where} is {kind_of(value)}, not text", "put the text in double quotes")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRow(
            f"{where} holds half of a character (a lone surrogate)",
            r"mend the \ud... escape in the text",
        ) from None
    return value


def _sharegpt_calls(value: Any, where: str) -> list[Any]:
    calls = (
        parse_json_text(value, f"the function call in {where}") if isinstance(value, str) else value
    )
    return calls if isinstance(calls, list) else [calls]


def _call(call: Any, where: str) -> dict[str, Any]:
    """One tool call as chat templates read it: arguments as an object, not as JSON text."""
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise BadRow(
            f"a tool call in {where} has no name", 'write it as {"name": "...", "arguments": {...}}'
        )
    arguments = function.get("arguments", function.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = (
            parse_json_text(arguments, f"the arguments of a tool call in {where}")
            if arguments
            else {}
        )
    made = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
    if isinstance(call, Mapping) and isinstance(call.get("id"), str):
        made["id"] = call["id"]
    return made


def parse_tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Tool definitions, from a list or JSON text of one, with or without `function` around each.

    Raises:
        BadRow: they are none of these.
    """
    if value is None or value == "" or value == []:
        return ()
    if isinstance(value, str):
        value = parse_json_text(value, "tools")
    tools = []
    for index, tool in enumerate(_list(value, "tools")):
        function = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            hint = 'write it as {"type": "function", "function": {"name": ..., "parameters": ...}}'
            raise BadRow(f"tools[{index}] is not a tool definition", hint)
        tools.append({"type": "function", "function": dict(function)})
    return tuple(tools)


def parse_json_text(text: str, where: str) -> Any:
    """The value of JSON that is held in a text.

    Raises:
        BadRow: the text is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadRow(
            f"{where} is not valid JSON", "write it as an object, or mend the JSON text"
        ) from None


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadRow(f"{where} is {kind_of(value)}, not a list", "write it as a list")
    return value


def kind_of(value: Any) -> str:
    """A JSON value's kind in plain words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"
