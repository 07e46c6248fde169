"""Blocked attention equals MLX's own, forward and backward, whatever the mask."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest

from trainer_core.model import attention
from trainer_core.model.attention import attention_in_force, blocked_attention

LENGTH = 75


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "BLOCK", 16)


def arrays(length: int, width: int) -> list[mx.array]:
    keys = mx.random.split(mx.random.key(5), 3)
    return [
        mx.random.normal((2, 6, length, 8), key=keys[0]),
        mx.random.normal((2, 2, width, 8), key=keys[1]),
        mx.random.normal((2, 2, width, 8), key=keys[2]),
    ]


def masks(length: int, width: int) -> dict[str, Any]:
    query = mx.arange(width - length, width)[:, None]
    key = mx.arange(width)[None]
    window = (key <= query) & (key > query - 20)
    return {
        "none": None,
        "causal": "causal",
        "window": window,
        "additive": mx.where(window, 0.0, -1e9),
    }


@pytest.mark.parametrize("width", [LENGTH, LENGTH + 30])
@pytest.mark.parametrize("kind", ["none", "causal", "window", "additive"])
@pytest.mark.parametrize("sinks", [None, mx.arange(6) * 0.3])
def test_equals_mlx(kind: str, width: int, sinks: mx.array | None) -> None:
    inputs = arrays(LENGTH, width)
    mask = masks(LENGTH, width)[kind]
    weight = mx.random.normal((2, 6, LENGTH, 8), key=mx.random.key(9))

    def run(function: Any) -> tuple[mx.array, list[mx.array]]:
        def total(*arrays: mx.array) -> mx.array:
            return (weight * function(*arrays, scale=0.35, mask=mask, sinks=sinks)).sum()

        value, gradients = mx.value_and_grad(total, argnums=(0, 1, 2))(*inputs)
        mx.eval(value, gradients)
        return value, gradients

    value, gradients = run(blocked_attention)
    wanted, wanted_gradients = run(mx.fast.scaled_dot_product_attention)
    assert float(value) == pytest.approx(float(wanted), rel=1e-5)
    for got, want in zip(gradients, wanted_gradients, strict=True):
        assert float(mx.linalg.norm(got - want) / mx.linalg.norm(want)) < 2e-6


def test_is_in_force_for_a_block_only() -> None:
    own = mx.fast.scaled_dot_product_attention
    with attention_in_force("blocked"):
        assert mx.fast.scaled_dot_product_attention is blocked_attention
    assert mx.fast.scaled_dot_product_attention is own
    with attention_in_force("sdpa"):
        assert mx.fast.scaled_dot_product_attention is own


def test_needs_less_memory_than_mlx_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    if mx.default_device() != mx.Device(mx.cpu):
        pytest.skip("MLX's own backward is linear on this device")
    monkeypatch.setattr(attention, "BLOCK", 256)
    shape = (1, 4, 2048, 32)
    inputs = [mx.random.normal(shape, key=mx.random.key(i)) for i in range(3)]
    mx.eval(inputs)

    def peak(function: Any) -> int:
        mx.clear_cache()
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        grad = mx.grad(lambda q, k, v: function(q, k, v, scale=0.2, mask="causal").sum(), (0, 1, 2))
        mx.eval(grad(*inputs))
        return mx.get_peak_memory() - before

    assert peak(blocked_attention) < 0.5 * peak(mx.fast.scaled_dot_product_attention)
