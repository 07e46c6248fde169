"""What the columns of a file mean: the mapping that the user gives, and one proposed by the names.

This module reads no data, so that the configuration and the app may use it too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Our names, and what others call them. Compared without case, punctuation and filler words.
_MEANINGS: dict[str, tuple[str, ...]] = {
    "messages": (
        *("messages", "conversations", "conversation", "dialogue", "dialog", "chat", "turns"),
        *("thread", "transcript"),
    ),
    "prompt": (
        *("prompt", "question", "query", "instruction", "instructions", "input", "user", "human"),
        *("problem", "request", "task", "ask", "q", "source"),
    ),
    "context": ("context", "input", "background", "passage", "document", "evidence"),
    "completion": (
        *("completion", "response", "answer", "output", "reply", "assistant", "solution"),
        *("target", "bot", "gpt", "model", "expected", "result", "a", "label"),
    ),
    "chosen": (
        *("chosen", "good", "preferred", "accepted", "accept", "winner", "win", "better", "best"),
        *("positive", "pos", "w", "liked", "prefer"),
    ),
    "rejected": (
        *("rejected", "bad", "dispreferred", "reject", "loser", "lose", "worse", "worst"),
        *("negative", "neg", "l", "disliked", "nonpreferred", "unpreferred"),
    ),
    "text": ("text", "content", "body", "story"),
    "system": ("system",),
    "tools": ("tools", "functions"),
}
_FILLERS = {
    *("response", "answer", "output", "completion", "reply", "text", "prompt", "message", "the"),
    *("column", "field", "sample", "example", "definitions"),
}

SYNONYMS: tuple[str, ...] = tuple(name for names in _MEANINGS.values() for name in names)

# Every name that a row is read by.
OUR_COLUMNS = (
    *("messages", "prompt", "completion", "chosen", "rejected", "text", "system", "tools"),
    *("instruction", "input", "output", "history", "conversations", "question", "answer"),
    *("query", "response", "context"),
)


def columns_problem(columns: Mapping[str, str]) -> str | None:
    """What is wrong with a mapping from our names to a file's, as a clause, or None."""
    if not columns:
        return "must name at least one column, such as {prompt: question}"
    for ours, theirs in columns.items():
        if ours not in OUR_COLUMNS:
            if theirs in OUR_COLUMNS:
                return f"is the wrong way round: write {{{theirs}: {ours}}}"
            near = difflib.get_close_matches(ours, OUR_COLUMNS, n=1, cutoff=0.0)[0]
            return f"knows no {ours}; the nearest is {near}, as in {{{near}: {theirs}}}"
        if not theirs.strip():
            return f"names no column for {ours}"
    twice = [theirs for theirs in columns.values() if list(columns.values()).count(theirs) > 1]
    return f"uses the column {twice[0]} twice" if twice else None


def rename(values: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """A row under our names: mapped columns move, the others stay under their own.

    Raises:
        KeyError: the row lacks a column of the mapping; its argument is our name.
    """
    taken = set(columns.values())
    found = {key: value for key, value in values.items() if key not in taken}
    for ours, theirs in columns.items():
        if theirs not in values:
            raise KeyError(ours)
        found[ours] = values[theirs]
    return found


def propose_columns(names: Iterable[str]) -> dict[str, str] | None:
    """The mapping under which columns of these names make rows, or None if there is no telling.

    A name that is ours already needs no mapping and is left out.

    Args:
        names: a file's columns, in order.
    """
    names = list(names)
    for wanted in (
        ("prompt", "chosen", "rejected"),
        ("messages", "chosen", "rejected"),
        ("chosen", "rejected"),
        ("messages",),
        ("prompt", "completion"),
        ("text",),
    ):
        found = _match(names, wanted)
        if found is not None:
            return _as_mapping(found) or None
    return None


def as_option(columns: Mapping[str, str]) -> str:
    """The mapping as it is written in a configuration: {prompt: question, chosen: good}."""
    return "{" + ", ".join(f"{key}: {_quoted(name)}" for key, name in columns.items()) + "}"


def _match(names: Sequence[str], wanted: Sequence[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    # The narrow meanings choose first: `chosen_response` is no completion, `input` may be context.
    for meaning in sorted(wanted, key=lambda m: m in ("prompt", "completion")):
        name = _named(names, meaning, taken=found.values())
        if name is None:
            return None
        found[meaning] = name
    for extra in ("context", "system", "tools"):
        name = _named(names, extra, taken=found.values())
        if name is not None and (extra != "context" or "prompt" in wanted):
            found[extra] = name
    return found


def _named(names: Sequence[str], meaning: str, taken: Iterable[str]) -> str | None:
    """The first column by the order of the synonyms."""
    left = [name for name in names if name not in set(taken)]
    for bare in (False, True):
        for synonym in _MEANINGS[meaning]:
            for name in left:
                words = _words(name)
                spoken = [w for w in words if w not in _FILLERS] if bare else words
                if "".join(spoken) == synonym:
                    return name
    return None


def _as_mapping(found: Mapping[str, str]) -> dict[str, str]:
    """Under the names that rows are read by; a prompt with context is an Alpaca row."""
    ours = dict(found)
    if "context" in ours and "prompt" in ours:
        ours = {"instruction": ours.pop("prompt"), "input": ours.pop("context"), **ours}
    order = [name for name in OUR_COLUMNS if name in ours]
    moved = {name: ours[name] for name in sorted(order, key=_place)}
    return {key: name for key, name in moved.items() if key != name}


def _place(name: str) -> int:
    order = ("system", "messages", "instruction", "prompt", "input", "completion", "chosen")
    return order.index(name) if name in order else len(order)


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return re.findall(r"[a-z0-9]+", spaced.lower())


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[^\W\d][\w .-]*", name) else f'"{name}"'
