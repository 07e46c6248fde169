"""Preference rows: a prompt with two answers, or two whole conversations that start alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer_core.data.dialogue import answer_turns, prompt_turns, split_dialogues, split_texts
from trainer_core.data.example import BadRow, Example, PromptFormat, Turn, as_turns
from trainer_core.data.parts import (
    CONVERSATIONS,
    PROMPTS,
    Part,
    answer_of,
    check_prompt,
    conversation_of,
    filled,
    prompt_of,
)
from trainer_core.data.turns import parse_tools, parse_turns
from trainer_core.data.types import Source


def parse_pair(row: Mapping[str, Any], source: Source, prompt_format: PromptFormat) -> Example:
    """The example of a row that has `chosen` or `rejected`.

    Raises:
        BadRow: an answer or the prompt is missing, empty or of another type, or both answers are
            the same.
    """
    for key, other in (("chosen", "rejected"), ("rejected", "chosen")):
        if key not in row:
            raise BadRow(f"the row has {other} but no {key}", "a pair needs both answers")
    tools = parse_tools(row.get("tools"))
    if _is_whole(row["chosen"]) or _is_whole(row["rejected"]):
        return _implicit_chat(row, source, tools)
    conversation = next((key for key in CONVERSATIONS if key in row), None)
    if conversation is not None:
        prompt: Part = conversation_of(row, conversation)
        check_prompt(prompt, conversation)
        shape = f"{conversation} with chosen and rejected"
    elif any(key in row for key in PROMPTS):
        prompt, shape = prompt_of(row, "chosen and rejected")
        shape = shape.replace(" and chosen", ", chosen")
    elif isinstance(row["chosen"], str) and isinstance(row["rejected"], str):
        return _implicit_text(row, source, prompt_format)
    else:
        raise BadRow("the row has two answers but no prompt", "add the prompt under the key prompt")
    chosen, rejected = answer_of(row["chosen"], "chosen"), answer_of(row["rejected"], "rejected")
    return _pair(source, shape, prompt, chosen, rejected, tools)


def _is_whole(value: Any) -> bool:
    """True for a message list that holds more than the answer."""
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
        return False
    first = str(value[0].get("role", value[0].get("from"))).lower()
    return first in ("system", "developer", "user", "human")


def _implicit_chat(
    row: Mapping[str, Any], source: Source, tools: tuple[Mapping[str, Any], ...]
) -> Example:
    chosen, rejected = (
        parse_turns(row["chosen"], "chosen"),
        parse_turns(row["rejected"], "rejected"),
    )
    shared = 0
    while shared < min(len(chosen), len(rejected)) and chosen[shared] == rejected[shared]:
        shared += 1
    if chosen == rejected:
        raise BadRow("chosen and rejected are the same", "a pair needs two different answers")
    alike = shared
    # If one side goes on after an answer that both share, that answer belongs to both of them.
    while shared and not (_answers_at(chosen, shared) and _answers_at(rejected, shared)):
        shared -= 1
    if shared == 0:
        what = "has no answer after them" if alike else "starts with other turns"
        raise BadRow(
            f"chosen and rejected share {alike} turns and one of them {what}",
            "both need the same prompt, then an answer",
        )
    prompt = chosen[:shared]
    check_prompt(prompt, "the shared part of chosen and rejected")
    stated = row.get("prompt")
    if isinstance(stated, str) and not any(stated.strip() in turn.content for turn in prompt):
        raise BadRow("prompt differs from the first turns of chosen", "remove prompt, or mend it")
    return _pair(
        source,
        "chosen and rejected conversations",
        prompt,
        chosen[shared:],
        rejected[shared:],
        tools,
    )


def _answers_at(turns: tuple[Turn, ...], index: int) -> bool:
    return index < len(turns) and turns[index].role == "assistant"


def _implicit_text(row: Mapping[str, Any], source: Source, prompt_format: PromptFormat) -> Example:
    chosen, rejected = filled(row["chosen"], "chosen"), filled(row["rejected"], "rejected")
    if chosen.strip() == rejected.strip():
        raise BadRow("chosen and rejected are the same", "a pair needs two different answers")
    split = split_dialogues(chosen, rejected)
    shape = "chosen and rejected dialogues"
    if prompt_format == "raw":
        split = split or split_texts(chosen, rejected)
        if not split.prompt.strip():
            raise BadRow(
                "chosen and rejected share no prompt", "add the prompt under the key prompt"
            )
        return _pair(source, shape, split.prompt, split.chosen, split.rejected, ())
    if split is None:
        raise BadRow(
            "the row has no prompt, and its texts are not dialogues that start alike",
            'add the prompt under the key prompt, or write "Human: ... Assistant: ..."',
        )
    prompt = prompt_turns(split.prompt)
    check_prompt(prompt, "the dialogue")
    return _pair(
        source,
        shape,
        prompt,
        answer_turns(split.chosen, "chosen"),
        answer_turns(split.rejected, "rejected"),
        (),
    )


def _pair(
    source: Source,
    shape: str,
    prompt: Part,
    chosen: Part,
    rejected: Part,
    tools: tuple[Mapping[str, Any], ...],
) -> Example:
    if not (isinstance(prompt, str) and isinstance(chosen, str) and isinstance(rejected, str)):
        prompt = as_turns(prompt, "user")
        chosen, rejected = as_turns(chosen, "assistant"), as_turns(rejected, "assistant")
    if _words(chosen) == _words(rejected):
        raise BadRow("chosen and rejected are the same", "a pair needs two different answers")
    return Example(source, shape, prompt, chosen, rejected, tools)


def _words(part: Part) -> object:
    if isinstance(part, str):
        return part.strip()
    return [(turn.role, turn.content.strip(), turn.extra) for turn in part]
