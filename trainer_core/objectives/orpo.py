"""Odds-ratio preference optimisation, Hong et al. 2024, arXiv:2403.07691: nll + lambda * or."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import mlx.core as mx
import numpy as np

from trainer_core.data.types import TokenisedExample
from trainer_core.objectives.maths import CEILING, log1mexp, softplus
from trainer_core.objectives.rows import (
    Metrics,
    RowLogps,
    Scored,
    ScoredRow,
    Totals,
    every_token,
    response_only,
)


class Orpo:
    """ORPO with mean response log-probabilities lw (chosen) and lr (rejected).

    `full` scope: nll is the token mean over every predicted token of the chosen sequences of the
    step. `response` scope: nll is the mean over rows of -lw. The odds term is the same in both.
    """

    linear = False
    needs_reference = False

    def __init__(self, weight: float, scope: Literal["full", "response"]) -> None:
        self.weight = weight
        self.scope = scope

    def score(self, example: TokenisedExample) -> ScoredRow:
        """Chosen: every token or the response; rejected: the response."""
        assert example.rejected is not None, "read_rows lets only pairs through to ORPO"
        scorer = every_token if self.scope == "full" else response_only
        return ScoredRow(
            example,
            scorer(example.row, 0, example.chosen),
            response_only(example.row, 1, example.rejected),
        )

    def totals(self, rows: Sequence[ScoredRow]) -> Totals:
        """Rows, and the tokens that the nll covers."""
        return Totals(len(rows), sum(len(row.chosen.positions) for row in rows))

    def loss(self, rows: Sequence[RowLogps], totals: Totals) -> tuple[mx.array, Metrics]:
        """Share of nll + lambda * or; margin is the mean log odds ratio."""
        chosen = mx.stack([_response_mean(row.chosen, row.row.chosen) for row in rows])
        rejected = mx.stack([_response_mean(row.rejected, row.row.rejected) for row in rows])
        log_odds = (chosen - rejected) - (log1mexp(chosen) - log1mexp(rejected))
        odds_loss = softplus(-log_odds).sum() / totals.rows
        if self.scope == "full":
            nll = -mx.concatenate([row.chosen for row in rows]).sum() / totals.nll_tokens
        else:
            nll = -chosen.sum() / totals.rows
        shares = {
            "accuracy": (chosen > rejected).astype(mx.float32),
            "margin": log_odds,
            "logps_chosen": chosen,
            "logps_rejected": rejected,
        }
        metrics = {name: value.sum() / totals.rows for name, value in shares.items()}
        metrics["nll"] = nll
        metrics["odds_loss"] = odds_loss
        at_ceiling = (chosen > CEILING).astype(mx.float32) + (rejected > CEILING).astype(mx.float32)
        metrics["at_ceiling"] = at_ceiling.sum()
        return nll + self.weight * odds_loss, metrics


def _response_mean(logps: mx.array | None, scored: Scored | None) -> mx.array:
    assert logps is not None, "ORPO scores pairs"
    assert scored is not None, "ORPO scores pairs"
    mask = scored.response
    if not mask.all():
        logps = logps[mx.array(np.flatnonzero(mask))]
    return logps.mean()
