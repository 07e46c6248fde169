"""What a run leaves on disk while it goes: checkpoints, the best adapter, the final one.

A checkpoint is all that decides how training goes on. The best adapter may be of a later step than
the last checkpoint, so the one it took the place of stays until a checkpoint has caught up.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx

from trainer_core.errors import TrainerError
from trainer_core.model.adapter_files import CONFIG, AdapterSpec, write_adapter
from trainer_core.model.lora import Adapter
from trainer_core.optim import Arrays, Optimiser
from trainer_core.runfolder import (
    CHECKPOINT_FORMAT,
    CheckpointFiles,
    RunFolder,
    replaced_folder,
)


@dataclass(frozen=True, slots=True)
class Restored:
    """A checkpoint that was read: its step, the optimiser's arrays and the state of the loop."""

    step: int
    moments: Arrays
    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Keeper:
    """Writes adapters into a run folder.

    Attributes:
        run: the folder.
        adapter: what is saved.
        spec: its shape.
        facts: further keys for adapter_config.json.
        keep: how many periodic checkpoints stay.
        texts: name -> content of further small files of each adapter's folder.
    """

    run: RunFolder
    adapter: Adapter
    spec: AdapterSpec
    facts: dict[str, Any]
    keep: int
    texts: dict[str, str] = field(default_factory=dict)

    def save_checkpoint(self, step: int, optimiser: Optimiser, state: dict[str, Any]) -> Path:
        """Write checkpoints/step-N: adapter, optimiser moments, loop state. Drop the oldest."""
        path = self.run.checkpoint(step)
        self._write(path, step, optimiser, state)
        for old in self.run.checkpoint_steps()[: -self.keep]:
            shutil.rmtree(self.run.checkpoint(old))
        shutil.rmtree(self.run.best_before, ignore_errors=True)
        return path

    def save_best(self, step: int) -> Path:
        """Replace best/ by the adapter as it stands."""
        if self.run.best.exists() and not self.run.best_before.exists():
            self.run.best.replace(self.run.best_before)
        self._write(self.run.best, step)
        return self.run.best

    def restore(self, step: int) -> Restored:
        """Put a checkpoint's arrays into the adapter, all of them or none.

        Raises:
            TrainerError: it cannot be read, or is of another adapter.
        """
        files = CheckpointFiles(self.run.checkpoint(step))
        try:
            arrays: Any = mx.load(str(files.parameters))
            moments: Any = mx.load(str(files.moments))
            state = json.loads(files.state.read_text(encoding="utf-8"))
            mx.eval(arrays, moments)
        except (OSError, RuntimeError, ValueError) as error:
            raise _useless(files.path, " ".join(str(error).split())) from None
        if _shapes(arrays) != _shapes(self.adapter.parameters()):
            raise _useless(files.path, "its arrays are not those of this adapter")
        self.adapter.assign(arrays)
        return Restored(step, moments, state)

    def forget_later(self, step: int, best_step: int | None) -> None:
        """Remove what belongs to steps that will be taken again.

        Args:
            step: of the checkpoint that the run goes on from.
            best_step: the best step until then.
        """
        for later in self.run.checkpoint_steps():
            if later > step:
                shutil.rmtree(self.run.checkpoint(later))
        if _step_of(self.run.best) != best_step:
            shutil.rmtree(self.run.best, ignore_errors=True)
            if best_step is not None and _step_of(self.run.best_before) == best_step:
                self.run.best_before.replace(self.run.best)
        shutil.rmtree(self.run.best_before, ignore_errors=True)

    def save_final(self, step: int) -> Path:
        """Write adapter/ with the adapter as it stands."""
        self._write(self.run.adapter, step)
        return self.run.adapter

    def _write(
        self,
        path: Path,
        step: int,
        optimiser: Optimiser | None = None,
        state: dict[str, Any] | None = None,
    ) -> None:
        try:
            with replaced_folder(path) as fresh:
                arrays = self.adapter.uniform(self.spec.rank, self.spec.scale)
                write_adapter(fresh, arrays, self.spec, {**self.facts, "step": step})
                for name, text in self.texts.items():
                    (fresh / name).write_text(text, encoding="utf-8")
                if optimiser is not None:
                    files = CheckpointFiles(fresh)
                    if not self.adapter.is_uniform(self.spec.rank, self.spec.scale):
                        mx.save_safetensors(str(files.exact), self.adapter.parameters())
                    mx.save_safetensors(str(files.moments), optimiser.state())
                    told = {"format": CHECKPOINT_FORMAT, "step": step, **(state or {})}
                    files.state.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        except (OSError, RuntimeError) as error:
            # mlx reports a full disk as RuntimeError.
            why = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise TrainerError(
                f"the adapter could not be saved in {path.parent}",
                why,
                "make room on the disk or choose another runs folder; what was saved is intact",
            ) from error


def _shapes(arrays: Arrays) -> dict[str, tuple[Any, ...]]:
    return {name: (array.shape, array.dtype) for name, array in arrays.items()}


def _useless(checkpoint: Path, why: str) -> TrainerError:
    return TrainerError(
        f"the run cannot go on from {checkpoint}",
        why,
        "move that folder away to go on from the one before it",
    )


def _step_of(folder: Path) -> int | None:
    """The step whose adapter a folder holds, or None if it holds none."""
    try:
        return json.loads((folder / CONFIG).read_text(encoding="utf-8")).get("step")
    except (OSError, ValueError):
        return None
