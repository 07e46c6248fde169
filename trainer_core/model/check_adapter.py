"""Adapters for checks: any values do, as long as both A and B have a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import mlx.core as mx
import mlx.nn as nn

from trainer_core.model.dropout import DropoutSwitch
from trainer_core.model.lora import Adapter, LoRALinear, attach
from trainer_core.model.targets import choose


def new_adapter(model: nn.Module) -> Adapter:
    """A small adapter with random values, put on a model."""
    adapter = attach(model, choose(model, "auto", -1).paths, rank=4, scale=1.0)
    adapter.assign(_random(adapter))
    return adapter


def adapter_on(model: nn.Module) -> Adapter | None:
    """The adapter that is on a model, if there is one."""
    layers = {path: m for path, m in model.named_modules() if isinstance(m, LoRALinear)}
    return Adapter(layers, DropoutSwitch()) if layers else None


@contextmanager
def random_values(adapter: Adapter) -> Iterator[None]:
    """Give an adapter random values for as long as the block runs."""
    before = adapter.parameters()
    adapter.assign(_random(adapter))
    try:
        yield
    finally:
        adapter.assign(before)


def _random(adapter: Adapter) -> dict[str, mx.array]:
    # Lengths of rows stay as they are: any others would drown or silence a layer.
    shapes = {n: array.shape for n, array in adapter.parameters().items() if array.ndim == 2}
    keys = mx.random.split(mx.random.key(2), max(len(shapes), 2))
    return {
        name: mx.random.normal(shape, key=key) / shape[0] ** 0.5
        for key, (name, shape) in zip(keys, shapes.items(), strict=False)
    }
