"""Rows left out or replaced, and that a change never hits another row than its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer_core.config import RunConfig
from trainer_core.data.load import read_rows
from trainer_core.data.readers import read_rows_of
from trainer_core.data.row_changes import RowChange, change_of, read_row_changes, write_lines
from trainer_core.data.scan import scan_rows
from trainer_core.data.types import Row
from trainer_core.errors import DataError

Configure = Callable[..., RunConfig]
ROWS = [{"prompt": f"question {n}", "completion": f"answer {n}"} for n in range(4)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return file


def changed(data: Path, *changes: RowChange) -> str:
    file = data.with_name("changes.jsonl")
    file.write_text(write_lines(changes))
    return str(file)


def rows_of(data: Path) -> list[Row]:
    return [row for row in read_rows_of(data) if isinstance(row, Row)]


def test_a_row_is_left_out_and_another_replaced(data: Path, configure: Configure) -> None:
    before = data.read_bytes()
    rows = rows_of(data)
    better = {"prompt": "question 2", "completion": "a better answer"}
    file = changed(data, change_of(rows[2], better), change_of(rows[0], None))
    raw = read_rows(configure(data, valid_fraction=0, row_changes=file))
    assert [e.chosen for e in raw.train] == ["answer 1", "a better answer", "answer 3"]
    assert [e.source.line for e in raw.train] == [2, 3, 4]
    assert raw.train_skipped == 0
    assert raw.note is not None
    assert raw.note[1] == "1 rows are left out and 1 replaced by row_changes"
    assert raw.files == (data, Path(file))
    assert data.read_bytes() == before


def test_a_change_of_a_row_that_is_another_now_is_refused(data: Path, configure: Configure) -> None:
    file = changed(data, change_of(rows_of(data)[1], None))
    data.write_text(data.read_text().replace("answer 1", "answer one"))
    with pytest.raises(DataError, match=r"rows.jsonl:2 is not the row that row_changes changes"):
        read_rows(configure(data, row_changes=file))
    found = list(scan_rows(configure(data, row_changes=file)))
    assert [row.problem is not None for row in found] == [False, True, False, False]


def test_a_change_without_its_row_is_told(data: Path, configure: Configure) -> None:
    file = changed(data, RowChange("rows.jsonl", 9, "0" * 16))
    note = read_rows(configure(data, row_changes=file)).note
    assert note is not None
    assert note[1].endswith("1 of its changes are for rows that are not there")


def test_the_scan_has_every_row_with_what_became_of_it(data: Path, configure: Configure) -> None:
    data.write_text(data.read_text() + '{"prompt": "no answer"}\nnot json\n')
    rows = rows_of(data)
    better = {"prompt": "question 3", "completion": "better"}
    file = changed(data, change_of(rows[0], None), change_of(rows[3], better))
    found = list(scan_rows(configure(data, row_changes=file)))
    assert [row.left_out for row in found] == [True, False, False, False, False, False]
    assert [row.replaced for row in found] == [False, False, False, True, False, False]
    assert [row.problem is not None for row in found] == [False] * 4 + [True] * 2
    assert found[0].example is not None
    assert found[3].example is not None
    assert found[3].example.chosen == "better"
    assert found[5].row is None


def test_a_file_of_changes_reads_back_as_written(data: Path) -> None:
    changes = [
        change_of(rows_of(data)[2], {"text": "ü\u2028\n"}),
        change_of(rows_of(data)[0], None),
    ]
    read = read_row_changes(changed(data, *changes)).changes
    assert list(read.values()) == [changes[1], changes[0]]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"file": "a", "line": 1, "digest": "d"}',
        '{"file": "a", "line": true, "digest": "d", "leave_out": true}',
        '{"file": "a", "line": 1, "digest": "d", "leave_out": true, "values": {}}',
        '{"file": "a", "line": 1, "digest": "d", "leave_out": false}',
        '{"file": "a", "line": 1, "digest": "d", "values": "b"}',
        '{"file": "a", "line": 1, "digest": "d", "leave_out": true, "also": 1}',
    ],
)
def test_a_line_that_is_no_change_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "changes.jsonl"
    file.write_text("\n" + line + "\n")
    with pytest.raises(DataError, match=r"changes\.jsonl, line 2: not "):
        read_row_changes(str(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_row_changes(str(tmp_path / "none.jsonl"))
