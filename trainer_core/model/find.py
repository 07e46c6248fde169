"""From what the user names as a model to a folder on disk, without loading anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer_core.errors import ModelError
from trainer_core.events import Event
from trainer_core.hub import NEEDED


def resolve_model(name: str, emit: Callable[[Event], None] | None = None) -> Path:
    """The folder of a model.

    Args:
        name: a folder, a Hugging Face id in the local cache, or `sample`.
        emit: told of progress when the sample model has to be made first.

    Raises:
        ModelError: there is no such folder or cached model, or it is not a model folder.
    """
    if name == "sample":
        from trainer_core.model.sample_model import ensure_sample_model

        return ensure_sample_model(emit)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _checked(folder.resolve())
    if folder.is_file():
        raise ModelError(
            f"{name} is a file, not a model folder",
            try_this="name the folder that holds config.json and the safetensors files",
        )
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return _checked(_from_cache(name))
    raise ModelError(
        f"there is no model at {name}",
        try_this="name a model folder, a Hugging Face id such as org/name, or sample",
    )


def read_config(folder: Path) -> dict[str, Any]:
    """The model's config.json.

    Raises:
        ModelError: it is missing or not JSON.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{folder} is not a model folder",
            "it has no config.json",
            "name the folder that holds config.json and the safetensors files",
        ) from None
    except (OSError, ValueError) as error:
        hint = "download the model again"
        raise ModelError(f"{path} cannot be read", str(error), hint) from None
    if not isinstance(config, dict):
        why = "it does not hold a JSON object"
        raise ModelError(f"{path} cannot be read", why, "download the model again")
    return config


def _checked(folder: Path) -> Path:
    config = read_config(folder)
    if "model_type" not in config:
        raise ModelError(
            f"{folder} is not a model folder",
            "its config.json names no model_type",
            "an adapter folder goes into warm_start; model takes the base model",
        )
    if config.get("model_file"):
        raise ModelError(
            f"{folder} brings its own program code ({config['model_file']})",
            "model folders never run code here",
            "use a model of an architecture that mlx-lm knows",
        )
    if not any(folder.glob("model*.safetensors")):
        if any(folder.glob("*.gguf")):
            why, hint = "it holds GGUF files only", "use the safetensors version of the model"
        else:
            why, hint = "it has no model*.safetensors file", "download the model again"
        raise ModelError(f"{folder} cannot be trained", why, hint)
    if missing := _missing_parts(folder):
        named = missing[0] + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
        raise ModelError(
            f"{folder} cannot be trained", f"{named} is missing", "download the model again"
        )
    return folder


def _missing_parts(folder: Path) -> list[str]:
    """Files of weights that the model's index names and the folder lacks."""
    try:
        index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
        named = sorted({str(name) for name in index["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []  # mlx-lm goes by the files alone
    return [name for name in named if not (folder / name).exists()]


def _from_cache(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        # Without the patterns, a download of these files alone would count as half of one.
        found = snapshot_download(name, local_files_only=True, allow_patterns=list(NEEDED))
        return Path(found)
    except (LocalEntryNotFoundError, HFValidationError):
        raise ModelError(
            f"there is no model {name} on this machine",
            "it is neither a folder nor in the local Hugging Face cache",
            "download it in the app's page Models, "
            f"or with `python -m trainer_core download {name}`",
        ) from None
