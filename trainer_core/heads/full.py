"""The plain head: all logits at once, differentiated by MLX. The oracle for the other heads."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

Project = Callable[[mx.array], mx.array]


def logps_full(project: Project, hidden: mx.array, targets: mx.array) -> mx.array:
    """Float32 log-probabilities [N] of targets [N] given hidden states [N, D]."""
    logits = project(hidden).astype(mx.float32)
    picked = mx.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
    return picked - mx.logsumexp(logits, axis=-1)
