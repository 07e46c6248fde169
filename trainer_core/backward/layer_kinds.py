"""What makes two layers one kind: everything about them but the numbers in their arrays."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from trainer_core.model.lora import LoRALinear


def kind_of(module: nn.Module) -> Hashable:
    """Equal for two modules exactly if each computes what the other would with its arrays.

    What is neither an array, a module nor a plain value counts as alike only if it is the same
    object, so an unusual layer is a kind of its own.
    """
    # A LoRA layer's number is part of its dropout masks, and of nothing else.
    left_out = {"index"} if isinstance(module, LoRALinear) and module.rate == 0 else set()
    attributes = {**vars(module), **module}
    return (
        type(module),
        tuple((name, _kind(attributes[name])) for name in sorted(set(attributes) - left_out)),
    )


def _kind(value: Any) -> Hashable:
    if isinstance(value, nn.Module):
        return kind_of(value)
    if isinstance(value, mx.array):
        return "array", tuple(value.shape), value.dtype
    if isinstance(value, (list, tuple)):
        return type(value), tuple(id(v) if isinstance(v, mx.array) else _kind(v) for v in value)
    if isinstance(value, (set, frozenset)):
        return frozenset(map(_kind, value))
    if value is None or isinstance(value, (str, bytes, int, float, bool)):
        return type(value), value
    return "object", id(value)
