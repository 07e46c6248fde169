"""The options that name a file or a folder: what may be chosen, and whether it is there.

Only looks at names and the presence of files; the engine checks what is inside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.viewmodels.hub_models import is_cached
from trainer_core.data.chat import built_in_templates
from trainer_core.data.files import find_files
from trainer_core.errors import DataError

SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class PathField:
    """What a path option takes.

    Attributes:
        file: a file may be chosen.
        folder: a folder may be chosen.
        sample: `sample` stands for what comes with the app.
        missing: what to say when nothing is given but something is needed.
        patterns: file dialog filter.
    """

    file: bool = False
    folder: bool = False
    sample: bool = False
    missing: str = ""
    patterns: str = ""


_ROWS = "Rows (*.jsonl *.json *.ndjson *.csv *.tsv *.parquet *.gz *.zip);;All files (*)"

PATH_FIELDS: dict[str, PathField] = {
    "model": PathField(
        folder=True,
        sample=True,
        missing="choose a model folder, give a Hugging Face id, or use the sample",
    ),
    "data": PathField(
        file=True,
        folder=True,
        sample=True,
        missing="choose a file of rows, or use the sample",
        patterns=_ROWS,
    ),
    "valid_data": PathField(file=True, patterns=_ROWS),
    "row_changes": PathField(file=True, patterns="Row changes (*.jsonl);;All files (*)"),
    "chat_template": PathField(
        file=True, patterns="Templates (*.jinja *.jinja2 *.j2 *.json *.txt);;All files (*)"
    ),
    "warm_start": PathField(folder=True),
    "output": PathField(folder=True),
}


def path_problem(key: str, value: object) -> str | None:
    """What is wrong with the path that option `key` names, or None."""
    if (
        not isinstance(value, str)
        or not value.strip()
        or (value == SAMPLE and PATH_FIELDS[key].sample)
    ):
        return None
    if "\0" in value:
        return "is not a path"
    try:
        path = Path(value).expanduser()
        return _model(value, path) if key == "model" else _CHECKS[key](path)
    except (OSError, RuntimeError) as error:  # a name too long, a home that is unknown
        return f"cannot be looked at: {getattr(error, 'strerror', None) or error}"


def _model(value: str, path: Path) -> str | None:
    if path.is_dir():
        if (path / "config.json").is_file():
            return None
        if (path / "adapter_config.json").is_file():
            return "is an adapter; choose the base model here and the adapter as warm start"
        return "is not a model folder: it has no config.json"
    if path.is_file():
        return "is a file; choose the folder with config.json and the safetensors files"
    if value.count("/") == 1 and not value.startswith((".", "/", "~")):
        return (
            None
            if is_cached(value)
            else "there is no such folder, nor such a model in the local cache"
        )
    return "there is no such folder"


def _data(path: Path) -> str | None:
    try:
        find_files(path)
    except DataError as error:
        if path.is_dir():
            return "the folder has no train.jsonl and no other file of rows"
        return error.what if path.exists() else "there is no such file or folder"
    return None


def _file(path: Path) -> str | None:
    if path.is_dir():
        return "is a folder; choose a file"
    return None if path.is_file() else "there is no such file"


def _chat_template(path: Path) -> str | None:
    if str(path) in built_in_templates() or path.is_file():
        return None
    return f"there is no such file; built in are {', '.join(built_in_templates())}"


def _warm_start(path: Path) -> str | None:
    if not path.is_dir():
        return "there is no such folder"
    has_config = (path / "adapter_config.json").is_file()
    return None if has_config else "is not an adapter folder: it has no adapter_config.json"


def _output(path: Path) -> str | None:
    nearest = next(_existing(path))
    return None if nearest.is_dir() else f"{nearest} is a file, so no folder can be made there"


def _existing(path: Path) -> Iterator[Path]:
    return (folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


_CHECKS = {
    "data": _data,
    "row_changes": _file,
    "valid_data": _file,
    "chat_template": _chat_template,
    "warm_start": _warm_start,
    "output": _output,
}
