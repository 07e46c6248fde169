"""Which rows each optimiser update takes, drawn with a seeded generator of its own.

A window is the rows of one update, cut into micro-batches. An epoch visits every row exactly once;
its last micro-batch and its last window may be smaller, and no window reaches into the next epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trainer_core.config import DEFAULT_ITERS

# Batches among whose rows like lengths are put together.
_STRETCH = 32


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
    lengths: Sequence[int] | None = None,
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
        lengths: tokens of each row, if rows of like length are to share micro-batches.

    Raises:
        ValueError: a count is not positive, or both epochs and iters are given.
    """
    last = total_steps(
        n_rows, batch_size=batch_size, accumulation=accumulation, epochs=epochs, iters=iters
    )
    size = batch_size * accumulation
    per_epoch = math.ceil(n_rows / size)
    batches: list[tuple[int, ...]] = []
    drawn = -1
    for step in range(first_step, last + 1):
        epoch, place = divmod(step - 1, per_epoch)
        if epoch != drawn:
            rng = np.random.default_rng([seed, epoch]) if shuffle else None
            batches, drawn = _micro_batches(n_rows, batch_size, rng, lengths), epoch
        taken = tuple(batches[place * accumulation : (place + 1) * accumulation])
        yield Window(step, epoch + (place * size + sum(map(len, taken))) / n_rows, taken)


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


def _micro_batches(
    n_rows: int, size: int, rng: np.random.Generator | None, lengths: Sequence[int] | None
) -> list[tuple[int, ...]]:
    """Every row once, `size` to a batch; only the last batch may have fewer.

    With `lengths`, rows are sorted within stretches of `_STRETCH` batches, so that batches differ
    from epoch to epoch, and full batches come in a random order, so that an update of several sees
    all lengths.
    """
    order = [int(row) for row in (rng.permutation(n_rows) if rng else range(n_rows))]
    if lengths is not None:
        stretch = size * _STRETCH
        order = [
            row
            for i in range(0, n_rows, stretch)
            for row in sorted(order[i : i + stretch], key=lengths.__getitem__, reverse=True)
        ]
    batches = [tuple(order[i : i + size]) for i in range(0, n_rows, size)]
    if lengths is None or rng is None:
        return batches
    full = n_rows // size
    return [batches[i] for i in rng.permutation(full)] + batches[full:]
