"""Every optimiser against torch's numbers, tests/golden/optimisers, and its state over a stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from trainer_core.config import RunConfig
from trainer_core.optim import Arrays, Optimiser, learning_rate
from trainer_core.update_rules import Adafactor, orthogonal

VALUES: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "optimisers" / "values.json").read_text()
)
RULES = ("adamw", "adam", "sgd", "adafactor", "muon")


def ours(arrays: dict[str, Any]) -> Arrays:
    """Torch's arrays in our layout, in which LoRA's matrices are transposed."""
    return {name: mx.array(np.array(value, dtype=np.float32).T) for name, value in arrays.items()}


def config(name: str, **more: Any) -> RunConfig:
    values = {"learning_rate": VALUES["rate"], "lr_schedule": "constant", "optimizer": name}
    if name != "adam":
        values["weight_decay"] = VALUES["decay"]
    return RunConfig(model="m", data="d", **{**values, **more})


def stepped(optimiser: Optimiser, start: Arrays, first: int, stop: int) -> Arrays:
    parameters = start
    for step in range(first, stop):
        gradients = ours(VALUES["gradients"][step])
        parameters = optimiser.update(parameters, gradients, step + 1)
    return parameters


def run(config: RunConfig) -> Arrays:
    steps = len(VALUES["gradients"])
    return stepped(Optimiser(config, steps), ours(VALUES["start"]), 0, steps)


def compare(found: Arrays, wanted: dict[str, Any]) -> None:
    """Equal to 5e-5 of the way gone: MLX rounds Adam's 1 - 0.999 ** step to float32."""
    start = ours(VALUES["start"])
    for name, array in ours(wanted).items():
        way = float(mx.abs(array - start[name]).max())
        np.testing.assert_allclose(np.array(found[name]), np.array(array), rtol=0, atol=5e-5 * way)


@pytest.mark.parametrize("name", RULES)
def test_takes_torchs_steps(name: str) -> None:
    compare(run(config(name)), VALUES["after"][name])


def test_lora_plus_is_torchs_adamw_with_another_rate_for_b() -> None:
    compare(run(config("adamw", lora_plus_ratio=16.0)), VALUES["after"]["lora_plus_16"])


@pytest.mark.parametrize("name", RULES)
def test_goes_on_from_its_state_as_if_it_had_never_stopped(name: str, tmp_path: Path) -> None:
    steps, settings = len(VALUES["gradients"]), config(name, lora_plus_ratio=4.0)
    optimiser = Optimiser(settings, steps)
    half = stepped(optimiser, ours(VALUES["start"]), 0, 3)
    mx.save_safetensors(str(tmp_path / "state.safetensors"), optimiser.state())
    stored: Any = mx.load(str(tmp_path / "state.safetensors"))

    again = Optimiser(settings, steps)
    again.restore(stored, half)

    found, wanted = stepped(again, half, 3, steps), run(settings)
    assert all(mx.array_equal(found[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_schedules_are_transformers_with_our_numbering(schedule: Any) -> None:
    """Theirs gives step 0 a rate of 0 and reaches the end one step after the last; ours does not.

    So our step k has the rate that they number k.
    """
    wanted = VALUES["schedules"][schedule][1:]
    found = [
        learning_rate(k, peak=1.0, total=10, schedule=schedule, warmup=3, floor=0.0)
        for k in range(1, 11)
    ]
    assert found == pytest.approx(wanted, abs=1e-7)


def test_constant_with_warm_up_is_transformers_too() -> None:
    found = [learning_rate(k, peak=1.0, total=10, schedule="constant", warmup=3) for k in range(11)]
    assert found == pytest.approx(VALUES["schedules"]["constant_with_warmup"], abs=1e-7)


def test_adafactor_keeps_rows_and_columns_only() -> None:
    optimiser = Optimiser(config("adafactor"), 2)
    optimiser.update({"x": mx.ones((40, 30))}, {"x": mx.ones((40, 30))}, 1)
    state = optimiser.state()
    assert sum(array.size for name, array in state.items() if name.startswith("x.")) == 70


def test_adafactor_stands_still_where_there_is_no_gradient() -> None:
    rule = Adafactor(0.1)
    after = rule.apply_gradients({"x": mx.zeros((3, 2))}, {"x": mx.ones((3, 2))})
    assert mx.array_equal(after["x"], mx.ones((3, 2)))


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5)])
def test_orthogonal_brings_singular_values_near_one(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    found = np.linalg.svd(np.array(orthogonal(mx.array(matrix))), compute_uv=False)
    assert found.min() > 0.6
    assert found.max() < 1.3


def test_orthogonal_of_nothing_is_nothing() -> None:
    assert not np.any(np.array(orthogonal(mx.zeros((3, 2)))))
