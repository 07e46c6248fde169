"""Preference losses that need no reference: CPO and SimPO."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from trainer_core.data.types import TokenisedExample
from trainer_core.objectives.pairs import answers, pair_metrics, preferring, score_answers
from trainer_core.objectives.rows import Metrics, RowLogps, ScoredRow, Totals


class Cpo:
    """-log sigmoid(beta * (pi_w - pi_r)) + alpha * nll: Xu et al. 2024, arXiv:2401.08417.

    pi are sums over response tokens; nll is the token mean over the chosen responses of the step.
    """

    linear = False
    needs_reference = False

    def __init__(self, beta: float, alpha: float, smoothing: float = 0.0) -> None:
        self.beta = beta
        self.alpha = alpha
        self.smoothing = smoothing

    def score(self, example: TokenisedExample) -> ScoredRow:
        """The response tokens of both answers."""
        return score_answers(example)

    def totals(self, rows: Sequence[ScoredRow]) -> Totals:
        """Rows, and the tokens that the nll covers."""
        return Totals(len(rows), sum(len(row.chosen.positions) for row in rows))

    def loss(self, rows: Sequence[RowLogps], totals: Totals) -> tuple[mx.array, Metrics]:
        """Share of both terms; margin is the mean of beta * (pi_w - pi_r)."""
        sums = answers(rows)
        reward = self.beta * (sums.chosen - sums.rejected)
        losses = preferring(reward, self.smoothing)
        metrics = pair_metrics(reward, sums.chosen, sums.rejected, totals)
        metrics["nll"] = -sums.chosen.sum() / totals.nll_tokens
        return losses.sum() / totals.rows + self.alpha * metrics["nll"], metrics


class SimPo:
    """-log sigmoid(beta * (lw - lr) - gamma): Meng et al. 2024, arXiv:2405.14734, equation 6.

    lw and lr are means over response tokens; gamma is the margin that is aimed at.
    """

    linear = False
    needs_reference = False

    def __init__(self, beta: float, gamma: float, smoothing: float = 0.0) -> None:
        self.beta = beta
        self.gamma = gamma
        self.smoothing = smoothing

    def score(self, example: TokenisedExample) -> ScoredRow:
        """The response tokens of both answers."""
        return score_answers(example)

    def totals(self, rows: Sequence[ScoredRow]) -> Totals:
        """Rows; there is no token mean."""
        return Totals(len(rows), 0)

    def loss(self, rows: Sequence[RowLogps], totals: Totals) -> tuple[mx.array, Metrics]:
        """Share of the row mean; margin is the mean of beta * (lw - lr), without gamma."""
        sums = answers(rows)
        chosen = sums.chosen / sums.chosen_tokens
        rejected = sums.rejected / sums.rejected_tokens
        reward = self.beta * (chosen - rejected)
        losses = preferring(reward - self.gamma, self.smoothing)
        metrics = pair_metrics(reward, chosen, rejected, totals)
        return losses.sum() / totals.rows, metrics
