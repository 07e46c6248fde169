"""DoRA on linear layers: a trained direction, as LoRA has it, and a trained length for each output.

Liu et al. 2024, arXiv:2402.09353. The layer computes m * (W + scale * B A) / n for each output,
where n is the length of that row of W + scale * B A. As in section 4.3 of the paper, n is a
constant for the gradient. m starts as the lengths of the rows of W, so that nothing changes at
first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import mlx.core as mx
import mlx.nn as nn

from trainer_core.model.lora import LoRALinear


def bits_beyond_mlx_lm(bits: Iterable[int]) -> list[int]:
    """Widths of quantised layers on which mlx-lm makes a DoRA layer of the wrong size."""
    return sorted({width for width in bits if 32 % width})


class DoRALinear(LoRALinear):
    """A frozen linear layer whose weight gets a trained low-rank update and trained row lengths.

    The dense W is looked at once, when the layer is made; after that it may stay quantised.
    """

    trained: ClassVar[tuple[str, ...]] = ("lora_a", "lora_b", "m")

    def __init__(self, linear: nn.Module, *args: Any, **more: Any) -> None:
        super().__init__(linear, *args, **more)
        # Frozen, and with a name that keeps it out of what is saved.
        self._squares = mx.square(_dense(linear).astype(mx.float32)).sum(axis=1)
        self.m = mx.sqrt(self._squares)

    def __call__(self, x: mx.array) -> mx.array:
        """Outputs [..., outputs] for inputs [..., inputs], in the dtype of x."""
        if not self.enabled:
            return self.linear(x)
        linear: Any = self.linear
        seen = self._dropped(x)
        y = _product(linear, seen)
        update = (self.scale * ((seen @ self.lora_a) @ self.lora_b)).astype(y.dtype)
        share = (self.m / self._lengths(x.dtype)).astype(y.dtype)
        if seen is x:
            out = share * (y + update)
        else:
            # PEFT's form: dropout spares the base model's own output.
            out = _product(linear, x) + (share - 1) * y + share * update
        return out + linear.bias if "bias" in linear else out

    def _lengths(self, dtype: mx.Dtype) -> mx.array:
        """Lengths [outputs] of the rows of W + scale * B A, constant.

        |w + u|^2 = |w|^2 + 2 w u + |u|^2, whose last two need W's product with A only.
        """
        a, b = mx.stop_gradient(self.lora_a), mx.stop_gradient(self.scale * self.lora_b)
        across = _product(self.linear, a.T.astype(dtype)).astype(mx.float32) * b
        own = ((a.T @ a) @ b) * b
        squares = self._squares + 2 * across.sum(axis=0) + own.sum(axis=0)
        return mx.sqrt(mx.maximum(squares, mx.finfo(mx.float32).smallest_normal))


def _product(linear: Any, x: mx.array) -> mx.array:
    """X W^T without the bias."""
    if isinstance(linear, nn.QuantizedLinear):
        return mx.quantized_matmul(x, linear.weight, transpose=True, **_packing(linear))
    return x @ linear.weight.T


def _dense(linear: Any) -> mx.array:
    """W [outputs, inputs]."""
    if isinstance(linear, nn.QuantizedLinear):
        return mx.dequantize(linear.weight, **_packing(linear))
    return linear.weight


def _packing(linear: Any) -> dict[str, Any]:
    """How a quantised weight is to be read."""
    return {
        "scales": linear.scales,
        "biases": linear.get("biases"),
        "group_size": linear.group_size,
        "bits": linear.bits,
        "mode": linear.mode,
    }
