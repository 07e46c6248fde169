"""The shape every objective has, and the choice of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

from trainer_core.config import RunConfig
from trainer_core.data.types import TokenisedExample
from trainer_core.objectives.dpo import Dpo
from trainer_core.objectives.orpo import Orpo
from trainer_core.objectives.reference_free import Cpo, SimPo
from trainer_core.objectives.rows import Metrics, RowLogps, ScoredRow, Totals
from trainer_core.objectives.sft import Sft


class Objective(Protocol):
    """Says which tokens it needs, counts them, and turns their log-probabilities into a loss.

    Attributes:
        linear: whether the loss is linear in the log-probabilities.
        needs_reference: whether rows must come with a reference's log-probabilities.
    """

    linear: bool
    needs_reference: bool

    def score(self, example: TokenisedExample) -> ScoredRow:
        """The tokens of a row to compute log-probabilities for."""
        ...

    def totals(self, rows: Sequence[ScoredRow]) -> Totals:
        """What the sums of all these rows are divided by."""
        ...

    def loss(self, rows: Sequence[RowLogps], totals: Totals) -> tuple[mx.array, Metrics]:
        """This micro-batch's share of the loss, and of each metric; shares add up over a step."""
        ...


def make_objective(config: RunConfig) -> Objective:
    """The objective that a configuration asks for."""
    if config.method == "sft":
        return Sft()
    if config.method == "dpo":
        return _preference(config)
    return Orpo(weight=config.orpo_lambda, scope=config.sft_scope)


def _preference(config: RunConfig) -> Objective:
    beta, smoothing = config.dpo_beta, config.label_smoothing
    if config.preference_loss == "cpo":
        return Cpo(beta, config.cpo_alpha, smoothing)
    if config.preference_loss == "simpo":
        return SimPo(beta, config.simpo_gamma, smoothing)
    return Dpo(beta, config.preference_loss, smoothing)
