"""What a run leaves on disk while it goes: checkpoints, the best adapter, the final one."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx

from trainer_core.errors import TrainerError
from trainer_core.model.adapter_files import AdapterSpec, write_adapter
from trainer_core.model.lora import Adapter
from trainer_core.optim import Optimiser
from trainer_core.runfolder import RunFolder, replaced_folder


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
        return path

    def save_best(self, step: int) -> Path:
        """Replace best/ by the adapter as it stands."""
        self._write(self.run.best, step)
        return self.run.best

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
                    mx.save_safetensors(str(fresh / "optimizer.safetensors"), optimiser.state())
                    text = json.dumps({"step": step, **(state or {})}, indent=2)
                    (fresh / "state.json").write_text(text + "\n", encoding="utf-8")
        except (OSError, RuntimeError) as error:
            # mlx reports a full disk as RuntimeError.
            why = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise TrainerError(
                f"the adapter could not be saved in {path.parent}",
                why,
                "make room on the disk or choose another runs folder; what was saved is intact",
            ) from error
