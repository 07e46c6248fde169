"""From a run folder, or an adapter folder inside one, to what an export needs to know."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainer_core.errors import ExportError
from trainer_core.model.adapter_files import CONFIG, WEIGHTS
from trainer_core.model.find import resolve_model
from trainer_core.runfolder import RunFolder


@dataclass(frozen=True, slots=True)
class ExportSource:
    """A trained adapter.

    Attributes:
        adapter: its folder.
        model: folder of the base model.
        model_name: what the adapter's config names as its model.
        prompt_format: how prompts were rendered in training.
    """

    adapter: Path
    model: Path
    model_name: str
    prompt_format: Literal["chat", "raw"]


def find_source(path: Path) -> ExportSource:
    """The adapter to export.

    Args:
        path: a run folder, its adapter/, best/ or a checkpoint.

    Raises:
        ExportError: there is no adapter, or its run's configuration is missing.
        ModelError: the base model is gone.
    """
    path = path.expanduser().absolute()
    if not path.is_dir():
        raise ExportError(f"there is no folder {path}", try_this="name a run folder")
    adapter = path if (path / WEIGHTS).exists() else RunFolder(path).adapter
    if not (adapter / WEIGHTS).exists() or not (adapter / CONFIG).exists():
        raise ExportError(
            f"{path} holds no finished adapter",
            f"there is no {WEIGHTS} in it",
            "name a run folder, or a checkpoint inside one",
        )
    run = next((p for p in [path, *path.parents[:2]] if RunFolder(p).config.exists()), None)
    if run is None:
        raise ExportError(
            f"{path} is not part of a run",
            "there is no config.yaml that says which model it belongs to",
            "name a run folder",
        )
    from trainer_core.config_io import load_config

    config = load_config(RunFolder(run).config)
    stored = json.loads((adapter / CONFIG).read_text(encoding="utf-8"))
    model = resolve_model(config.model)
    name = config.model if config.model != "sample" else str(model)
    return ExportSource(adapter, model, name, stored.get("prompt_format", config.prompt_format))
