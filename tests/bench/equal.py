"""What makes contenders equal: the adapter they start from, and when memory is counted from."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx
import numpy as np


def adapter_values(parameters: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """The values every contender's adapter starts from. B is not zero, so that A has a gradient."""
    found = {}
    for number, name in enumerate(sorted(parameters)):
        shape = parameters[name].shape
        deviation = 0.02 if name.endswith("lora_b") else 0.5 / shape[0] ** 0.5
        found[name] = deviation * mx.random.normal(shape, key=mx.random.key(number))
    mx.eval(found)
    return found


def save_gradients(path: Path, gradients: Mapping[str, mx.array]) -> None:
    """Write gradients as float32 for the parent to compare."""
    np.savez(path, **{name: np.array(g.astype(mx.float32)) for name, g in gradients.items()})


def loaded_bytes() -> int:
    """What MLX holds now that all is loaded; its peak is counted from here on."""
    gc.collect()
    mx.clear_cache()
    mx.reset_peak_memory()
    return mx.get_active_memory()
