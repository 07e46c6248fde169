"""The fused head: the forward also forms J[t] = d logp[t] / d hidden[t].

logp[t] depends on hidden[t] alone, so its Jacobian is one row per token, and a chunk's logits can
go as soon as its rows of J are there: two products with the head's weights instead of three, and
nothing kept but J.
"""

from __future__ import annotations

import mlx.core as mx

from trainer_core.heads.full import Project
from trainer_core.heads.log_softmax import picked_log_softmax
from trainer_core.heads.row_jacobian import logps_by_chunks


def logps_and_jacobian(
    project: Project, hidden: mx.array, targets: mx.array
) -> tuple[mx.array, mx.array]:
    """(logp [N] float32, J [N, D] in the dtype of hidden) for one chunk.

    The rows are independent, so J is the gradient of the sum of all log-probabilities.
    """

    def logps(rows: mx.array) -> mx.array:
        return picked_log_softmax(project(rows), targets)

    (logp,), (jacobian,) = mx.vjp(logps, [hidden], [mx.ones(targets.shape, dtype=mx.float32)])
    return logp, jacobian


def logps_fused(project: Project, hidden: mx.array, targets: mx.array, chunk: int) -> mx.array:
    """Float32 log-probabilities [N], differentiable in hidden [N, D] inside a whole graph."""
    return logps_by_chunks(
        lambda rows, wanted: logps_and_jacobian(project, rows, wanted), hidden, targets, chunk
    )
