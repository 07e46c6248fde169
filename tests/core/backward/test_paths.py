"""Every fast path gives the gradients of the whole graph with two forwards and all logits."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from tests.core.engine import FAMILIES, random_pairs, relative, small_policy
from trainer_core.backward.autograd import whole_graph
from trainer_core.backward.choose import Backward
from trainer_core.backward.segmented import Segmented
from trainer_core.config import Method, RunConfig
from trainer_core.heads.head import HeadKind
from trainer_core.objectives.objective import Objective, make_objective
from trainer_core.policy import Policy

Result = tuple[float, dict[str, float], dict[str, mx.array]]


def objective_of(method: Method) -> Objective:
    return make_objective(RunConfig(model="m", data="d", method=method))


def one_step(
    policy: Policy, backward: Backward, method: Method, count: int = 3, size: int = 3
) -> Result:
    """Loss, metrics and gradients of one step over micro-batches of `size` rows."""
    objective = objective_of(method)
    rows = [objective.score(example) for example in random_pairs(count)]
    reference = {row.example.row: (-20.0, -21.0) for row in rows} if method == "dpo" else None
    totals = objective.totals(rows)
    loss = 0.0
    metrics: dict[str, float] = {}
    gradients: dict[str, mx.array] = {}
    for start in range(0, count, size):
        part = rows[start : start + size]
        share, shares, found = backward(policy, objective, part, totals, reference, 1)
        mx.eval(share, shares, found)
        loss += float(share)
        for name, value in shares.items():
            metrics[name] = metrics.get(name, 0.0) + float(value)
        gradients = {n: g + gradients[n] if gradients else g for n, g in found.items()}
    return loss, metrics, gradients


def check(got: Result, wanted: Result) -> None:
    assert got[0] == pytest.approx(wanted[0], rel=1e-5)
    for name, value in wanted[1].items():
        assert got[1][name] == pytest.approx(value, rel=1e-4, abs=1e-5)
    assert relative(got[2], wanted[2]) < 2e-5


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("method", ["sft", "dpo", "orpo"])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_exact(
    golden: Path, family: str, method: Method, size: int, prefix: bool
) -> None:
    wanted = one_step(small_policy(golden / family), whole_graph, method)
    head: HeadKind = "flash" if size == 3 else "fused"
    policy = small_policy(golden / family, head=head, share_prefix=prefix)
    got = one_step(policy, Segmented(size) if size else whole_graph, method)
    check(got, wanted)


@pytest.mark.parametrize("head", ["full", "chunked", "fused", "flash"])
@pytest.mark.parametrize("method", ["sft", "dpo", "orpo"])
def test_gradients_are_exact_with_every_head_and_accumulation(
    golden: Path, method: Method, head: HeadKind
) -> None:
    wanted = one_step(small_policy(golden / "gemma3"), whole_graph, method)
    policy = small_policy(golden / "gemma3", head=head, share_prefix=True)
    for backward in (Segmented(2), whole_graph):
        for size in (2, 1):
            check(one_step(policy, backward, method, size=size), wanted)


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("method", ["sft", "dpo", "orpo"])
@pytest.mark.parametrize("family", ["llama", "gemma4"])
def test_dropout_is_the_same_in_the_recompute(
    golden: Path, family: str, method: Method, prefix: bool
) -> None:
    def step(backward: Backward, size: int) -> Result:
        policy = small_policy(golden / family, dropout=0.3, share_prefix=prefix)
        return one_step(policy, backward, method, size=size)

    check(step(Segmented(2), 1), step(whole_graph, 3))
