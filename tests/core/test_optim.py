"""Schedule, AdamW and clipping, against closed forms and the papers' formulas in float64."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_core.config import RunConfig
from trainer_core.optim import Optimiser, clip, global_norm, learning_rate

SCHEDULES = ("constant", "linear", "cosine")


def rates(total: int, schedule: Any, **more: Any) -> list[float]:
    """The rates of steps 1 to total, for a peak of 1."""
    return [
        learning_rate(k, peak=1.0, total=total, schedule=schedule, **more)
        for k in range(1, total + 1)
    ]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warm_up_step_k_of_w_has_k_over_w_of_the_peak(schedule: str) -> None:
    assert rates(20, schedule, warmup=4)[:4] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_first_step_without_warm_up_is_at_the_peak(schedule: str) -> None:
    assert rates(7, schedule)[0] == 1.0


@pytest.mark.parametrize("warmup", [0, 1, 3])
@pytest.mark.parametrize("floor", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_last_step_is_exactly_the_floor(schedule: Any, floor: float, warmup: int) -> None:
    last = learning_rate(9, peak=3e-4, total=9, schedule=schedule, warmup=warmup, floor=floor)
    assert last == 3e-4 * floor


def test_constant_stays_constant() -> None:
    assert rates(6, "constant", warmup=2) == [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_linear_falls_by_equal_steps() -> None:
    assert rates(5, "linear", floor=0.2) == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])


def test_cosine_is_half_way_in_the_middle() -> None:
    # cos at 0, 60, 120 and 180 degrees is 1, 1/2, -1/2, -1.
    assert rates(4, "cosine", floor=0.0) == pytest.approx([1.0, 0.75, 0.25, 0.0])
    assert rates(4, "cosine", floor=0.5) == pytest.approx([1.0, 0.875, 0.625, 0.5])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_warm_up_as_long_as_the_run_only_rises(schedule: str) -> None:
    assert rates(3, schedule, warmup=3) == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert rates(3, schedule, warmup=6) == pytest.approx([1 / 6, 2 / 6, 3 / 6])


@given(
    total=st.integers(1, 60),
    warmup=st.integers(0, 80),
    floor=st.floats(0, 1),
    schedule=st.sampled_from(SCHEDULES),
)
def test_rises_to_the_peak_then_never_rises_again(
    total: int, warmup: int, floor: float, schedule: Any
) -> None:
    found = rates(total, schedule, warmup=warmup, floor=floor)
    assert all(0 <= rate <= 1 for rate in found)
    peak = max(warmup, 1)
    assert all(a < b for a, b in pairwise(found[:peak]))
    assert all(a >= b for a, b in pairwise(found[peak - 1 :]))


def adamw(gradients: list[np.ndarray], start: np.ndarray, config: RunConfig) -> np.ndarray:
    """Loshchilov and Hutter 2019, algorithm 2, with decay times the rate as torch has it."""
    beta1, beta2 = config.adam_betas
    theta = start.astype(np.float64)
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for t, g in enumerate(gradients, start=1):
        rate = config.learning_rate
        assert rate is not None
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        theta = theta - rate * config.weight_decay * theta
        theta = theta - rate * (m / (1 - beta1**t)) / (
            np.sqrt(v / (1 - beta2**t)) + config.adam_eps
        )
    return theta


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize(("betas", "eps"), [((0.9, 0.999), 1e-8), ((0.8, 0.95), 0.1)])
def test_adamw_takes_the_papers_steps(decay: float, betas: tuple[float, float], eps: float) -> None:
    config = RunConfig(
        model="m",
        data="d",
        learning_rate=0.02,
        lr_schedule="constant",
        weight_decay=decay,
        adam_betas=betas,
        adam_eps=eps,
    )
    random = np.random.default_rng(0)
    start = random.normal(size=(5, 3))
    gradients = [random.normal(size=(5, 3)) for _ in range(6)]
    optimiser = Optimiser(config, 6)
    parameters = {"layer.lora_a": mx.array(start, dtype=mx.float32)}
    for step, g in enumerate(gradients, start=1):
        before = parameters["layer.lora_a"]
        kept = np.array(before)
        parameters = optimiser.update(
            parameters, {"layer.lora_a": mx.array(g, dtype=mx.float32)}, step
        )
        np.testing.assert_array_equal(np.array(before), kept)  # nothing changes in place

    np.testing.assert_allclose(
        np.array(parameters["layer.lora_a"]), adamw(gradients, start, config), rtol=2e-6, atol=1e-6
    )


def test_the_first_step_moves_by_the_rate_whatever_the_gradient() -> None:
    # With the bias corrected, m / sqrt(v) of the first step is the gradient's sign.
    config = RunConfig(model="m", data="d", learning_rate=0.01, weight_decay=0.0)
    start = {"x": mx.zeros(3)}
    moved = Optimiser(config, 10).update(start, {"x": mx.array([1e-3, -50.0, 2.0])}, 1)
    assert moved["x"].tolist() == pytest.approx([-0.01, 0.01, -0.01], rel=1e-4)


def test_follows_the_schedule() -> None:
    config = RunConfig(
        model="m", data="d", learning_rate=0.01, weight_decay=0.0, warmup_steps=2, lr_floor=0.5
    )
    optimiser = Optimiser(config, 4)
    at = mx.zeros(1)
    moves = []
    for step in range(1, 5):
        after = optimiser.update({"x": at}, {"x": mx.ones(1)}, step)["x"]
        moves.append(float(at - after))
        at = after
    # A constant gradient makes every Adam step as long as the rate.
    wanted = [optimiser.rate(step) for step in range(1, 5)]
    assert wanted == pytest.approx([0.005, 0.01, 0.0075, 0.005])
    assert moves == pytest.approx(wanted, rel=1e-4)


def test_state_is_flat_and_whole() -> None:
    config = RunConfig(model="m", data="d", learning_rate=0.01)
    optimiser = Optimiser(config, 4)
    optimiser.update({"a.lora_a": mx.zeros(2)}, {"a.lora_a": mx.ones(2)}, 1)
    state = optimiser.state()
    assert {"step", "a.lora_a.m", "a.lora_a.v"} <= set(state)
    assert int(state["step"]) == 1
    assert state["a.lora_a.m"].tolist() == pytest.approx([0.1, 0.1])
    assert state["a.lora_a.v"].tolist() == pytest.approx([1e-3, 1e-3])


def test_global_norm_is_over_all_arrays_in_float32() -> None:
    gradients = {"a": mx.array([3.0]), "b": mx.array([[4.0], [12.0]])}
    assert float(global_norm(gradients)) == 13.0
    # 300 squared is beyond float16's range.
    half = global_norm({"a": mx.array([300.0, 400.0], dtype=mx.float16)})
    assert half.dtype == mx.float32
    assert float(half) == 500.0


@given(
    values=st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=8),
    limit=st.floats(1e-3, 1e3),
)
def test_clips_like_torch(values: list[float], limit: float) -> None:
    gradients = {"a": mx.array(values)}
    clipped = clip(gradients, global_norm(gradients), limit)["a"]
    norm = math.sqrt(sum(value * value for value in values))
    factor = min(1.0, limit / (norm + 1e-6))  # torch.nn.utils.clip_grad_norm_
    np.testing.assert_allclose(np.array(clipped), np.array(values) * factor, rtol=1e-5, atol=1e-12)


def test_a_limit_of_zero_leaves_gradients_alone() -> None:
    gradients = {"a": mx.array([1e6])}
    assert clip(gradients, global_norm(gradients), 0)["a"].tolist() == [1e6]
