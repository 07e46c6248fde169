"""What an objective is given: the scored tokens of each row and the totals of the step."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from trainer_core.data.types import Sequence, TokenisedExample


@dataclass(frozen=True, slots=True)
class Scored:
    """The tokens of one sequence whose log-probability an objective needs.

    Attributes:
        row: number of the row in the dataset.
        side: 0 for chosen (or the only sequence), 1 for rejected.
        ids: all token ids [T].
        positions: indices t [n] of the scored tokens; token t is predicted at position t - 1.
        response: which of the scored tokens [n] are trained as response.
    """

    row: int
    side: int
    ids: NDArray[np.int32]
    positions: NDArray[np.int64]
    response: NDArray[np.bool_]

    @property
    def targets(self) -> NDArray[np.int32]:
        """The scored token ids [n]."""
        return self.ids[self.positions]


def response_only(row: int, side: int, sequence: Sequence) -> Scored:
    """Score the trained tokens of a sequence."""
    positions = np.flatnonzero(sequence.trained)
    return Scored(row, side, sequence.ids, positions, np.ones(len(positions), dtype=np.bool_))


def every_token(row: int, side: int, sequence: Sequence) -> Scored:
    """Score every token that has a predecessor."""
    positions = np.arange(1, len(sequence))
    return Scored(row, side, sequence.ids, positions, sequence.trained[1:])


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """One row as an objective wants it scored."""

    example: TokenisedExample
    chosen: Scored
    rejected: Scored | None = None

    @property
    def sequences(self) -> list[Scored]:
        """Chosen, then rejected if there is one."""
        return [self.chosen] if self.rejected is None else [self.chosen, self.rejected]


@dataclass(frozen=True, slots=True)
class RowLogps:
    """Log-probabilities of a row's scored tokens, float32 vectors as long as `positions`.

    `reference` holds the summed response log-probabilities (chosen, rejected) under DPO's
    reference.
    """

    row: ScoredRow
    chosen: mx.array
    rejected: mx.array | None = None
    reference: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over all rows of a step or a validation, known before its first backward.

    Each micro-batch divides its sums by these, so contributions add up to the big batch's loss
    exactly.
    """

    rows: int
    nll_tokens: int


Metrics = dict[str, mx.array]
