"""Supervised fine-tuning: the mean negative log-likelihood of the trained tokens of a step."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from trainer_core.data.types import TokenisedExample
from trainer_core.objectives.rows import Metrics, RowLogps, ScoredRow, Totals, response_only


class Sft:
    """-sum(logp * mask) / sum(mask), over the whole optimiser step. Of a pair, prompt -> chosen."""

    linear = True
    needs_reference = False

    def score(self, example: TokenisedExample) -> ScoredRow:
        """Trained tokens only."""
        return ScoredRow(example, response_only(example.row, 0, example.chosen))

    def totals(self, rows: Sequence[ScoredRow]) -> Totals:
        """Rows and trained tokens."""
        return Totals(len(rows), sum(len(row.chosen.positions) for row in rows))

    def loss(self, rows: Sequence[RowLogps], totals: Totals) -> tuple[mx.array, Metrics]:
        """Share of the token mean; there are no other metrics."""
        total = mx.concatenate([row.chosen for row in rows]).sum()
        return -total / totals.nll_tokens, {}
