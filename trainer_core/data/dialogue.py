"""Whole dialogues written as one text, "Human: ... Assistant: ...", as in many preference sets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainer_core.data.example import BadRow, Turn

_MARKER = re.compile(r"(?:\A|\n)\s*(Human|User|Assistant|System):[ \t]?", re.IGNORECASE)
_ROLES = {"human": "user", "user": "user", "assistant": "assistant", "system": "system"}


@dataclass(frozen=True, slots=True)
class SplitText:
    """Two texts that start alike: the prompt up to where an answer starts, and both answers."""

    prompt: str
    chosen: str
    rejected: str


def split_dialogues(chosen: str, rejected: str) -> SplitText | None:
    """Split two dialogues after the last `Assistant:` that both share, or None if they share none.

    White space after the colon belongs to the answer.
    """
    shared = len(common_prefix(chosen, rejected))
    at = None
    for match in _MARKER.finditer(chosen):
        end = match.end(1) + 1
        if end > shared:
            break
        if _ROLES[match.group(1).lower()] == "assistant":
            at = end
    return None if at is None else SplitText(chosen[:at], chosen[at:], rejected[at:])


def split_texts(chosen: str, rejected: str) -> SplitText:
    """Split two texts where they begin to differ; a space before that point belongs to the answers.

    Source: the rule that TRL uses for rows without a prompt.
    """
    at = len(common_prefix(chosen, rejected))
    if at and chosen[at - 1] == " ":
        at -= 1
    return SplitText(chosen[:at], chosen[at:], rejected[at:])


def is_dialogue_prompt(text: str) -> bool:
    """True for a text that starts with `Human:` and ends with `Assistant:`."""
    marks = [
        match for match in _MARKER.finditer(text) if match.start() == 0 or match.end() == len(text)
    ]
    roles = [_ROLES[mark.group(1).lower()] for mark in marks]
    return len(marks) == 2 and roles == ["user", "assistant"] and not text[marks[1].end() :].strip()


def prompt_turns(text: str) -> tuple[Turn, ...]:
    """Turns of the shared part of two dialogues, which ends with `Assistant:`.

    What is said before the first human turn is the system text, whoever is named as its speaker.

    Raises:
        BadRow: a turn is empty or there is no human turn.
    """
    turns = _parse(text)[:-1]
    first_user = next((i for i, turn in enumerate(turns) if turn.role == "user"), None)
    if first_user is None:
        raise BadRow(
            "the dialogue has no human turn before the answers", 'start it with "Human: ..."'
        )
    opening = "\n\n".join(turn.content for turn in turns[:first_user])
    system = (Turn("system", opening),) if opening else ()
    return system + turns[first_user:]


def answer_turns(text: str, where: str) -> tuple[Turn, ...]:
    """Turns of an answer and whatever the dialogue holds after it.

    Raises:
        BadRow: the answer is empty.
    """
    turns = _parse("Assistant:" + text)
    while turns and turns[-1].role != "assistant":
        turns = turns[:-1]
    if not turns or not all(turn.content for turn in turns):
        raise BadRow(f"the answer in {where} is empty", "remove the row, or fill in the answer")
    return turns


def _parse(text: str) -> tuple[Turn, ...]:
    marks = list(_MARKER.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    found: list[Turn] = []
    for mark, end in zip(marks, ends, strict=True):
        found.append(Turn(_ROLES[mark.group(1).lower()], text[mark.end() : end].strip()))
    return tuple(found)


def common_prefix(first: str, second: str) -> str:
    """The longest beginning that two texts share."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle - 1
    return first[:low]
