"""The shapes that data takes on its way from a file to the trainer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Source:
    """Where a row came from. `line` counts from 1 and is where the row starts in the file."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Row:
    """What a file holds for one example, column by column, and where it stood."""

    source: Source
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """A row, or a whole file (line 0), that cannot be used, or can only be used in part."""

    file: str
    line: int
    what: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Token ids [T] and which of them are trained.

    `trained[t]` is True where token t is a target; it is predicted from the hidden state of token t
    - 1, so `trained[0]` is always False. For a preference pair these are exactly the response
    tokens.
    """

    ids: NDArray[np.int32]
    trained: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.ids.shape[0])


@dataclass(frozen=True, slots=True)
class TokenisedExample:
    """One row ready to train on.

    SFT rows have `chosen` only. A pair's two sequences start with the same `prompt_length` tokens,
    and each response is everything after them.
    """

    row: int
    source: Source
    chosen: Sequence
    rejected: Sequence | None = None
    prompt_length: int = 0
    truncated: bool = False

    @property
    def tokens(self) -> int:
        """Tokens of the row as data: a pair counts its prompt twice."""
        return len(self.chosen) + (len(self.rejected) if self.rejected is not None else 0)

    @property
    def supervised_tokens(self) -> int:
        """Tokens that are trained, both answers of a pair counted."""
        count = int(self.chosen.trained.sum())
        return count + (int(self.rejected.trained.sum()) if self.rejected is not None else 0)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Training and validation rows with the counts of the `data` event."""

    train: list[TokenisedExample]
    valid: list[TokenisedExample]
    rows: int
    rows_skipped: int
    rows_truncated: int
    valid_rows_skipped: int = 0
    problems: list[Problem] = field(default_factory=list)
    warnings: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Tokens of one epoch of training."""
        return sum(row.tokens for row in self.train)

    @property
    def supervised_tokens(self) -> int:
        """Trained tokens of one epoch."""
        return sum(row.supervised_tokens for row in self.train)

    @property
    def longest(self) -> int:
        """Length in tokens of the longest training sequence."""
        longest = 0
        for row in self.train:
            longest = max(
                longest, len(row.chosen), len(row.rejected) if row.rejected is not None else 0
            )
        return longest
