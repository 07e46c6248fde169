"""The flash head: a chunk of tokens times a block of the vocabulary, never a row of all logits.

The log-sum-exp is kept online, Milakov and Gimelshein 2018, arXiv:1805.02867, in float32. A second
walk over the blocks sums the Jacobian of the fused head: three products with the head's weights
instead of two, for memory that does not depend on the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

from trainer_core.heads.log_softmax import picked_log_softmax
from trainer_core.heads.row_jacobian import logps_by_chunks

# Logits [N, stop - start] of hidden states [N, D] for the tokens start..stop-1.
ProjectBlock = Callable[[mx.array, int, int], mx.array]


@dataclass(frozen=True, slots=True)
class VocabularyBlocks:
    """The head's weights by blocks of rows.

    Attributes:
        project: logits of one block.
        vocabulary: number of tokens V.
        block: tokens per block.
    """

    project: ProjectBlock
    vocabulary: int
    block: int = 8192

    def ranges(self) -> list[tuple[int, int]]:
        """The blocks, first to last."""
        size = self.block
        return [(i, min(i + size, self.vocabulary)) for i in range(0, self.vocabulary, size)]


def values_flash(
    blocks: VocabularyBlocks, hidden: mx.array, targets: mx.array, *, eager: bool
) -> tuple[mx.array, mx.array]:
    """(logp [N], log-sum-exp [N]), float32, for one chunk of tokens.

    Args:
        blocks: the head.
        hidden: [N, D].
        targets: [N].
        eager: evaluate block by block; else chain the blocks inside a lazy graph.
    """
    lse = mx.full(targets.shape, -mx.inf, dtype=mx.float32)
    picked = mx.zeros(targets.shape, dtype=mx.float32)
    for start, stop in blocks.ranges():
        rows = hidden if eager or start == 0 else mx.depends(hidden, lse)
        logits = blocks.project(rows, start, stop)
        inside = (targets >= start) & (targets < stop)
        places = mx.clip(targets - start, 0, stop - start - 1)
        found = mx.take_along_axis(logits, places[:, None], axis=-1)[:, 0].astype(mx.float32)
        lse = mx.logaddexp(lse, found - picked_log_softmax(logits, places))
        picked = picked + mx.where(inside, found, 0.0)
        if eager:
            mx.eval(lse, picked)
    return picked - lse, lse


def jacobian_flash(
    blocks: VocabularyBlocks, hidden: mx.array, targets: mx.array, lse: mx.array, *, eager: bool
) -> mx.array:
    """J [N, D] in the dtype of hidden, where J[t] = d logp[t] / d hidden[t]; see `values_flash`."""
    jacobian = mx.zeros(hidden.shape, dtype=mx.float32)
    for start, stop in blocks.ranges():
        rows = hidden if eager else mx.depends(hidden, [jacobian, lse])

        def project(rows: mx.array, start: int = start, stop: int = stop) -> mx.array:
            return blocks.project(rows, start, stop)

        by_logit = _logits_gradient(project(rows), targets - start, lse)
        _, (part,) = mx.vjp(project, [rows], [by_logit])
        jacobian = jacobian + part.astype(mx.float32)
        if eager:
            mx.eval(jacobian)
    return jacobian.astype(hidden.dtype)


def logps_flash(
    blocks: VocabularyBlocks, hidden: mx.array, targets: mx.array, chunk: int
) -> mx.array:
    """Float32 log-probabilities [N], differentiable in hidden [N, D] inside a whole graph."""

    def one(rows: mx.array, wanted: mx.array) -> tuple[mx.array, mx.array]:
        logp, lse = values_flash(blocks, rows, wanted, eager=False)
        return logp, jacobian_flash(blocks, rows, wanted, lse, eager=False)

    return logps_by_chunks(one, hidden, targets, chunk)


@mx.compile
def _logits_gradient(logits: mx.array, places: mx.array, lse: mx.array) -> mx.array:
    """Of logp in a block's logits: onehot - softmax; a target outside has no one in its row."""
    onehot = mx.arange(logits.shape[-1])[None] == places[:, None]
    softmax = mx.exp(logits.astype(mx.float32) - lse[:, None])
    return (onehot.astype(mx.float32) - softmax).astype(logits.dtype)
