"""The chunked head: logits of one chunk of tokens at a time, recomputed in the backward pass."""

from __future__ import annotations

import mlx.core as mx

from trainer_core.heads.full import Project, logps_full


def logps_chunked(project: Project, hidden: mx.array, targets: mx.array, chunk: int) -> mx.array:
    """Float32 log-probabilities [N]; never more than chunk x V logits, forward or backward.

    Chunks are chained by `mx.depends`, or the scheduler could hold the logits of all of them at
    once.
    """
    parts: list[mx.array] = []
    for start in range(0, hidden.shape[0], chunk):
        rows = hidden[start : start + chunk]
        wanted = targets[start : start + chunk]
        if parts:
            rows = mx.depends(rows, parts[-1])

        def one(rows: mx.array, wanted: mx.array = wanted) -> mx.array:
            # The targets are closed over: mx.checkpoint refuses integer inputs when differentiated.
            return logps_full(project, rows, wanted)

        parts.append(mx.checkpoint(one)(rows))
    return mx.concatenate(parts)
