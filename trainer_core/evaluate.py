"""Validation: the objective over held-out rows, independent of how they are batched."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from trainer_core.objectives.objective import Objective
from trainer_core.objectives.rows import RowLogps, ScoredRow
from trainer_core.policy import Policy, Reference
from trainer_core.row_losses import RowLoss

_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class Scores:
    """Loss and metrics over all rows, the metrics under the names of the events' fields.

    `judged` has the rows one by one, in their order.
    """

    loss: float
    metrics: dict[str, float]
    rows: int
    seconds: float
    judged: list[RowLoss]


def evaluate(
    policy: Policy,
    objective: Objective,
    rows: Sequence[ScoredRow],
    reference: Reference | None,
    *,
    between: Callable[[int], bool],
) -> Scores | None:
    """Score rows without dropout or gradient.

    Args:
        policy: what is judged.
        objective: the run's own.
        rows: at least one row.
        reference: DPO's stored sums.
        between: called with the number of rows done; returning False gives up.

    Returns:
        The scores, or None if given up.
    """
    began = time.perf_counter()
    totals = objective.totals(rows)
    loss = 0.0
    metrics: dict[str, float] = {}
    judged: list[RowLoss] = []
    for start in range(0, len(rows), _TOGETHER):
        if not between(start):
            return None
        scored = policy.values(rows[start : start + _TOGETHER], reference)
        share, shares = objective.loss(scored, totals)
        mx.eval(share, shares)
        loss += float(share)
        for name, value in shares.items():
            metrics[name] = metrics.get(name, 0.0) + float(value)
        judged += [_alone(objective, row) for row in scored]
    return Scores(loss, metrics, len(rows), time.perf_counter() - began, judged)


def _alone(objective: Objective, row: RowLogps) -> RowLoss:
    """A row as a step of its own."""
    loss, metrics = objective.loss([row], objective.totals([row.row]))
    margin = metrics.get("margin")
    return RowLoss(float(loss), None if margin is None else float(margin))
