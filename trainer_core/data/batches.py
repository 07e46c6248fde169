"""Which rows each optimiser update takes, drawn with a seeded generator of its own.

A window is the rows of one update, cut into micro-batches. An epoch visits every row exactly once;
its last micro-batch and its last window may be smaller, and no window reaches into the next epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainer_core.config import DEFAULT_ITERS


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of one optimiser update.

    Attributes:
        step: counts from 1.
        epoch: passes over the data after this update, for example 0.5.
        micro_batches: row numbers, at most `batch_size` in each.
    """

    step: int
    epoch: float
    micro_batches: tuple[tuple[int, ...], ...]

    @property
    def rows(self) -> tuple[int, ...]:
        """All rows of the update in order."""
        return tuple(row for batch in self.micro_batches for row in batch)


def windows(
    n_rows: int,
    *,
    batch_size: int,
    accumulation: int = 1,
    shuffle: bool = True,
    seed: int = 0,
    epochs: float | None = None,
    iters: int | None = None,
    first_step: int = 1,
) -> Iterator[Window]:
    """The updates of a run in order.

    The order of an epoch depends on the seed and the number of the epoch alone, so that a run can
    be taken up at any step.

    Args:
        n_rows: number of training rows.
        batch_size: rows per micro-batch.
        accumulation: micro-batches per update.
        shuffle: draw a new order in every epoch; else file order.
        seed: seed of the order.
        epochs: passes over the data. 100 updates if neither this nor `iters` is given.
        iters: number of updates.
        first_step: the step to start with, for a resumed run.

    Raises:
        ValueError: a count is not positive, or both epochs and iters are given.
    """
    last = total_steps(
        n_rows, batch_size=batch_size, accumulation=accumulation, epochs=epochs, iters=iters
    )
    size = batch_size * accumulation
    per_epoch = math.ceil(n_rows / size)
    order: list[int] = []
    drawn = -1
    for step in range(first_step, last + 1):
        epoch, place = divmod(step - 1, per_epoch)
        if epoch != drawn:
            order, drawn = _order(n_rows, epoch, shuffle=shuffle, seed=seed), epoch
        rows = order[place * size : (place + 1) * size]
        batches = tuple(tuple(rows[i : i + batch_size]) for i in range(0, len(rows), batch_size))
        yield Window(step, epoch + (place * size + len(rows)) / n_rows, batches)


def total_steps(
    n_rows: int,
    *,
    batch_size: int,
    accumulation: int = 1,
    epochs: float | None = None,
    iters: int | None = None,
) -> int:
    """Number of updates of a run; a started window of a fractional epoch counts.

    Raises:
        ValueError: a count is not positive, or both epochs and iters are given.
    """
    if min(n_rows, batch_size, accumulation) < 1:
        raise ValueError("n_rows, batch_size and accumulation must be positive")
    if epochs is not None and iters is not None:
        raise ValueError("give epochs or iters, not both")
    if epochs is None:
        return DEFAULT_ITERS if iters is None else iters
    if epochs <= 0:
        raise ValueError("epochs must be positive")
    per_epoch = math.ceil(n_rows / (batch_size * accumulation))
    # Rounded first, so that 0.1 x 3 does not start a window for an error in the last bit.
    return max(1, math.ceil(round(epochs * per_epoch, 9)))


def _order(n_rows: int, epoch: int, *, shuffle: bool, seed: int) -> list[int]:
    if not shuffle:
        return list(range(n_rows))
    return [int(row) for row in np.random.default_rng([seed, epoch]).permutation(n_rows)]
