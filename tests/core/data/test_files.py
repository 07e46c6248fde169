"""Which files of a folder or an archive are training rows and which are validation rows."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from trainer_core.data.files import DataFile, find_files
from trainer_core.errors import DataError


def names(files: tuple[DataFile, ...]) -> list[str]:
    return [file.last_name for file in files]


def put(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("held", "train", "valid"),
    [
        (["train.jsonl"], ["train.jsonl"], []),
        (["train.jsonl", "valid.json", "test.jsonl"], ["train.jsonl"], ["valid.json"]),
        (["train.csv", "validation.tsv"], ["train.csv"], ["validation.tsv"]),
        (["train.jsonl.gz", "val.parquet"], ["train.jsonl.gz"], ["val.parquet"]),
        (["train.json", "train.jsonl", "train.csv"], ["train.jsonl"], []),
        (
            ["train-00001-of-00002.parquet", "train-00000-of-00002.parquet", "dataset_info.json"],
            ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"],
            [],
        ),
        (["b.csv", "a.jsonl", "README.md", ".hidden.jsonl"], ["a.jsonl", "b.csv"], []),
        (["rows.csv", "valid.csv", "test.csv"], ["rows.csv"], ["valid.csv"]),
        (["Train.CSV"], ["Train.CSV"], []),
        (["trainer.jsonl", "x.jsonl"], ["trainer.jsonl", "x.jsonl"], []),
    ],
)
def test_a_folder(tmp_path: Path, held: list[str], train: list[str], valid: list[str]) -> None:
    found = find_files(put(tmp_path, *held))
    assert (names(found.train), names(found.valid)) == (train, valid)


def test_a_zip_archive_is_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "rows.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("set/train.csv", "set/valid.csv", "__MACOSX/set/._train.csv", "set/notes.txt"):
            archive.writestr(name, "a,b\n")
    found = find_files(path)
    assert [file.name for file in found.train] == [f"{path}/set/train.csv"]
    assert [file.name for file in found.valid] == [f"{path}/set/valid.csv"]
    assert found.paths == (path,)
    inside_a_folder = find_files(tmp_path)
    assert names(inside_a_folder.train) == ["train.csv"]


@pytest.mark.parametrize("name", ["missing.jsonl", "a\0b"])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError):
        find_files(tmp_path / name)


@pytest.mark.parametrize("held", [[], ["data.txt"], ["valid.jsonl"]])
def test_a_folder_without_rows(tmp_path: Path, held: list[str]) -> None:
    with pytest.raises(DataError, match=r"no train\.jsonl") as raised:
        find_files(put(tmp_path, *held))
    assert (held or ["nothing"])[0] in str(raised.value)
    assert ".csv" in raised.value.try_this


def test_archives_that_hold_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "book.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    with pytest.raises(DataError, match=r"spreadsheet.*CSV"):
        find_files(path)
    path.write_bytes(b"PK\x03\x04 and nothing more")
    with pytest.raises(DataError, match="damaged zip"):
        find_files(path)
