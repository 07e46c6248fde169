"""DPO's reference log-probabilities: computed once before the first step, kept with the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from trainer_core.control import Control
from trainer_core.errors import TrainerError
from trainer_core.events import Stage
from trainer_core.job import Job, Tell
from trainer_core.objectives.rows import ScoredRow
from trainer_core.policy import Policy, Reference
from trainer_core.runfolder import RunFolder, write_atomically

_TOGETHER = 8


def with_reference(
    job: Job, run: RunFolder, tell: Tell, control: Control, *, resumed: bool = False
) -> Job:
    """The job with the reference of its rows, which is also written to the run folder.

    A run that goes on reads what it wrote before its first step. A stop that comes while the rows
    are scored leaves the job as it is: it will not take a step.

    Args:
        job: a DPO job as training starts.
        run: the run's folder.
        tell: told of progress.
        control: looked at between rows.
        resumed: the adapter is no longer what the reference is made of.

    Raises:
        TrainerError: the run goes on, and what it wrote cannot be read.
    """
    if resumed:
        train, valid = read_reference(run.reference)
        return replace(job, reference=train, valid_reference=valid)
    base = job.config.dpo_reference == "base"
    train = compute_reference(job.policy, job.train, base=base, tell=tell, control=control)
    valid = compute_reference(job.policy, job.valid, base=base, tell=tell, control=control)
    if train is None or valid is None:
        return job
    save_reference(run.reference, train, valid)
    return replace(job, reference=train, valid_reference=valid)


def compute_reference(
    policy: Policy, rows: Sequence[ScoredRow], *, base: bool, tell: Tell, control: Control
) -> Reference | None:
    """Row number -> summed response log-probabilities (chosen, rejected), without dropout.

    Args:
        policy: as training starts.
        rows: training or validation rows.
        base: score with the adapter switched off, instead of as it stands.
        tell: told of progress.
        control: a stop gives up.

    Returns:
        The sums, or None if given up.
    """
    if base:
        with policy.adapter.disabled():
            return compute_reference(policy, rows, base=False, tell=tell, control=control)
    found: Reference = {}
    # Rows of like length run together, which wastes the least on padding.
    order = sorted(rows, key=lambda row: len(row.example.chosen))
    for start in range(0, len(order), _TOGETHER):
        if control.stopping:
            return None
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
        arrays[f"{name}.rows"] = np.array(list(reference), dtype=np.int32)
        arrays[f"{name}.sums"] = np.array(list(reference.values()), np.float32).reshape(-1, 2)
    write_atomically(path, save(arrays))


def read_reference(path: Path) -> tuple[Reference, Reference]:
    """The references of the training and the validation rows that `save_reference` wrote.

    Raises:
        TrainerError: the file is missing or broken.
    """
    try:
        arrays = load_file(path)
        train, valid = (
            {
                int(row): (float(chosen), float(rejected))
                for row, (chosen, rejected) in zip(
                    arrays[f"{name}.rows"], arrays[f"{name}.sums"], strict=True
                )
            }
            for name in ("train", "valid")
        )
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise TrainerError(
            f"{path} cannot be read, and DPO cannot go on without it",
            " ".join(str(error).split()),
            "start a new run with warm_start on the last adapter",
        ) from None
    return train, valid
