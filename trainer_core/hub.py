"""Downloads a model from Hugging Face into its local cache; huggingface_hub does the work.

What has come whole stays there after a stop or a fault, and the next download goes on from it.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from trainer_core.errors import ModelError
from trainer_core.events import Event, Stage
from trainer_core.model_files import read_json

WEIGHTS = "model*.safetensors"
# What the engine reads of a model; a subset of what mlx-lm downloads, so that its models count.
NEEDED = ("*.json", WEIGHTS, "tokenizer.model", "*.tiktoken", "*.txt", "*.jinja")
_WANTED = (*NEEDED, "README.md", "LICENSE*")
_SECONDS_BETWEEN = 0.25
_LEFTOVER_AFTER = 3600.0


class DownloadStopped(Exception):
    """Someone wished the download to end; what has come whole is kept."""


def model_id(text: str) -> str:
    """The id in what a user typed or copied: `org/name`, or the address of the model's page.

    Raises:
        ModelError: there is none in it.
    """
    found = re.fullmatch(
        r"(?:(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/)?([\w.-]+/[\w.-]+?)"
        r"(?:/(?:tree|blob|resolve)/.*)?/?(?:\?.*)?",
        text.strip(),
        re.ASCII,
    )
    if found is None:
        raise ModelError(
            f"{text.strip() or 'nothing'} is not the id of a model",
            try_this="type an id such as mlx-community/SmolLM-135M-Instruct-4bit",
        )
    return found[1]


def download(
    name: str,
    emit: Callable[[Event], None],
    stopped: Callable[[], bool],
    revision: str = "main",
) -> Path:
    """Bring a model into the Hugging Face cache.

    Args:
        name: its id, `org/name`.
        emit: told how far it is.
        stopped: asked between the parts of a file.
        revision: a branch, a tag or a commit.

    Returns:
        the folder of its files.

    Raises:
        ModelError: there is no such model, it may not be had, it cannot be trained, or the disk
            is too small.
        DownloadStopped: `stopped` said so.
    """
    from huggingface_hub import constants, hf_hub_download, snapshot_download

    cache = Path(constants.HF_HUB_CACHE)
    emit(Stage("download", f"asking for {name}"))
    try:
        files = snapshot_download(
            name, revision=revision, allow_patterns=list(_WANTED), dry_run=True, tqdm_class=_Silent
        )
        if not any(fnmatch(file.filename, WEIGHTS) for file in files):
            raise ModelError(
                f"{name} cannot be trained",
                f"it has no {WEIGHTS} file",
                "use a version of the model with safetensors weights",
            )
        _check_config(name, Path(hf_hub_download(name, "config.json", revision=revision)))
        missing = sum(file.file_size or 0 for file in files if not file.is_cached)
        _check_space(name, missing, cache)
        _remove_leftovers(cache / f"models--{name.replace('/', '--')}" / "blobs")
        folder = snapshot_download(
            name,
            revision=revision,
            allow_patterns=list(_WANTED),
            tqdm_class=_bytes_bar(emit, stopped, missing),
        )
    except ModelError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise _in_words(name, revision, error) from error
    emit(Stage("download", f"{name} is here", 1.0))
    return Path(folder)


def _check_config(name: str, file: Path) -> None:
    config = read_json(file)
    why = "it brings its own program code" if config.get("model_file") else ""
    why = why or ("" if "model_type" in config else "its config.json names no model_type")
    if why:
        raise ModelError(f"{name} cannot be trained", why, "use a model that mlx-lm knows")


def _check_space(name: str, needed: int, cache: Path) -> None:
    place = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise ModelError(
            f"{name} does not fit on the disk",
            f"{_size(needed)} are to come, and {_size(free)} are free at {place}",
            "make room, or set HF_HUB_CACHE to a folder on a larger disk",
        )


def _remove_leftovers(blobs: Path) -> None:
    """Remove what killed downloads left: nothing will ever go on with it."""
    for path in blobs.glob("*.incomplete"):
        try:
            if time.time() - path.stat().st_mtime > _LEFTOVER_AFTER:
                path.unlink()
        except FileNotFoundError:
            continue


class _Silent(tqdm):
    """A progress bar that counts and shows nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "disable": True})

    def update(self, n: float | None = 1) -> None:
        """Count, which tqdm's own does not once it is disabled."""
        self.n += n or 0


def _bytes_bar(
    emit: Callable[[Event], None], stopped: Callable[[], bool], total: int
) -> type[_Silent]:
    """A bar that tells of bytes on the disk, and ends the download when it is to stop."""
    began = time.monotonic()
    told = began

    class BytesBar(_Silent):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._counts = str(kwargs.get("desc", "")).startswith("Reconstructing")

        def update(self, n: float | None = 1) -> None:
            nonlocal told
            super().update(n)
            if stopped():
                raise DownloadStopped
            now = time.monotonic()
            if self._counts and total and now - told > _SECONDS_BETWEEN:
                told = now
                done = min(self.n, total)
                rate = f"{_size(done / (now - began))}/s"
                text = f"{_size(done)} of {_size(total)}, {rate}"
                emit(Stage("download", text, done / total))

    return BytesBar


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.2f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


def _in_words(name: str, revision: str, error: Exception) -> ModelError:
    """What huggingface_hub means by an error, or by the one that it came from."""
    from huggingface_hub import errors

    cause = error
    while not isinstance(cause, errors.HfHubHTTPError) and cause.__cause__ is not None:
        cause = cause.__cause__
    what = f"{name} could not be downloaded"
    if isinstance(cause, errors.GatedRepoError):
        return ModelError(
            what,
            "its makers ask to accept their terms first",
            f"accept them at https://huggingface.co/{name}, then log in with `hf auth login`",
        )
    if isinstance(cause, errors.RevisionNotFoundError):
        return ModelError(what, f"it has no revision {revision}", "leave the revision out")
    if isinstance(cause, errors.RepositoryNotFoundError):
        return ModelError(
            what,
            "Hugging Face has no such model, or it is private",
            "look for typing errors; for a private one log in with `hf auth login`",
        )
    if isinstance(cause, errors.HfHubHTTPError):
        why = f"Hugging Face answered {cause.response.status_code}"
        return ModelError(what, why, "try again later; what has come is kept")
    if isinstance(cause, errors.HFValidationError):
        return ModelError(what, "it is not a valid id", "type an id such as org/name")
    if isinstance(cause, errors.OfflineModeIsEnabled):
        return ModelError(what, "HF_HUB_OFFLINE forbids it", "set HF_HUB_OFFLINE=0")
    if isinstance(cause, OSError) and cause.errno is not None and cause.filename is not None:
        return ModelError(what, f"{cause.filename}: {cause.strerror}", "check the disk")
    return ModelError(
        what,
        f"Hugging Face cannot be reached ({type(cause).__name__})",
        "check the connection and try again; what has come is kept",
    )
