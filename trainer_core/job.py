"""Job: everything that the loop works with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trainer_core.backward.choose import Backward
from trainer_core.checkpoint import Keeper
from trainer_core.config import RunConfig
from trainer_core.data.batches import Window
from trainer_core.events import Event
from trainer_core.model.answers import Answering
from trainer_core.objectives.objective import Objective
from trainer_core.objectives.rows import ScoredRow
from trainer_core.policy import Policy, Reference
from trainer_core.row_losses import RowLossLog

Tell = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Job:
    """Everything `loop.fit` works with.

    Attributes:
        config: resolved.
        policy: what is trained.
        objective: what for.
        backward: how gradients are made.
        train: scored training rows; windows name them by index.
        valid: scored validation rows, may be empty.
        valid_skipped: validation rows that could not be used.
        windows: the optimiser steps in order, from a step on.
        total: how many there are.
        keeper: where adapters go.
        row_log: where the losses of the single validation rows go.
        answering: answers prompts with the policy.
        reference: DPO's sums for the training rows.
        valid_reference: DPO's sums for the validation rows.
    """

    config: RunConfig
    policy: Policy
    objective: Objective
    backward: Backward
    train: Sequence[ScoredRow]
    valid: Sequence[ScoredRow]
    valid_skipped: int
    windows: Callable[[int], Iterable[Window]]
    total: int
    keeper: Keeper
    row_log: RowLossLog
    answering: Answering
    reference: Reference | None = None
    valid_reference: Reference | None = None
