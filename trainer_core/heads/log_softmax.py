"""Log softmax at the targets without a float32 copy of the logits, and without a scatter."""

from __future__ import annotations

from typing import Any

import mlx.core as mx


def picked_log_softmax(logits: mx.array, targets: mx.array) -> mx.array:
    """Float32 log-probabilities [N] of targets [N] under logits [N, V], differentiable in them."""
    if mx.default_device().type == mx.gpu:
        # One pass forward and one backward, added up in float32; on a CPU it is neither.
        return -mx.fast.cross_entropy(logits, targets)
    return _on_cpu(logits, targets)


def _on_cpu(logits: mx.array, targets: mx.array) -> mx.array:
    """The same with the gradient (onehot - softmax) written out.

    MLX's own gradient would scatter into a second array of the logits' size.
    """

    @mx.custom_function
    def picked(logits: mx.array) -> mx.array:
        wide = logits.astype(mx.float32)
        chosen = mx.take_along_axis(wide, targets[:, None], axis=-1)[:, 0]
        return chosen - mx.logsumexp(wide, axis=-1)

    @picked.vjp
    def picked_vjp(logits: mx.array, cotangent: mx.array, _output: mx.array) -> mx.array:
        softmax = mx.softmax(logits.astype(mx.float32), axis=-1)
        onehot = mx.arange(logits.shape[-1])[None] == targets[:, None]
        return (cotangent[:, None] * (onehot.astype(mx.float32) - softmax)).astype(logits.dtype)

    logps: Any = picked(logits)
    return logps
