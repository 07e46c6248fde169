"""Direct preference optimisation, Rafailov et al. 2023, arXiv:2305.18290, equation 7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import mlx.core as mx

from trainer_core.data.types import TokenisedExample
from trainer_core.objectives.maths import softplus
from trainer_core.objectives.rows import Metrics, RowLogps, ScoredRow, Totals, response_only

T = TypeVar("T")


class Dpo:
    """softplus(-beta * ((pi_w - ref_w) - (pi_r - ref_r))), row mean of response sums."""

    linear = False

    def __init__(self, beta: float) -> None:
        self.beta = beta

    def score(self, example: TokenisedExample) -> ScoredRow:
        """The response tokens of both answers."""
        assert example.rejected is not None, "read_rows lets only pairs through to DPO"
        return ScoredRow(
            example,
            response_only(example.row, 0, example.chosen),
            response_only(example.row, 1, example.rejected),
        )

    def totals(self, rows: Sequence[ScoredRow]) -> Totals:
        """Rows; DPO has no token mean."""
        return Totals(len(rows), 0)

    def loss(self, rows: Sequence[RowLogps], totals: Totals) -> tuple[mx.array, Metrics]:
        """Share of the row mean; margin is the mean of beta * delta."""
        chosen = mx.stack([row.chosen.sum() for row in rows])
        rejected = mx.stack([_present(row.rejected).sum() for row in rows])
        reference = mx.array([_present(row.reference) for row in rows], dtype=mx.float32)
        delta = (chosen - reference[:, 0]) - (rejected - reference[:, 1])
        reward = self.beta * delta
        shares = {
            "accuracy": (reward > 0).astype(mx.float32),
            "margin": reward,
            "logps_chosen": chosen,
            "logps_rejected": rejected,
        }
        metrics = {name: value.sum() / totals.rows for name, value in shares.items()}
        return softplus(-reward).sum() / totals.rows, metrics


def _present(value: T | None) -> T:
    assert value is not None, "DPO scores pairs with stored reference log-probabilities"
    return value
