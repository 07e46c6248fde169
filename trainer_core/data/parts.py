"""Prompts and answers as rows hold them: text, message lists, Alpaca fields, and their aliases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer_core.data.example import BadRow, Turn, as_turns
from trainer_core.data.turns import kind_of, parse_turns, require_text

CONVERSATIONS = ("messages", "conversations", "conversation")
PROMPTS = ("prompt", "question", "query", "instruction", "input")
ANSWERS = ("completion", "response", "answer", "output")
CONTEXTS = ("input", "context")

Part = str | tuple[Turn, ...]


def prompt_of(row: Mapping[str, Any], answer: str) -> tuple[Part, str]:
    """Prompt of a row that is not a message list as a whole, and the name of the row's shape.

    Raises:
        BadRow: the prompt is empty, of another type, or does not end where an answer is due.
    """
    if "instruction" in row and not ("prompt" in row or "question" in row or "query" in row):
        return _alpaca_prompt(row), f"instruction and {answer}"
    key = next(key for key in PROMPTS if key in row)
    shape = f"{key} and {answer}"
    if isinstance(row[key], str):
        text = filled(row[key], key)
        return (system_of(row) + as_turns(text, "user") if system_of(row) else text), shape
    turns = conversation_of(row, key)
    check_prompt(turns, key)
    return turns, shape


def conversation_of(row: Mapping[str, Any], key: str) -> tuple[Turn, ...]:
    """The message list under `key`, opened by the row's own system text if the list has none."""
    turns = parse_turns(row[key], key)
    return turns if turns[0].role == "system" else system_of(row) + turns


def _alpaca_prompt(row: Mapping[str, Any]) -> Part:
    text = require_text(row["instruction"], "instruction")
    context = next((key for key in CONTEXTS if key in row), None)
    more = require_text(row[context], context) if context else ""
    asked = filled("\n".join(part for part in (text, more) if part.strip()), "instruction")
    before = system_of(row) + _history(row.get("history"))
    return before + as_turns(asked, "user") if before else asked


def _history(value: Any) -> tuple[Turn, ...]:
    """Earlier rounds of an Alpaca row: a list of [question, answer]."""
    if value is None or value == "":
        return ()
    turns: list[Turn] = []
    if not isinstance(value, list):
        raise BadRow(
            f"history is {kind_of(value)}, not a list", "write it as [[question, answer], ...]"
        )
    for index, round_ in enumerate(value):
        if not isinstance(round_, list) or len(round_) != 2:
            raise BadRow(
                f"history[{index}] is not a question and an answer",
                "write it as [question, answer]",
            )
        turns.append(Turn("user", filled(round_[0], f"history[{index}][0]")))
        turns.append(Turn("assistant", filled(round_[1], f"history[{index}][1]")))
    return tuple(turns)


def system_of(row: Mapping[str, Any]) -> tuple[Turn, ...]:
    """The system turn that a row states outside its messages, or nothing."""
    key = "system" if "system" in row else "system_prompt"
    text = require_text(row.get(key, ""), key)
    return (Turn("system", text),) if text.strip() else ()


def answer_of(value: Any, key: str) -> Part:
    """An answer: text, a message, or a message list that starts with one of the assistant.

    Raises:
        BadRow: it is empty, or of another type.
    """
    if isinstance(value, list | Mapping):
        turns = parse_turns(value, key)
        if any(turn.role == "system" for turn in turns) or turns[0].role != "assistant":
            raise BadRow(
                f"{key} does not start with an assistant turn", "put what comes before under prompt"
            )
        return turns
    return filled(value, key)


def check_prompt(turns: tuple[Turn, ...], where: str) -> None:
    """Raise unless the turns end where an answer is due.

    Raises:
        BadRow: there are only system turns, or the last turn is not the user's or a tool's.
    """
    if all(turn.role == "system" for turn in turns):
        raise BadRow(f"{where} has only system turns", "add the user's question")
    if turns[-1].role not in ("user", "tool"):
        raise BadRow(
            f"{where} ends with a turn of the {turns[-1].role}", "end it with the user's question"
        )


def filled(value: Any, key: str) -> str:
    """The value if it is text with more than white space in it.

    Raises:
        BadRow: it is not.
    """
    text = require_text(value, key)
    if not text.strip():
        raise BadRow(f"{key} is empty", "remove the row, or fill in the text")
    return text
