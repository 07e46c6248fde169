"""Which rows share a packed row: as many as fit, so that little of it is left empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from trainer_core.data.batches import Window

# Packed rows that are looked at for room; more would fill them a little better and take longer.
_OPEN = 64


def pack(lengths: Sequence[int], limit: int, *, seed: int | None = 0) -> list[list[int]]:
    """Row numbers of each packed row: every row goes where the least room is left after it.

    Args:
        lengths: tokens of each row.
        limit: most tokens of a packed row; a longer row is alone.
        seed: rows come in an order drawn with it, or in their own if it is None.
    """
    order = range(len(lengths))
    rows = order if seed is None else np.random.default_rng([seed]).permutation(order).tolist()
    packs: list[list[int]] = []
    room: dict[int, int] = {}
    for row in rows:
        fitting = [number for number, left in room.items() if left >= lengths[row]]
        if fitting:
            number = min(fitting, key=room.__getitem__)
            packs[number].append(row)
            room[number] -= lengths[row]
            continue
        packs.append([row])
        room[len(packs) - 1] = limit - lengths[row]
        if len(room) > _OPEN:
            del room[min(room, key=room.__getitem__)]
    return packs


def unpacked(windows: Iterable[Window], packs: Sequence[Sequence[int]]) -> Iterator[Window]:
    """Windows over packed rows as windows over the rows in them."""
    for window in windows:
        batches = tuple(
            tuple(row for number in batch for row in packs[number])
            for batch in window.micro_batches
        )
        yield replace(window, micro_batches=batches)
