"""Remember the token ids of large data sets, so that the next run on them starts at once.

The key holds everything that ids and masks depend on: the content of the data files, the files of
the tokenizer, the options of the data, and the code. Rows come back as views into a few long
arrays. What cannot be read or written is only logged: a cache may cost time, but never a run.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer_core.config import RunConfig
from trainer_core.data import types
from trainer_core.data.load import RawData, tokenise
from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.data.types import Dataset, Problem, Source, TokenisedExample
from trainer_core.option import option_of
from trainer_core.private_folder import private_folder, write_atomically

_LOG = logging.getLogger(__name__)

_FOLDER = "tokens"
_LEAST_ROWS = 5_000  # fewer are tokenised in a second or two
_MOST_BYTES = 2_000_000_000  # of all files; the least recently used ones make room
_TOKENIZER_FILES = (".json", ".jinja", ".txt", ".model")
_PACKAGES = ("burnish", "transformers", "tokenizers", "jinja2")

Arrays = dict[str, NDArray[Any]]


def tokenise_once(
    raw: RawData,
    config: RunConfig,
    folder: Path,
    tokenizer: ChatTokenizer,
    progress: Callable[[float], None] | None = None,
) -> Dataset:
    """`tokenise`, or what it gave before for the same files, options and tokenizer.

    Args:
        raw: what `read_rows` gave.
        config: the run's configuration.
        folder: the model's, which has the tokenizer's files.
        tokenizer: the model's tokenizer.
        progress: called now and then with the share that is done; may raise to give up.

    Raises:
        DataError: see `tokenise`.
        ModelError: see `tokenise`.
    """
    if len(raw.train) + len(raw.valid) < _LEAST_ROWS:
        return tokenise(raw, config, tokenizer, progress)
    file = _file(raw, config, folder, tokenizer)
    if file is not None and (found := _read(file)) is not None:
        return found
    dataset = tokenise(raw, config, tokenizer, progress)
    if file is not None:
        _write(file, dataset)
    return dataset


def _file(raw: RawData, config: RunConfig, folder: Path, tokenizer: ChatTokenizer) -> Path | None:
    """Where the ids of this run are or would be; None if they cannot be kept."""
    options = {
        name: getattr(config, name)
        for name, field in RunConfig.model_fields.items()
        if option_of(field).group == "Data" or name in ("method", "seed")
    }
    facts = [json.dumps(options, sort_keys=True, default=str), str(tokenizer.template_source)]
    facts += [f"{name} {_version(name)}" for name in _PACKAGES]
    try:
        digest = hashlib.sha256("\n".join(facts).encode())
        own = [path for path in sorted(folder.iterdir()) if path.suffix in _TOKENIZER_FILES]
        # In a checkout the version stays while the code changes.
        code = sorted(Path(__file__).parent.glob("*.py"))
        for path in [*raw.files, *own, *code]:
            digest.update(f"{path.name} {path.stat().st_size}\n".encode())
            with path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        return private_folder(_FOLDER) / f"{digest.hexdigest()[:32]}.safetensors"
    except OSError as error:
        _LOG.warning("the tokens are not remembered: %s", error)
        return None


def _read(file: Path) -> Dataset | None:
    """A data set that was kept."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(file), framework="np") as opened:
            facts = json.loads(opened.metadata()["dataset"])
            arrays: Arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        found = Dataset(
            train=_unpacked(arrays, "train", facts["files"]),
            valid=_unpacked(arrays, "valid", facts["files"]),
            rows=facts["rows"],
            rows_skipped=facts["rows_skipped"],
            rows_truncated=facts["rows_truncated"],
            valid_rows_skipped=facts["valid_rows_skipped"],
            problems=[Problem(*problem) for problem in facts["problems"]],
            warnings=[(code, what, hint) for code, what, hint in facts["warnings"]],
        )
        file.touch()  # it is the most recently used one
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, IndexError, SafetensorError) as error:
        _LOG.warning("%s is ignored, the rows are tokenised again: %r", file, error)
        return None
    return found


def _write(file: Path, dataset: Dataset) -> None:
    from safetensors.numpy import save

    files = list(dict.fromkeys(r.source.file for r in [*dataset.train, *dataset.valid]))
    facts = {
        "files": files,
        "rows": dataset.rows,
        "rows_skipped": dataset.rows_skipped,
        "rows_truncated": dataset.rows_truncated,
        "valid_rows_skipped": dataset.valid_rows_skipped,
        "problems": [[p.file, p.line, p.what, p.hint] for p in dataset.problems],
        "warnings": dataset.warnings,
    }
    arrays = {**_packed(dataset.train, "train", files), **_packed(dataset.valid, "valid", files)}
    try:
        write_atomically(file, save(arrays, {"dataset": json.dumps(facts)}))
        _make_room(file.parent)
    except OSError as error:
        _LOG.warning("the tokens are not remembered: %s", error)


def _make_room(folder: Path) -> None:
    """Delete the files that were used longest ago until the rest is small enough."""
    files = sorted(folder.glob("*.safetensors"), key=lambda path: -path.stat().st_mtime)
    total = 0
    for place, path in enumerate(files):
        total += path.stat().st_size
        if place and total > _MOST_BYTES:
            path.unlink(missing_ok=True)


def _packed(rows: Sequence[TokenisedExample], name: str, files: list[str]) -> Arrays:
    """Rows as a few long arrays; of each row its chosen sequence, then its rejected one."""
    places = {file: number for number, file in enumerate(files)}
    sequences = [s for row in rows for s in (row.chosen, row.rejected) if s is not None]
    facts = [
        (
            *(row.row, places[row.source.file], row.source.line, row.prompt_length),
            *(row.truncated, row.rejected is not None),
        )
        for row in rows
    ]
    empty = np.zeros(0, np.int32)
    return {
        f"{name}.ids": np.concatenate([empty, *(s.ids for s in sequences)]).astype(np.int32),
        f"{name}.trained": np.concatenate(
            [empty.astype(np.bool_), *(s.trained for s in sequences)]
        ),
        f"{name}.lengths": np.array([len(s) for s in sequences], np.int64),
        f"{name}.facts": np.array(facts, np.int64).reshape(-1, 6),
    }


def _unpacked(arrays: Arrays, name: str, files: list[str]) -> list[TokenisedExample]:
    ids, trained = arrays[f"{name}.ids"], arrays[f"{name}.trained"]
    ends = np.cumsum(arrays[f"{name}.lengths"]).tolist()
    if (ends[-1] if ends else 0) != len(ids) or len(ids) != len(trained):
        raise ValueError("its arrays do not go together")
    starts = [0, *ends[:-1]]
    sequences = iter(
        [types.Sequence(ids[a:b], trained[a:b]) for a, b in zip(starts, ends, strict=True)]
    )
    found = []
    for row, place, line, prompt, truncated, pair in arrays[f"{name}.facts"].tolist():
        chosen = next(sequences)
        rejected = next(sequences) if pair else None
        source = Source(files[place], line)
        found.append(TokenisedExample(row, source, chosen, rejected, prompt, bool(truncated)))
    return found


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
