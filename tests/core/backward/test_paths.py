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


def one_step(policy: Policy, backward: Backward, method: str, count: int = 3) -> Result:
    objective = objective_of(method)
    rows = [objective.score(example) for example in random_pairs(count)]
    reference = {row.example.row: (-20.0, -21.0) for row in rows} if method == "dpo" else None
    totals = objective.totals(rows)
    loss, metrics, gradients = backward(policy, objective, rows, totals, reference, 1)
    mx.eval(loss, metrics, gradients)
    return float(loss), {name: float(value) for name, value in metrics.items()}, gradients


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
    golden: Path, family: str, method: str, size: int, prefix: bool
) -> None:
    wanted = one_step(small_policy(golden / family), whole_graph, method)
    head: HeadKind = "flash" if size == 3 else "fused"
    policy = small_policy(golden / family, head=head, share_prefix=prefix)
    got = one_step(policy, Segmented(size) if size else whole_graph, method)
    check(got, wanted)


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("family", ["llama", "gemma4"])
def test_dropout_is_the_same_in_the_recompute(golden: Path, family: str, prefix: bool) -> None:
    make = lambda: small_policy(golden / family, dropout=0.3, share_prefix=prefix)  # noqa: E731
    check(one_step(make(), Segmented(2), "orpo"), one_step(make(), whole_graph, "orpo"))
