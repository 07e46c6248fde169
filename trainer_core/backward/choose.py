"""The one signature that every backward path has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

from trainer_core.objectives.objective import Objective
from trainer_core.objectives.rows import Metrics, ScoredRow, Totals
from trainer_core.policy import Policy, Reference


class Backward(Protocol):
    """Loss share, metric shares and adapter gradients of one micro-batch."""

    def __call__(
        self,
        policy: Policy,
        objective: Objective,
        rows: Sequence[ScoredRow],
        totals: Totals,
        reference: Reference | None,
        step: int,
    ) -> tuple[mx.array, Metrics, dict[str, mx.array]]:
        """See `autograd.whole_graph`."""
        ...
