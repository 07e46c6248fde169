"""The lengths of a row that decide what a step needs, and how the row then runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trainer_core.config import PREFERENCE, RunConfig
from trainer_core.data.types import TokenisedExample


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of a row: its sequence, for a pair the longer of both, and the prompt they share."""

    sequence: int
    prompt: int = 0

    @property
    def answer(self) -> int:
        """Tokens after the prompt."""
        return self.sequence - self.prompt


@dataclass(frozen=True, slots=True)
class Pieces:
    """How the rows of a micro-batch run.

    Attributes:
        tokens: that go through a layer, padding included.
        squares: queries times keys of each piece that attends by itself.
        copied: keys of a shared prompt that are copied for the answers, and theirs.
    """

    tokens: int
    squares: tuple[int, ...]
    copied: int = 0


def longest_of(rows: Iterable[TokenisedExample], config: RunConfig) -> list[Lengths]:
    """The rows that may need most: that with the longest sequence and that with most tokens."""
    found = [_of(row) for row in rows]
    if not found:
        return []
    most = max(found, key=lambda row: pieces_of(row, config, 1).tokens)
    return list({max(found, key=lambda row: row.sequence), most})


def assumed(config: RunConfig, longest: int | None = None) -> Lengths:
    """A row as long as can be, of whose prompt nothing is known."""
    return Lengths(min(longest or config.max_seq_length, config.max_seq_length))


def pieces_of(row: Lengths, config: RunConfig, bucket: int) -> Pieces:
    """How one row runs; lengths are padded to multiples of `bucket`."""
    length = _up(row.sequence, bucket)
    if config.method not in PREFERENCE:
        return Pieces(length, (length * length,))
    if config.prefix_sharing == "off" or row.prompt == 0:
        return Pieces(2 * length, (2 * length * length,))
    prompt = row.prompt // bucket * bucket or row.prompt
    answer = _up(row.sequence - prompt, bucket)
    keys = prompt + answer
    return Pieces(prompt + 2 * answer, (prompt * prompt, 2 * answer * keys), 2 * keys)


def _of(row: TokenisedExample) -> Lengths:
    longest = max(len(row.chosen), len(row.rejected) if row.rejected is not None else 0)
    return Lengths(longest, row.prompt_length if row.rejected is not None else 0)


def _up(length: int, bucket: int) -> int:
    return -(-length // bucket) * bucket
