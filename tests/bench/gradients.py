"""How far apart the gradients of two contenders are; free of MLX."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def distance(got: Path, wanted: Path) -> float:
    """||got - wanted|| / ||wanted|| over all arrays of two files of `save_gradients`."""
    off = size = 0.0
    with np.load(got) as ours, np.load(wanted) as theirs:
        if set(ours.files) != set(theirs.files):
            raise ValueError(f"{got.name} and {wanted.name} hold gradients of other layers")
        for name in theirs.files:
            off += float(np.square(ours[name].astype(np.float64) - theirs[name]).sum())
            size += float(np.square(theirs[name].astype(np.float64)).sum())
    return (off / size) ** 0.5
