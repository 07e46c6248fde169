"""What the fused and the flash head share: a head that brings its own Jacobian along.

logp[t] depends on hidden[t] alone, so the backward pass is a product with one row for each token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

# (logp [n], J [n, D]) of some hidden states [n, D] and their targets [n], still lazy.
Chunk = Callable[[mx.array, mx.array], tuple[mx.array, mx.array]]


def logps_by_chunks(one: Chunk, hidden: mx.array, targets: mx.array, chunk: int) -> mx.array:
    """Float32 log-probabilities [N], differentiable in hidden [N, D] inside a whole graph.

    Args:
        one: log-probabilities and Jacobian of one chunk.
        hidden: [N, D].
        targets: [N].
        chunk: tokens per chunk. Chunks are chained, or the scheduler could hold all their logits.
    """

    @mx.custom_function
    def head(rows: mx.array) -> tuple[mx.array, mx.array]:
        logps: list[mx.array] = []
        jacobians: list[mx.array] = []
        for start in range(0, rows.shape[0], chunk):
            part = rows[start : start + chunk]
            if jacobians:
                part = mx.depends(part, [jacobians[-1], logps[-1]])
            logp, jacobian = one(part, targets[start : start + chunk])
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
