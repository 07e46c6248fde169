"""Whether two run folders hold the same run: bit for bit, but for times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from trainer_core.events import Sample, Step, Validation
from trainer_core.row_losses import read_row_losses
from trainer_core.runfolder import RunFolder, read_events

# What depends on the machine's mood rather than on the run.
_CLOCKED = ("tokens_per_s", "supervised_tokens_per_s", "peak_memory_bytes", "seconds")


def differences(got: RunFolder, wanted: RunFolder, step: int) -> list[str]:
    """What differs of adapters, moments, loop state after `step`, and everything told."""
    found = []
    if told(got) != told(wanted):
        found.append("the record of steps, validations and answers")
    if read_row_losses(got.row_losses) != read_row_losses(wanted.row_losses):
        found.append("the losses of the validation rows")
    for one, other in (
        (got.adapter, wanted.adapter),
        (got.best, wanted.best),
        (got.checkpoint(step), wanted.checkpoint(step)),
    ):
        mine, theirs = arrays(one), arrays(other)
        names = sorted(set(mine) | set(theirs))
        found += [f"{one.name}: {name}" for name in names if not _same(mine, theirs, name)]
    if loop_state(got, step) != loop_state(wanted, step):
        found.append(f"the state of the loop after step {step}")
    return found


def told(folder: RunFolder) -> list[dict[str, Any]]:
    """The steps, validations and answers that the record tells of, without times."""
    found = []
    for event in read_events(folder.events):
        if isinstance(event, Step | Validation | Sample):
            names = [name for name in event.__dataclass_fields__ if name not in _CLOCKED]
            found.append({"event": event.name, **{name: getattr(event, name) for name in names}})
    return found


def arrays(folder: Path) -> dict[str, np.ndarray]:
    """Everything in the safetensors of a folder."""
    return {
        f"{file.name}:{name}": array
        for file in sorted(folder.glob("*.safetensors"))
        for name, array in load_file(file).items()
    }


def loop_state(folder: RunFolder, step: int) -> dict[str, Any]:
    """What a checkpoint says of the loop, without times."""
    text = (folder.checkpoint(step) / "state.json").read_text()
    return {k: v for k, v in json.loads(text).items() if k != "seconds"}


def _same(mine: dict[str, np.ndarray], theirs: dict[str, np.ndarray], name: str) -> bool:
    if name not in mine or name not in theirs:
        return False
    one, other = mine[name], theirs[name]
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
