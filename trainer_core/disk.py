"""Whether the disk takes what a run will save, asked before the run starts."""

from __future__ import annotations

import shutil
from pathlib import Path

from trainer_core.config import RunConfig
from trainer_core.errors import TrainerError
from trainer_core.memory import MemoryEstimate

# Adapters of their own: final, best, the best before it, and one that is being written.
_ADAPTERS = 4
# The rest of a run folder: the record, losses of rows, the reference.
_REST = 20_000_000


def saved_bytes(config: RunConfig, needs: MemoryEstimate) -> int:
    """Bytes that a run folder may grow to.

    Args:
        config: resolved.
        needs: the estimate of the run's memory.
    """
    parts = needs.parts(config.weights)
    trained = parts["optimiser"] // 2  # moments have the size of what is trained, twice
    checkpoint = trained + parts["optimiser"]
    # The newest is written before the oldest goes.
    return (config.keep_checkpoints + 1) * checkpoint + _ADAPTERS * trained + _REST


def check_room(parent: Path, needed: int) -> None:
    """Refuse a run whose folder would fill the disk.

    Args:
        parent: the folder of run folders; it need not exist yet.
        needed: see `saved_bytes`.

    Raises:
        TrainerError: less is free.
    """
    place = parent.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        free = shutil.disk_usage(place).free
    except OSError:
        return  # a disk that does not tell is found out when it is full
    if free < needed:
        raise TrainerError(
            f"the disk of {parent} has {_size(free)} free, and the run may save {_size(needed)}",
            "its checkpoints keep the adapter and the optimiser's moments",
            "make room, choose another runs folder, or lower keep_checkpoints",
        )


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
