"""Which files `data` means: one file, or what lies in a folder or a zip archive."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trainer_core.errors import DataError

ROWS = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet")
PACKED = ("", ".gz", ".zip")
SUFFIXES = (*(kind + packed for kind in ROWS for packed in PACKED), ".zip")

_TRAIN = ("train", "training")
_VALID = ("valid", "validation", "val")
_TEST = ("test",)
_NOT_ROWS = ("dataset_info.json", "dataset_dict.json", "dataset_infos.json", "state.json")
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows. `member` is its name inside the zip archive at `path`, else empty."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        """What problems call it."""
        return f"{self.path}/{self.member}" if self.member else str(self.path)

    @property
    def last_name(self) -> str:
        """Its own name without folders."""
        return (self.member or self.path.name).rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The files that `data` names. `valid` is empty if it brings no validation rows."""

    train: tuple[DataFile, ...]
    valid: tuple[DataFile, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files on disk, each once."""
        return tuple(dict.fromkeys(file.path for file in (*self.train, *self.valid)))


def find_files(data: Path) -> DataFiles:
    """The training files and the validation files behind a path.

    In a folder or a zip archive these are train.* and valid.* of any kind that can be read, or in
    several parts train-*; without a file of that name every other one is read, in name order.

    Args:
        data: a file, a zip archive, or a folder.

    Raises:
        DataError: there is nothing there, or the folder has no file of rows.
    """
    try:
        if data.is_dir():
            names = [path.name for path in data.iterdir() if path.is_file()]
            return _expanded(data, *_choose(data, names))
        if not data.exists():
            raise DataError(f"no file or folder at {data}", "", "check the path of `data`")
        return _inside(data) if is_zip(data) else DataFiles((DataFile(data),))
    except (OSError, ValueError) as error:
        why = str(getattr(error, "strerror", None) or error)
        raise DataError(f"{data} cannot be opened", why, "check the path of `data`") from None


def is_zip(path: Path) -> bool:
    """Whether a file starts as a zip archive does."""
    with path.open("rb") as file:
        return file.read(4) == _ZIP


def _expanded(folder: Path, train: list[str], valid: list[str]) -> DataFiles:
    """The chosen files of a folder; an archive among them stands for the files in it."""
    found: list[tuple[DataFile, ...]] = []
    for names in (train, valid):
        files: list[DataFile] = []
        for name in names:
            path = folder / name
            files += _inside(path).train if is_zip(path) else [DataFile(path)]
        found.append(tuple(files))
    return DataFiles(*found)


def _inside(path: Path) -> DataFiles:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
    except zipfile.BadZipFile as error:
        raise DataError(f"{path} is a damaged zip archive", str(error), "copy it again") from None
    if "[Content_Types].xml" in names:
        raise DataError(f"{path} is a spreadsheet or a document", "", "save the sheet as CSV")
    names = [name for name in names if not name.startswith("__MACOSX/")]
    train, valid = _choose(path, names)
    return DataFiles(
        tuple(DataFile(path, name) for name in train), tuple(DataFile(path, name) for name in valid)
    )


def _choose(place: Path, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Names of the training and of the validation files among all names of a folder."""
    names = sorted(names)
    rows = [name for name in names if _is_rows(name)]
    valid = _named(rows, _VALID)
    train = _named(rows, _TRAIN)
    if not train:
        apart = {*valid, *_named(rows, _TEST)}
        train = [name for name in rows if name not in apart]
    if not train:
        held = ", ".join(names[:5]) or "nothing"
        raise DataError(
            f"{place} has no train.jsonl and no other file of rows",
            f"it holds {held}",
            f"rows may be in {', '.join(ROWS)}, also with .gz or .zip",
        )
    return train, valid


def _named(names: list[str], roles: tuple[str, ...]) -> list[str]:
    """The file that has one of these names, or the parts into which it was cut."""
    for role in roles:
        whole = [name for name in names if _stem(name) == role]
        if whole:
            # The same rows in two forms count once.
            return [min(whole, key=lambda name: SUFFIXES.index(_suffix(name)))]
        parts = [name for name in names if re.match(rf"{role}[-_.]\d", _stem(name))]
        if parts:
            return parts
    return []


def _is_rows(name: str) -> bool:
    last = name.rsplit("/", 1)[-1]
    return bool(_suffix(name)) and not last.startswith(".") and last not in _NOT_ROWS


def _suffix(name: str) -> str:
    return max((s for s in SUFFIXES if name.lower().endswith(s)), key=len, default="")


def _stem(name: str) -> str:
    last = name.rsplit("/", 1)[-1].lower()
    return last[: len(last) - len(_suffix(name))]
