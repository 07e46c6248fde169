"""The whole-graph backward: one forward, differentiated by MLX. The oracle for the other ones."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from trainer_core.model.checkpointed import checkpointed
from trainer_core.objectives.objective import Objective
from trainer_core.objectives.rows import Metrics, ScoredRow, Totals
from trainer_core.policy import Policy, Reference

Gradients = dict[str, mx.array]


def whole_graph(
    policy: Policy,
    objective: Objective,
    rows: Sequence[ScoredRow],
    totals: Totals,
    reference: Reference | None,
    step: int,
) -> tuple[mx.array, Metrics, Gradients]:
    """Loss share, metric shares and gradients of one micro-batch, all still lazy.

    Args:
        policy: what is trained.
        objective: from log-probabilities to loss.
        rows: the micro-batch.
        totals: of the whole optimiser step.
        reference: DPO's stored sums.
        step: the optimiser step, for dropout.
    """
    parameters = policy.adapter.parameters()

    def loss(parameters: dict[str, mx.array]) -> tuple[mx.array, Metrics]:
        policy.adapter.assign(parameters)
        return objective.loss(policy.score(rows, reference, step=step), totals)

    try:
        (value, metrics), gradients = mx.value_and_grad(loss)(parameters)
    finally:
        # While MLX traces, the layers hold tracers; they must not stay there.
        policy.adapter.assign(parameters)
    return value, metrics, gradients


def checkpointed_graph(
    policy: Policy,
    objective: Objective,
    rows: Sequence[ScoredRow],
    totals: Totals,
    reference: Reference | None,
    step: int,
) -> tuple[mx.array, Metrics, Gradients]:
    """The same, with every layer recomputed; not for a policy that shares prompts."""
    assert not policy.share_prefix, "a shared prompt's keys and values do not survive a recompute"
    with checkpointed(policy.stack, policy.adapter.dropout):
        return whole_graph(policy, objective, rows, totals, reference, step)
