"""Gradients: against finite differences, and equal however a step is split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import pytest

from tests.core.engine import random_pairs, relative, small_policy
from trainer_core.backward.autograd import whole_graph
from trainer_core.config import RunConfig
from trainer_core.objectives.objective import Objective, make_objective
from trainer_core.objectives.rows import ScoredRow
from trainer_core.policy import Policy, Reference

METHODS = {
    "sft": {"method": "sft"},
    "dpo": {"method": "dpo"},
    "orpo": {"method": "orpo", "orpo_lambda": 0.7},
    "orpo-response": {"method": "orpo", "orpo_lambda": 0.7, "sft_scope": "response"},
}


def objective_of(name: str) -> Objective:
    return make_objective(RunConfig(model="m", data="d", **METHODS[name]))


def reference_of(name: str, rows: Sequence[ScoredRow]) -> Reference | None:
    if name != "dpo":
        return None
    return {row.example.row: (-20.0 - row.example.row, -21.0) for row in rows}


def gradients(
    policy: Policy, name: str, rows: list[ScoredRow], size: int, step: int = 1
) -> dict[str, mx.array]:
    """Summed over micro-batches of `size` rows."""
    objective = objective_of(name)
    totals = objective.totals(rows)
    summed: dict[str, mx.array] = {}
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        _, _, found = whole_graph(policy, objective, part, totals, reference_of(name, rows), step)
        summed = {n: g + summed[n] if summed else g for n, g in found.items()}
    return summed


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"])
def test_matches_finite_differences(golden: Path, name: str, kind: str) -> None:
    policy = small_policy(golden / "llama", head="fused")
    objective = objective_of(name)
    rows = [objective.score(example) for example in random_pairs(2)]
    reference = reference_of(name, rows)
    totals = objective.totals(rows)
    found = gradients(policy, name, rows, 2)
    parameters = policy.adapter.parameters()
    for leaf in ("lora_a", "lora_b"):
        tensor = next(n for n in parameters if n.endswith(f"{kind}.{leaf}"))
        # Along the gradient the difference is largest against float32's rounding.
        direction = found[tensor] / mx.linalg.norm(found[tensor])
        values = []
        for sign in (1, -1):
            moved = parameters[tensor] + sign * 2e-2 * direction
            policy.adapter.assign({**parameters, tensor: moved})
            loss, _ = objective.loss(policy.values(rows, reference), totals)
            values.append(float(loss))
        policy.adapter.assign(parameters)
        slope = (values[0] - values[1]) / 4e-2
        assert slope == pytest.approx(float(mx.linalg.norm(found[tensor])), rel=1e-2)


@pytest.mark.parametrize("head", ["full", "chunked", "fused"])
@pytest.mark.parametrize("name", METHODS)
def test_a_step_is_the_same_however_it_is_split(golden: Path, name: str, head: str) -> None:
    policy = small_policy(golden / "qwen3", head=head)
    objective = objective_of(name)
    rows = [objective.score(example) for example in random_pairs(4)]
    whole = gradients(policy, name, rows, 4)
    assert relative(gradients(policy, name, rows, 2), whole) < 2e-5
    assert relative(gradients(policy, name, rows, 1), whole) < 2e-5


@pytest.mark.parametrize("head", ["chunked", "fused", "flash"])
@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma4"])
def test_heads_give_the_full_heads_gradients(golden: Path, family: str, head: str) -> None:
    rows = [objective_of("orpo").score(example) for example in random_pairs(3)]
    wanted = gradients(small_policy(golden / family), "orpo", rows, 3)
    got = gradients(small_policy(golden / family, head=head), "orpo", rows, 3)
    assert relative(got, wanted) < 2e-5


def test_dropout_is_the_same_however_a_step_is_split(golden: Path) -> None:
    policy = small_policy(golden / "llama", dropout=0.3)
    rows = [objective_of("orpo").score(example) for example in random_pairs(4)]
    whole = gradients(policy, "orpo", rows, 4, step=5)
    assert relative(gradients(policy, "orpo", rows, 1, step=5), whole) < 2e-5
    assert relative(gradients(policy, "orpo", rows, 4, step=6), whole) > 0.05
