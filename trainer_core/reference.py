"""DPO's reference log-probabilities: computed once before the first step, kept with the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np

from trainer_core.events import Event, Stage
from trainer_core.objectives.rows import ScoredRow
from trainer_core.policy import Policy, Reference

_TOGETHER = 8


def compute_reference(
    policy: Policy, rows: Sequence[ScoredRow], *, base: bool, tell: Callable[[Event], None]
) -> Reference:
    """Row number -> summed response log-probabilities (chosen, rejected), without dropout.

    Args:
        policy: as training starts.
        rows: training or validation rows.
        base: score with the adapter switched off, instead of as it stands.
        tell: told of progress.
    """
    if base:
        with policy.adapter.disabled():
            return compute_reference(policy, rows, base=False, tell=tell)
    found: Reference = {}
    # Rows of like length run together, which wastes the least on padding.
    order = sorted(rows, key=lambda row: len(row.example.chosen))
    for start in range(0, len(order), _TOGETHER):
        tell(Stage("reference", "Scoring the answers with the reference", start / len(order)))
        for scored in policy.values(order[start : start + _TOGETHER]):
            assert scored.rejected is not None, "DPO scores pairs"
            found[scored.row.example.row] = (
                float(scored.chosen.sum()),
                float(scored.rejected.sum()),
            )
    return found


def save_reference(path: Path, train: Reference, valid: Reference) -> None:
    """Write both references as one safetensors file."""
    arrays = {}
    for name, reference in (("train", train), ("valid", valid)):
        arrays[f"{name}.rows"] = mx.array(np.array(list(reference), dtype=np.int32))
        sums = np.array(list(reference.values()), dtype=np.float32).reshape(-1, 2)
        arrays[f"{name}.sums"] = mx.array(sums)
    mx.save_safetensors(str(path), arrays)
