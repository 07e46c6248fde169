"""passport.json: what made a run and what came of it, enough to tell two runs apart years later."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from trainer_core.config import RunConfig
from trainer_core.events import Finished
from trainer_core.runfolder import RunFolder, write_atomically

_HEADER, _BLOCK, _BLOCKS = 1 << 20, 1 << 16, 256

_PACKAGES = ("burnish", "mlx", "mlx-lm", "numpy", "tokenizers", "transformers")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a run's numbers."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def write_passport(
    run: RunFolder, config: RunConfig, model: Path, data: Sequence[Path], finished: Finished
) -> None:
    """Write passport.json.

    Args:
        run: the run's folder.
        config: resolved.
        model: the model's folder.
        data: the files that were read.
        finished: the run's last event.
    """
    record: dict[str, Any] = {
        "schema_version": 1,
        "versions": versions(),
        "platform": platform.platform(),
        "seed": config.seed,
        "model": {"name": config.model, "sha256": model_hash(model)},
        "data": [{"file": path.name, "sha256": file_hash(path)} for path in data],
        "results": {
            "reason": finished.reason,
            "steps": finished.steps,
            "best_step": finished.best_step,
            "seconds": round(finished.seconds, 3),
        },
    }
    write_atomically(run.passport, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def model_hash(folder: Path) -> str:
    """A hash of the model that is quick for large ones.

    It covers names, sizes and the configuration, and of each weight file its header and blocks
    spread over all of it, so that two fine-tunes of one model differ.
    """
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.safetensors"), folder / "config.json"]):
        size = path.stat().st_size
        digest.update(f"{path.name}:{size}:".encode())
        with path.open("rb") as file:
            digest.update(file.read(_HEADER))
            for place in range(_HEADER, size, max(size // _BLOCKS, _BLOCK)):
                file.seek(place)
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
