"""Checkpointed layers: TRL's numbers, the plain graph's gradients, its dropout, less memory."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from tests.core.engine import (
    FAMILIES,
    golden_config,
    golden_steps,
    random_pairs,
    relative,
    small_policy,
)
from tests.core.runs import run, small_config
from tests.core.tiny import tiny_model
from trainer_core.backward.autograd import checkpointed_graph, whole_graph
from trainer_core.backward.choose import Backward
from trainer_core.config import RunConfig
from trainer_core.events import Step, Warned
from trainer_core.model.checkpointed import checkpointed
from trainer_core.model.dropout import DropoutSwitch
from trainer_core.model.lora import attach
from trainer_core.model.stack import LayerStack
from trainer_core.model.targets import block_path, choose
from trainer_core.objectives.objective import make_objective
from trainer_core.policy import Policy

ORPO = make_objective(RunConfig(model="m", data="d", method="orpo"))


def gradients(policy: Policy, backward: Backward, step: int = 1) -> dict[str, mx.array]:
    rows = [ORPO.score(example) for example in random_pairs(3)]
    return backward(policy, ORPO, rows, ORPO.totals(rows), None, step)[2]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_the_plain_graphs(golden: Path, family: str, dropout: float) -> None:
    policy = small_policy(golden / family, dropout=dropout)
    before = policy.adapter.parameters()
    wanted = gradients(policy, whole_graph)
    found = gradients(policy, checkpointed_graph)
    assert relative(found, wanted) < 2e-5
    if dropout:
        assert relative(gradients(policy, checkpointed_graph, step=2), wanted) > 0.05
    after = policy.adapter.parameters()
    assert all(after[name] is before[name] for name in before)  # and no tracer


@pytest.mark.parametrize("method", ["sft", "dpo", "orpo"])
@pytest.mark.parametrize("family", ["llama", "gemma3", "gemma4"])
def test_gives_trls_numbers(golden: Path, tmp_path: Path, family: str, method: str) -> None:
    folder = golden / family
    ran = run(golden_config(folder, method, tmp_path, grad_checkpoint=True, iters=4))
    tolerance = 1e-4 if method == "dpo" else 1e-5
    for step, wanted in zip(ran.of(Step), golden_steps(folder, method)[:4], strict=True):
        assert step.loss == pytest.approx(wanted["loss"], rel=tolerance)
        assert step.grad_norm == pytest.approx(wanted["grad_norm"], rel=1e-4)


def test_says_that_prompts_are_not_shared(tmp_path: Path) -> None:
    ran = run(small_config(tmp_path, grad_checkpoint=True, iters=1))
    assert any("prefix_sharing is off" in warned.message for warned in ran.of(Warned))
    plain = run(small_config(tmp_path, grad_checkpoint=True, prefix_sharing="off", iters=1))
    assert not any("prefix_sharing" in warned.message for warned in plain.of(Warned))


def test_keeps_less() -> None:
    """Eight layers of 2 MB inputs: what a layer keeps inside is many times its input."""
    model = tiny_model("llama", num_hidden_layers=8, intermediate_size=256)
    adapter = attach(model, choose(model, "auto", -1).paths, rank=2, scale=1.0)
    stack = LayerStack(model, block_path(model))
    ids = mx.array(np.arange(4 * 128).reshape(4, 128) % 96)

    def loss(parameters: dict[str, mx.array]) -> mx.array:
        adapter.assign(parameters)
        return stack.hidden(ids).square().mean()

    def peak() -> int:
        parameters = adapter.parameters()
        mx.clear_cache()
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        mx.eval(mx.value_and_grad(loss)(parameters))
        adapter.assign(parameters)
        return mx.get_peak_memory() - before

    plain = peak()
    with checkpointed(stack, DropoutSwitch()):
        assert peak() < 0.5 * plain
