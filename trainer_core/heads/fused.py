"""The fused head: the forward also forms J[t] = d logp[t] / d hidden[t].

logp[t] depends on hidden[t] alone, so its Jacobian is one row per token, and a chunk's logits can
go as soon as its rows of J are there: two products with the head's weights instead of three, and
nothing kept but J.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from trainer_core.heads.full import Project


def logps_and_jacobian(
    project: Project, hidden: mx.array, targets: mx.array
) -> tuple[mx.array, mx.array]:
    """(logp [N] float32, J [N, D] in the dtype of hidden) for one chunk.

    The rows are independent, so J is the gradient of the sum of all log-probabilities.
    """

    def logps(rows: mx.array) -> mx.array:
        return _picked_log_softmax(project(rows), targets)

    (logp,), (jacobian,) = mx.vjp(logps, [hidden], [mx.ones(targets.shape, dtype=mx.float32)])
    return logp, jacobian


def logps_fused(project: Project, hidden: mx.array, targets: mx.array, chunk: int) -> mx.array:
    """Float32 log-probabilities [N], differentiable in hidden [N, D] inside a whole graph."""

    @mx.custom_function
    def head(rows: mx.array) -> tuple[mx.array, mx.array]:
        logps: list[mx.array] = []
        jacobians: list[mx.array] = []
        for start in range(0, rows.shape[0], chunk):
            part = rows[start : start + chunk]
            if jacobians:
                part = mx.depends(part, jacobians[-1])
            logp, jacobian = logps_and_jacobian(project, part, targets[start : start + chunk])
            logps.append(logp)
            jacobians.append(jacobian)
        return mx.concatenate(logps), mx.concatenate(jacobians)

    @head.vjp
    def head_vjp(
        _primals: mx.array, cotangents: Sequence[mx.array], outputs: Sequence[mx.array]
    ) -> mx.array:
        return cotangents[0][:, None].astype(outputs[1].dtype) * outputs[1]

    outputs: Any = head(hidden)
    return outputs[0]


def _picked_log_softmax(logits: mx.array, targets: mx.array) -> mx.array:
    """Log softmax at the targets, with the gradient (onehot - softmax) written out.

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
