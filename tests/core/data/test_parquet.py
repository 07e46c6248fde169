"""Parquet files, as they come from the Hugging Face hub."""

from __future__ import annotations

import builtins
import gzip
from pathlib import Path
from typing import Any

import pytest

from trainer_core.data.readers import read_rows_of
from trainer_core.data.types import Row
from trainer_core.errors import DataError

TURNS = [{"role": "user", "content": "é"}, {"role": "assistant", "content": "b", "name": None}]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    arrow = pytest.importorskip("pyarrow", reason="the extra burnish[parquet] is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"messages": TURNS, "n": i, "none": None} for i in range(700)]
    path = tmp_path / "rows.parquet"
    parquet.write_table(arrow.Table.from_pylist(rows), path, row_group_size=300)
    return path


def test_rows_in_order_with_their_numbers(written: Path) -> None:
    items = list(read_rows_of(written))
    assert all(isinstance(item, Row) for item in items)
    found = [(item.source.line, item.values["n"]) for item in items if isinstance(item, Row)]
    assert found == [(i + 1, i) for i in range(700)]
    first: Any = items[0]
    assert first.values["none"] is None
    assert [turn["content"] for turn in first.values["messages"]] == ["é", "b"]


def test_parquet_in_gzip(written: Path) -> None:
    packed = written.with_suffix(".parquet.gz")
    packed.write_bytes(gzip.compress(written.read_bytes()))
    assert len(list(read_rows_of(packed))) == 700


def test_a_damaged_file(written: Path) -> None:
    written.write_bytes(written.read_bytes()[:-40])
    with pytest.raises(DataError, match="damaged Parquet file"):
        list(read_rows_of(written))


def test_without_pyarrow_one_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 whatever")
    with pytest.raises(DataError) as raised:
        list(read_rows_of(path))
    said = str(raised.value)
    assert said.count("\n") == 0
    assert "pip install burnish[parquet]" in said
