"""Log softmax at the targets without a float32 copy of the logits, and without a scatter."""

from __future__ import annotations

from collections.abc import Sequence
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

    An exponential costs MLX on a CPU as much as forty sums, so each is taken once: the softmax
    serves the gradient, and its largest value, which is one over the sum, the log-sum-exp. MLX's
    own gradient would also scatter into a second array of the logits' size.
    """

    @mx.custom_function
    def picked(logits: mx.array) -> tuple[mx.array, mx.array]:
        wide = logits.astype(mx.float32)
        softmax = mx.softmax(wide, axis=-1)
        logsumexp = wide.max(-1) - mx.log(softmax.max(-1))
        return mx.take_along_axis(wide, targets[:, None], axis=-1)[:, 0] - logsumexp, softmax

    @picked.vjp
    def picked_vjp(
        logits: mx.array, cotangents: Sequence[mx.array], outputs: Sequence[mx.array]
    ) -> mx.array:
        onehot = mx.arange(logits.shape[-1])[None] == targets[:, None]
        by_logit = onehot.astype(mx.float32) - outputs[1]
        return (cotangents[0][:, None] * by_logit).astype(logits.dtype)

    logps: Any = picked(logits)
    return logps[0]
