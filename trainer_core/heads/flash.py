"""The flash head: a chunk of tokens times a block of the vocabulary, never a row of all logits.

The log-sum-exp is kept online, Milakov and Gimelshein 2018, arXiv:1805.02867, in float32. A second
walk over the blocks sums the Jacobian of the fused head: three products with the head's weights
instead of two, for memory that does not depend on the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

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
    highest = mx.full(targets.shape, -mx.inf, dtype=mx.float32)
    total = mx.zeros(targets.shape, dtype=mx.float32)
    picked = mx.zeros(targets.shape, dtype=mx.float32)
    for start, stop in blocks.ranges():
        rows = hidden if eager or start == 0 else mx.depends(hidden, total)
        logits = blocks.project(rows, start, stop).astype(mx.float32)
        now = mx.maximum(highest, logits.max(axis=-1))
        total = total * mx.exp(highest - now) + mx.exp(logits - now[:, None]).sum(axis=-1)
        highest = now
        picked = picked + _picked(logits, targets, start, stop)
        if eager:
            mx.eval(highest, total, picked)
    lse = highest + mx.log(total)
    return picked - lse, lse


def jacobian_flash(
    blocks: VocabularyBlocks, hidden: mx.array, targets: mx.array, lse: mx.array, *, eager: bool
) -> mx.array:
    """J [N, D] in the dtype of hidden, where J[t] = d logp[t] / d hidden[t]; see `values_flash`."""
    jacobian = mx.zeros(hidden.shape, dtype=mx.float32)
    ones = mx.ones(targets.shape, dtype=mx.float32)
    for start, stop in blocks.ranges():
        rows = hidden if eager else mx.depends(hidden, [jacobian, lse])

        def term(rows: mx.array, start: int = start, stop: int = stop) -> mx.array:
            return _block_logps(blocks.project(rows, start, stop), targets - start, lse)

        _, (part,) = mx.vjp(term, [rows], [ones])
        jacobian = jacobian + part.astype(mx.float32)
        if eager:
            mx.eval(jacobian)
    return jacobian.astype(hidden.dtype)


def logps_flash(
    blocks: VocabularyBlocks, hidden: mx.array, targets: mx.array, chunk: int
) -> mx.array:
    """Float32 log-probabilities [N], differentiable in hidden [N, D] inside a whole graph."""

    @mx.custom_function
    def head(rows: mx.array) -> tuple[mx.array, mx.array]:
        logps: list[mx.array] = []
        jacobians: list[mx.array] = []
        for start in range(0, rows.shape[0], chunk):
            part = rows[start : start + chunk]
            if jacobians:
                part = mx.depends(part, jacobians[-1])
            wanted = targets[start : start + chunk]
            logp, lse = values_flash(blocks, part, wanted, eager=False)
            logps.append(logp)
            jacobians.append(jacobian_flash(blocks, part, wanted, lse, eager=False))
        return mx.concatenate(logps), mx.concatenate(jacobians)

    @head.vjp
    def head_vjp(
        _primals: mx.array, cotangents: Sequence[mx.array], outputs: Sequence[mx.array]
    ) -> mx.array:
        return cotangents[0][:, None].astype(outputs[1].dtype) * outputs[1]

    outputs: Any = head(hidden)
    return outputs[0]


def _picked(logits: mx.array, targets: mx.array, start: int, stop: int) -> mx.array:
    """The targets' logits where they lie in this block, else 0."""
    inside = (targets >= start) & (targets < stop)
    places = mx.clip(targets - start, 0, stop - start - 1)
    found = mx.take_along_axis(logits, places[:, None], axis=-1)[:, 0]
    return mx.where(inside, found, 0.0)


def _block_logps(logits: mx.array, places: mx.array, lse: mx.array) -> mx.array:
    """Zeros [N] whose gradient in the block's logits is that of logp: onehot - softmax."""

    @mx.custom_function
    def block(logits: mx.array) -> mx.array:
        return mx.zeros(logits.shape[:1], dtype=mx.float32)

    @block.vjp
    def block_vjp(logits: mx.array, cotangent: mx.array, _output: mx.array) -> mx.array:
        onehot = mx.arange(logits.shape[-1])[None] == places[:, None]
        softmax = mx.exp(logits.astype(mx.float32) - lse[:, None])
        return (cotangent[:, None] * (onehot.astype(mx.float32) - softmax)).astype(logits.dtype)

    logps: Any = block(logits)
    return logps
