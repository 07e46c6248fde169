"""Our LoRA layer: the base untouched until B is, and its sum against plain numpy."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from tests.core.engine import FAMILIES, small_policy
from tests.core.tiny import tiny_model
from trainer_core.model.load import load_model
from trainer_core.model.lora import Adapter, LoRALinear, attach, linear_shape
from trainer_core.model.targets import choose

IDS = mx.array([[5, 80, 9, 33, 3, 7], [1, 2, 3, 4, 5, 6]])


def fill(adapter: Adapter) -> None:
    """B with values, so that the adapter does something."""
    for number, layer in enumerate(adapter.layers.values()):
        layer.lora_b = 0.1 * mx.random.normal(layer.lora_b.shape, key=mx.random.key(number))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fresh_adapter_changes_no_bit(golden: Path, family: str) -> None:
    model = load_model(golden / family).model
    before = model(IDS)
    adapter = attach(model, choose(model, "auto", -1).paths, rank=4, scale=2.0)
    assert mx.array_equal(model(IDS), before)
    fill(adapter)
    assert not mx.allclose(model(IDS), before, atol=1e-3)
    with adapter.disabled():
        assert mx.array_equal(model(IDS), before)
    assert not mx.allclose(model(IDS), before, atol=1e-3)


def test_disabled_ends_with_an_error_too(golden: Path) -> None:
    adapter = small_policy(golden / "llama").adapter
    with pytest.raises(KeyError), adapter.disabled():
        raise KeyError
    assert all(layer.enabled for layer in adapter.layers.values())


@pytest.mark.parametrize("bits", [None, 2, 3, 4, 6, 8])
def test_adds_scale_times_x_a_b(bits: int | None) -> None:
    mx.random.seed(0)
    plain = nn.Linear(64, 48)
    base = plain if bits is None else nn.QuantizedLinear.from_linear(plain, 32, bits)
    assert linear_shape(base) == (48, 64)
    layer = LoRALinear(base, rank=3, scale=2.5, key=mx.random.key(1))
    layer.lora_b = mx.random.normal((3, 48), key=mx.random.key(2))
    x = mx.random.normal((2, 5, 64), key=mx.random.key(3))
    a, b, inputs = (np.array(v, dtype=np.float64) for v in (layer.lora_a, layer.lora_b, x))
    wanted = np.array(base(x), dtype=np.float64) + 2.5 * inputs @ a @ b
    np.testing.assert_allclose(np.array(layer(x)), wanted, atol=2e-5)


def test_a_starts_uniform_by_its_inputs_and_b_at_zero() -> None:
    layer = LoRALinear(nn.Linear(400, 30), rank=50, scale=1.0, key=mx.random.key(0))
    bound = 1 / 20  # 1 / sqrt(400)
    a = np.array(layer.lora_a)
    assert a.shape == (400, 50)
    assert np.abs(a).max() <= bound
    # A uniform variable's standard deviation is bound / sqrt(3).
    assert a.std() == pytest.approx(bound / 3**0.5, rel=0.02)
    assert not np.any(np.array(layer.lora_b))


def test_half_precision_layers_keep_their_dtype_and_float32_adapters() -> None:
    base = nn.Linear(16, 8)
    base.set_dtype(mx.bfloat16)
    layer = LoRALinear(base, rank=2, scale=1.0, key=mx.random.key(0))
    assert layer(mx.ones((1, 3, 16), dtype=mx.bfloat16)).dtype == mx.bfloat16
    assert layer.lora_a.dtype == layer.lora_b.dtype == mx.float32


def test_only_a_and_b_are_trained() -> None:
    model = tiny_model("llama")
    adapter = attach(model, choose(model, ["q_proj"], 2).paths, rank=2, scale=1.0)
    names = [name for name, _ in tree_flatten(model.trainable_parameters())]
    assert sorted(names) == sorted(adapter.parameters())
    assert all(name.endswith(("lora_a", "lora_b")) for name in names)


def test_layers_draw_their_own_a_from_the_seed() -> None:
    def drawn(seed: int) -> dict[str, mx.array]:
        model = tiny_model("llama")
        return attach(
            model, choose(model, ["q_proj"], -1).paths, rank=2, scale=1.0, seed=seed
        ).parameters()

    first, again, other = drawn(0), drawn(0), drawn(1)
    assert all(mx.array_equal(first[name], again[name]) for name in first)
    arrays = [*first.values(), *other.values()]
    a = [array for array in arrays if array.shape == (32, 2)]
    assert len({tuple(array.reshape(-1).tolist()) for array in a}) == len(a) == 6


def test_assign_puts_arrays_under_their_names(golden: Path) -> None:
    adapter = small_policy(golden / "llama").adapter
    wanted = {name: mx.full(a.shape, i) for i, (name, a) in enumerate(adapter.parameters().items())}
    adapter.assign(wanted)
    assert all(mx.array_equal(a, wanted[name]) for name, a in adapter.parameters().items())
