"""passport.json: what made a run and what came of it, enough to tell two runs apart years later.

It is written before the first step, so that a run that goes on can see whether model and rows are
still those that it began with, and again at the end.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from trainer_core.config import RunConfig
from trainer_core.data.types import Dataset
from trainer_core.errors import TrainerError
from trainer_core.events import Finished, Warned
from trainer_core.runfolder import RunFolder, write_atomically

_HEADER, _BLOCK, _BLOCKS = 1 << 20, 1 << 16, 256

_PACKAGES = ("burnish", "mlx", "mlx-lm", "numpy", "tokenizers", "transformers")


@dataclass(frozen=True, slots=True)
class Origin:
    """Hashes of what a run is made of.

    Attributes:
        model: of the model's folder, see `model_hash`.
        files: name and SHA-256 of each file that was read.
        rows: of the token ids and masks that came of them.
    """

    model: str
    files: tuple[tuple[str, str], ...]
    rows: str


def origin_of(model: Path, files: Sequence[Path], dataset: Dataset) -> Origin:
    """The origin of a run.

    Args:
        model: the model's folder.
        files: the files that were read.
        dataset: what came of them.
    """
    hashed = tuple((path.name, file_hash(path)) for path in files)
    return Origin(model_hash(model), hashed, rows_hash(dataset))


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
    run: RunFolder, config: RunConfig, origin: Origin, finished: Finished | None = None
) -> None:
    """Write passport.json.

    Args:
        run: the run's folder.
        config: resolved.
        origin: what it is made of.
        finished: the run's last event, once it is over.
    """
    record: dict[str, Any] = {
        "schema_version": 1,
        "versions": versions(),
        "platform": platform.platform(),
        "seed": config.seed,
        "model": {"name": config.model, "sha256": origin.model},
        "data": [{"file": name, "sha256": digest} for name, digest in origin.files],
        "rows": {"sha256": origin.rows},
    }
    if finished is not None:
        record["results"] = {
            "reason": finished.reason,
            "steps": finished.steps,
            "best_step": finished.best_step,
            "seconds": round(finished.seconds, 3),
        }
    write_atomically(run.passport, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def check_unchanged(run: RunFolder, origin: Origin) -> list[Warned]:
    """Compare what a run is made of now with what it was made of when it began.

    Returns:
        What may change numbers in their last digits.

    Raises:
        TrainerError: model or rows are others, or the passport cannot be read.
    """
    try:
        record = json.loads(run.passport.read_text(encoding="utf-8"))
        model, rows = record["model"]["sha256"], record["rows"]["sha256"]
        files = [(file["file"], file["sha256"]) for file in record["data"]]
    except FileNotFoundError:
        if not run.checkpoint_steps():
            return []  # it ended before it began to train
        raise _no_passport(run, "it is missing") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_passport(run, str(error)) from None
    if [digest for _, digest in files] != [digest for _, digest in origin.files]:
        raise _changed(_which(files, origin.files), "the rows")
    if model != origin.model:
        raise _changed("the model's folder", "the model")
    if rows != origin.rows:
        raise _changed("how the rows are tokenised", "the tokenizer or the chat template")
    was, now = record.get("versions") or {}, versions()
    differ = [f"{name} {was[name]} before, {now.get(name)} now" for name in was
              if was[name] != now.get(name)]  # fmt: skip
    if not differ:
        return []
    hint = "install those versions if the run is to be exactly what it would have been"
    return [Warned("versions", f"the run goes on with other versions: {'; '.join(differ)}", hint)]


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


def rows_hash(dataset: Dataset) -> str:
    """SHA-256 of all token ids and masks, in their order."""
    digest = hashlib.sha256()
    for kind, rows in (("train", dataset.train), ("valid", dataset.valid)):
        digest.update(kind.encode())
        for row in rows:
            for sequence in (row.chosen, row.rejected):
                if sequence is not None:
                    digest.update(len(sequence).to_bytes(8, "little"))
                    digest.update(sequence.ids.tobytes())
                    digest.update(sequence.trained.tobytes())
    return digest.hexdigest()


def _which(before: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> str:
    """The files that differ, by name."""
    if len(before) != len(now):
        return "the number of data files"
    return " and ".join(n[0] for b, n in zip(before, now, strict=True) if b[1] != n[1])


def _changed(what: str, whose: str) -> TrainerError:
    return TrainerError(
        f"{what} changed since the run began",
        "a run goes on with what it began with",
        f"put back {whose}, or start a new run with warm_start",
    )


def _no_passport(run: RunFolder, why: str) -> TrainerError:
    return TrainerError(
        f"{run.passport} cannot be read, so nothing tells whether model and rows are the same",
        why,
        "start a new run with warm_start on its last adapter",
    )
