"""What objectives on pairs share: sums over answers, and the loss of telling them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import mlx.core as mx

from trainer_core.data.types import TokenisedExample
from trainer_core.objectives.maths import softplus
from trainer_core.objectives.rows import Metrics, RowLogps, ScoredRow, Totals, response_only

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answers:
    """Summed log-probabilities and token counts of both answers, float32 vectors [rows]."""

    chosen: mx.array
    rejected: mx.array
    chosen_tokens: mx.array
    rejected_tokens: mx.array


def score_answers(example: TokenisedExample) -> ScoredRow:
    """The response tokens of both answers."""
    return ScoredRow(
        example,
        response_only(example.row, 0, example.chosen),
        response_only(example.row, 1, present(example.rejected)),
    )


def answers(rows: Sequence[RowLogps]) -> Answers:
    """The sums of rows that `score_answers` scored."""
    chosen = [row.chosen for row in rows]
    rejected = [present(row.rejected) for row in rows]
    return Answers(
        mx.stack([logps.sum() for logps in chosen]),
        mx.stack([logps.sum() for logps in rejected]),
        mx.array([float(logps.size) for logps in chosen]),
        mx.array([float(logps.size) for logps in rejected]),
    )


def preferring(logits: mx.array, smoothing: float) -> mx.array:
    """-log sigmoid(logits), with labels taken to be the wrong way round in a share of the rows.

    Args:
        logits: [rows], positive where chosen is preferred.
        smoothing: that share, as in conservative DPO, Mitchell 2023.
    """
    loss = softplus(-logits)
    return (1 - smoothing) * loss + smoothing * softplus(logits) if smoothing else loss


def pair_metrics(reward: mx.array, chosen: mx.array, rejected: mx.array, totals: Totals) -> Metrics:
    """Shares of the row means: accuracy and margin of a reward difference, and log-probabilities.

    Args:
        reward: reward of chosen less that of rejected [rows].
        chosen: log-probabilities of the chosen answers [rows].
        rejected: those of the rejected ones [rows].
        totals: counts of the step.
    """
    shares = {
        "accuracy": (reward > 0).astype(mx.float32),
        "margin": reward,
        "logps_chosen": chosen,
        "logps_rejected": rejected,
    }
    return {name: value.sum() / totals.rows for name, value in shares.items()}


def present(value: T | None) -> T:
    """`value`, which only rows that an objective never gets can lack."""
    assert value is not None, "read_rows lets only pairs through to this method"
    return value
