"""The chunked head: logits for a chunk of tokens at a time, computed again in the backward pass."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from trainer_core.heads.full import Project, logps_full


def logps_chunked(project: Project, hidden: mx.array, targets: mx.array, chunk: int) -> mx.array:
    """Float32 log-probabilities [N], differentiable in hidden [N, D].

    Never more than chunk x V logits are held, forward or backward. Both passes chain their chunks
    by `mx.depends`, or the scheduler could hold the logits of all of them at once; checkpoints of
    MLX would leave the backward's unchained.
    """
    starts = range(0, hidden.shape[0], chunk)

    def one(rows: mx.array, start: int) -> mx.array:
        return logps_full(project, rows, targets[start : start + chunk])

    @mx.custom_function
    def head(rows: mx.array) -> mx.array:
        parts: list[mx.array] = []
        for start in starts:
            part = rows[start : start + chunk]
            parts.append(one(mx.depends(part, parts[-1]) if parts else part, start))
        return mx.concatenate(parts)

    @head.vjp
    def head_vjp(rows: mx.array, cotangent: mx.array, _output: mx.array) -> mx.array:
        found: list[mx.array] = []
        for start in starts:
            part = rows[start : start + chunk]
            part = mx.depends(part, found[-1]) if found else part
            wanted = cotangent[start : start + chunk]
            _, (gradient,) = mx.vjp(lambda x, s=start: one(x, s), [part], [wanted])
            found.append(gradient)
        return mx.concatenate(found)

    logps: Any = head(hidden)
    return logps
