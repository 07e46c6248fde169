"""The optimiser updates that a configuration makes of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trainer_core.config import RunConfig
from trainer_core.data.batches import Window, total_steps, windows
from trainer_core.data.packing import pack, unpacked
from trainer_core.data.types import TokenisedExample


def updates(
    config: RunConfig, rows: Sequence[TokenisedExample]
) -> tuple[Callable[[int], Iterator[Window]], int]:
    """The updates in order from a step on, over row numbers, and how many there are.

    Args:
        config: says how many rows an update takes, in which order, and whether they are packed.
        rows: the training rows.
    """
    size: dict[str, Any] = {
        "batch_size": config.batch_size,
        "accumulation": config.grad_accumulation_steps,
        "iters": config.iters,
        "epochs": config.epochs,
    }
    order: dict[str, Any] = {"shuffle": config.shuffle, "seed": config.seed}
    if config.packing:
        seed = config.seed if config.shuffle else None
        packs = pack([_longer(row) for row in rows], config.max_seq_length, seed=seed)

        def packed(first_step: int) -> Iterator[Window]:
            made = windows(len(packs), first_step=first_step, **size, **order)
            return unpacked(made, packs)

        return packed, total_steps(len(packs), **size)
    order["lengths"] = [_longer(row) for row in rows] if config.group_by_length else None

    def plain(first_step: int) -> Iterator[Window]:
        return windows(len(rows), first_step=first_step, **size, **order)

    return plain, total_steps(len(rows), **size)


def _longer(row: TokenisedExample) -> int:
    """Tokens of a row, of a pair those of its longer sequence."""
    return max(len(row.chosen), len(row.rejected) if row.rejected is not None else 0)
