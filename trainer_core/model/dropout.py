"""Dropout whose masks depend on named keys, never on a global generator.

A backward pass that recomputes part of the forward must see the masks of the first run. So every
mask is drawn from a key made of (seed, step, row, side, target), and a row's mask has the row's
own length: it does not depend on what the row is batched with.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import mlx.core as mx


@dataclass(frozen=True, slots=True)
class RowKey:
    """One sequence of the forward: row number, side (0 chosen, 1 rejected) and length."""

    row: int
    side: int
    length: int


@dataclass(frozen=True, slots=True)
class DropoutPlan:
    """Who is in the forward that runs now; row i of the batch is `rows[i]`.

    With `in_a_row` the batch is one row, in which they come one after the other.
    """

    seed: int
    step: int
    rows: tuple[RowKey, ...]
    in_a_row: bool = False


class DropoutSwitch:
    """Shared by all adapter layers of a model: the plan in force, or None for no dropout."""

    def __init__(self) -> None:
        self.plan: DropoutPlan | None = None

    @contextmanager
    def set(self, plan: DropoutPlan | None) -> Iterator[None]:
        """Put a plan in force for as long as the block runs."""
        before, self.plan = self.plan, plan
        try:
            yield
        finally:
            self.plan = before


def drop(x: mx.array, rate: float, plan: DropoutPlan, target: int) -> mx.array:
    """Inverted dropout of x.

    Args:
        x: inputs [B, T, D], right-padded; B is the number of rows of the plan, or 1.
        rate: share of elements set to zero; the rest is divided by 1 - rate.
        plan: which rows these are.
        target: number of the adapted layer.
    """
    width, depth = x.shape[1], x.shape[2]
    masks = []
    for row in plan.rows:
        length = min(row.length, width)
        key = _key(plan.seed, plan.step, row.row, row.side, target)
        mask = mx.random.bernoulli(1 - rate, (length, depth), key=key)
        if length < width and not plan.in_a_row:
            mask = mx.pad(mask, [(0, width - length), (0, 0)])
        masks.append(mask)
    mask = mx.concatenate(masks)[None] if plan.in_a_row else mx.stack(masks)
    return x * mask.astype(x.dtype) * (1 / (1 - rate))


def _key(*parts: int) -> mx.array:
    digest = hashlib.blake2b(struct.pack(f"<{len(parts)}q", *parts), digest_size=8).digest()
    return mx.array(struct.unpack("<2I", digest), dtype=mx.uint32)
