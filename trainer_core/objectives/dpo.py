"""Direct preference optimisation, Rafailov et al. 2023, arXiv:2305.18290, and losses like it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import mlx.core as mx

from trainer_core.data.types import TokenisedExample
from trainer_core.objectives.maths import softplus
from trainer_core.objectives.pairs import (
    Answers,
    answers,
    pair_metrics,
    preferring,
    present,
    score_answers,
)
from trainer_core.objectives.rows import Metrics, RowLogps, ScoredRow, Totals

Loss = Literal["sigmoid", "robust", "hinge", "ipo"]


class Dpo:
    """Row mean of a loss of delta = (pi_w - ref_w) - (pi_r - ref_r), sums over response tokens.

    - `sigmoid`: softplus(-beta * delta), equation 7 of the paper; with smoothing the conservative
      one of Mitchell 2023.
    - `robust`: unbiased if labels are the wrong way round in a share `smoothing` of the rows, Ray
      Chowdhury et al. 2024, arXiv:2403.00409, equation 12.
    - `hinge`: max(0, 1 - beta * delta), Zhao et al. 2023, arXiv:2305.10425.
    - `ipo`: (delta - 1 / (2 beta))^2 with the mean over an answer's tokens in place of its sum,
      Azar et al. 2023, arXiv:2310.12036, equation 17.
    """

    linear = False
    needs_reference = True

    def __init__(self, beta: float, loss: Loss = "sigmoid", smoothing: float = 0.0) -> None:
        self.beta = beta
        self.kind: Loss = loss
        self.smoothing = smoothing

    def score(self, example: TokenisedExample) -> ScoredRow:
        """The response tokens of both answers."""
        return score_answers(example)

    def totals(self, rows: Sequence[ScoredRow]) -> Totals:
        """Rows; there is no token mean."""
        return Totals(len(rows), 0)

    def loss(self, rows: Sequence[RowLogps], totals: Totals) -> tuple[mx.array, Metrics]:
        """Share of the row mean; margin is the mean of beta * delta."""
        sums = answers(rows)
        reference = mx.array([present(row.reference) for row in rows], dtype=mx.float32)
        chosen, rejected = sums.chosen - reference[:, 0], sums.rejected - reference[:, 1]
        reward = self.beta * (chosen - rejected)
        losses = self._losses(chosen, rejected, reward, sums)
        metrics = pair_metrics(reward, sums.chosen, sums.rejected, totals)
        return losses.sum() / totals.rows, metrics

    def _losses(
        self, chosen: mx.array, rejected: mx.array, reward: mx.array, sums: Answers
    ) -> mx.array:
        """The loss of each row [rows]."""
        if self.kind == "hinge":
            return mx.maximum(1 - reward, 0)
        if self.kind == "ipo":
            delta = chosen / sums.chosen_tokens - rejected / sums.rejected_tokens
            return mx.square(delta - 1 / (2 * self.beta))
        if self.kind == "robust":
            wrong = self.smoothing
            return ((1 - wrong) * softplus(-reward) - wrong * softplus(reward)) / (1 - 2 * wrong)
        return preferring(reward, self.smoothing)
