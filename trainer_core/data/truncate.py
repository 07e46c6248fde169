"""Fits rows into max_seq_length: the prompt gives way first, then the tails of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PROMPT_FLOOR = 8


@dataclass(frozen=True, slots=True)
class Fit:
    """How many tokens stay of a prompt, BOS included, and at most of each answer."""

    prompt: int
    answer: int


def fit(prompt: int, answers: Sequence[int], limit: int, *, has_bos: bool) -> Fit:
    """What is left of a prompt and its answers.

    Args:
        prompt: tokens of the prompt, BOS included.
        answers: tokens of each answer; the longest decides, so that a pair's prompts stay equal.
        limit: max_seq_length.
        has_bos: the prompt starts with BOS, which always stays.

    Returns:
        `prompt` counts BOS.
    """
    longest = max(answers)
    kept = prompt
    if prompt + longest > limit:
        kept = max(min(prompt, PROMPT_FLOOR + has_bos), min(prompt, limit - longest))
    return Fit(kept, limit - kept)


def cut_left(ids: Sequence[int], keep: int, *, has_bos: bool) -> list[int]:
    """The last tokens of a prompt, its BOS kept in front."""
    if keep >= len(ids):
        return list(ids)
    if has_bos:
        return [ids[0], *ids[len(ids) - keep + 1 :]]
    return list(ids[len(ids) - keep :])
