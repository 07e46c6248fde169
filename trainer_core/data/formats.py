"""Which shape a row has, and the `Example` it becomes. Every row is looked at on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainer_core.column_names import as_option, propose_columns, rename
from trainer_core.data.dialogue import answer_turns, is_dialogue_prompt, prompt_turns
from trainer_core.data.example import BadRow, Example, PromptFormat, as_turns
from trainer_core.data.parts import (
    ANSWERS,
    CONVERSATIONS,
    PROMPTS,
    answer_of,
    conversation_of,
    filled,
    prompt_of,
)
from trainer_core.data.preference import parse_pair
from trainer_core.data.turns import parse_tools
from trainer_core.data.types import Source

KNOWN_SHAPES = (
    "messages, prompt and completion, instruction and output, conversations, question and answer, "
    "text, or chosen and rejected"
)


def parse_row(
    values: Mapping[str, Any],
    source: Source,
    prompt_format: PromptFormat,
    columns: Mapping[str, str] | None = None,
) -> Example:
    """The example that a row holds.

    Args:
        values: column -> value. A column with null counts as absent.
        source: where it stands.
        prompt_format: `raw` takes text as it is and therefore refuses conversations.
        columns: our names -> the row's, where they differ.

    Raises:
        BadRow: no known shape, or a known one that is empty, contradictory or of the wrong type.
    """
    values = _renamed(values, columns) if columns else values
    row = {key: value for key, value in values.items() if value is not None}
    example = _detect(row, values, source, prompt_format)
    if prompt_format == "raw" and not isinstance(example.prompt, str):
        raise BadRow(
            f"a row of {example.shape} cannot be used with prompt_format raw",
            "use prompt_format chat, or rows of text with a prompt and a completion",
        )
    return example if prompt_format == "raw" else _with_dialogue_turns(example)


def _with_dialogue_turns(example: Example) -> Example:
    """A prompt written as "Human: ... Assistant:" is a conversation, not one user turn."""
    if not (isinstance(example.prompt, str) and is_dialogue_prompt(example.prompt)):
        return example
    assert isinstance(example.chosen, str)
    rejected = example.rejected
    return replace(
        example,
        prompt=prompt_turns(example.prompt),
        chosen=answer_turns(example.chosen, "the answer"),
        rejected=answer_turns(rejected, "rejected") if isinstance(rejected, str) else rejected,
    )


def _detect(
    row: Mapping[str, Any], values: Mapping[str, Any], source: Source, prompt_format: PromptFormat
) -> Example:
    if "chosen" in row or "rejected" in row:
        return parse_pair(row, source, prompt_format)
    if any(key in row for key in CONVERSATIONS):
        return _conversation(row, source)
    answer = next((key for key in ANSWERS if key in row), None)
    prompt = next((key for key in PROMPTS if key in row), None)
    if answer is not None and prompt is not None:
        return _prompt_and_answer(row, source, answer)
    if "text" in row:
        return Example(source, "text", "", filled(row["text"], "text"))
    raise BadRow(_what_is_missing(row, values), _what_to_try(row))


def _renamed(values: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    try:
        return rename(values, columns)
    except KeyError as missing:
        name = columns[missing.args[0]]
        held = ", ".join(list(values)[:6]) or "none"
        raise BadRow(
            f"the row has no column {name}, which columns names for {missing.args[0]}",
            f"its columns are {held}",
        ) from None


def _what_to_try(row: Mapping[str, Any]) -> str:
    proposed = propose_columns(row)
    if proposed:
        return f"try columns: {as_option(proposed)}"
    return f"a row needs {KNOWN_SHAPES}; `columns` maps other names to these"


def _what_is_missing(row: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    nulls = [key for key in values if key not in row]
    if nulls and any(key in (*CONVERSATIONS, *PROMPTS, *ANSWERS, "text") for key in nulls):
        return f"{', '.join(nulls[:4])} {'is' if len(nulls) == 1 else 'are'} null"
    answer = next((key for key in ANSWERS if key in row), None)
    prompt = next((key for key in PROMPTS if key in row), None)
    if prompt is not None:
        return f"the row has {prompt} but no answer"
    if answer is not None:
        return f"the row has {answer} but no prompt"
    keys = ", ".join(list(row)[:6])
    return (
        f"the shape of the row is not known (its keys are {keys})" if keys else "the row is empty"
    )


def _conversation(row: Mapping[str, Any], source: Source) -> Example:
    key = next(key for key in CONVERSATIONS if key in row)
    turns = conversation_of(row, key)
    last = max((i for i, turn in enumerate(turns) if turn.role == "assistant"), default=None)
    if last is None:
        raise BadRow(
            f"{key} has no assistant turn to learn from", "add the answer, or remove the row"
        )
    shape = "messages" if key == "messages" else "conversations"
    return Example(source, shape, turns[:last], turns[last:], None, parse_tools(row.get("tools")))


def _prompt_and_answer(row: Mapping[str, Any], source: Source, answer: str) -> Example:
    prompt, shape = prompt_of(row, answer)
    told = row[answer]
    if isinstance(prompt, str) and isinstance(told, str):
        return Example(source, shape, prompt, filled(told, answer))
    chosen = answer_of(told, answer)
    return Example(
        source,
        shape,
        as_turns(prompt, "user"),
        as_turns(chosen, "assistant"),
        None,
        parse_tools(row.get("tools")),
    )
