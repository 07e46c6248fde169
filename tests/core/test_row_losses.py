"""Losses of single validation rows: TRL's own numbers, and a file that survives what files meet."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from tests.core.engine import golden_config, golden_steps
from tests.core.runs import GOLDEN, run, small_config
from trainer_core.data.types import Source
from trainer_core.errors import TrainerError
from trainer_core.events import Validation
from trainer_core.row_losses import RowLoss, RowLossLog, read_row_losses

LOSS = {"sft": 1e-5, "dpo": 1e-4, "orpo": 1e-5}
TWO = [Source("a.jsonl", 1), Source("b.jsonl", 7)]


@pytest.mark.parametrize("method", ["sft", "dpo", "orpo"])
def test_the_loss_of_a_row_is_that_of_trls_step_with_this_row_alone(
    tmp_path: Path, method: str
) -> None:
    # TRL took the rows one by one, so the row that step k + 1 trains has that step's loss when it
    # is judged after step k.
    data = str(GOLDEN / "llama" / "preference.jsonl")
    more = {"valid_data": data, "val_rows": 0, "steps_per_eval": 1, "max_seq_length": 512}
    ran = run(golden_config(GOLDEN / "llama", method, tmp_path, **more))
    rows = read_row_losses(ran.folder.row_losses)
    assert [row.source for row in rows] == [Source(data, n) for n in range(1, 13)]
    for place, (row, gold) in enumerate(
        zip(rows, golden_steps(GOLDEN / "llama", method), strict=True)
    ):
        assert list(row.losses) == list(range(13))
        assert row.losses[place] == pytest.approx(gold["loss"], rel=LOSS[method])
        if method == "orpo":
            wanted = gold["log_odds_chosen"]
            assert row.margins[place] == pytest.approx(wanted, rel=1e-4, abs=1e-5)
        elif method == "dpo" and place:
            wanted = gold["rewards/margins"]
            assert row.margins[place] == pytest.approx(wanted, rel=1e-3, abs=1e-5)
    assert bool(rows[0].margins) == (method != "sft")


def test_rows_of_a_pair_method_average_to_the_validation(tmp_path: Path) -> None:
    ran = run(small_config(tmp_path, "dpo", val_rows=3))
    rows = read_row_losses(ran.folder.row_losses)
    assert len(rows) == 3
    for validation in ran.of(Validation):
        losses = [row.losses[validation.step] for row in rows]
        assert sum(losses) / 3 == pytest.approx(validation.loss, rel=1e-5)


def test_a_run_without_validation_has_no_file(tmp_path: Path) -> None:
    ran = run(small_config(tmp_path, valid_fraction=0))
    assert not ran.folder.row_losses.exists()
    assert read_row_losses(ran.folder.row_losses) == []


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "row_losses.jsonl"
    log = RowLossLog(path, TWO)
    log.append(0, [RowLoss(2.0, -1.0), RowLoss(math.nan, math.inf)])
    log.append(5, [RowLoss(1.5, 0.5), RowLoss(3.0, 0.25)])
    first, second = read_row_losses(path)
    assert (first.source, second.source) == tuple(TWO)
    assert first.losses == {0: 2.0, 5: 1.5}
    assert (first.first, first.last, first.last_margin) == (2.0, 1.5, 0.5)
    assert math.isnan(second.first)
    assert second.last == 3.0


def test_a_resumed_run_takes_back_what_came_after(tmp_path: Path) -> None:
    path = tmp_path / "row_losses.jsonl"
    before = RowLossLog(path, TWO)
    for step in (0, 5, 10):
        before.append(step, [RowLoss(step + 1.0), RowLoss(step + 2.0)])
    with path.open("a", encoding="utf-8") as file:
        file.write('{"step": 15, "losses": [0.')  # killed in the middle of a line
    RowLossLog(path, TWO).append(5, [RowLoss(0.5), RowLoss(0.25)])
    first, second = read_row_losses(path)
    assert first.losses == {0: 1.0, 5: 0.5}
    assert second.losses == {0: 2.0, 5: 0.25}


def test_other_rows_begin_anew(tmp_path: Path) -> None:
    path = tmp_path / "row_losses.jsonl"
    RowLossLog(path, TWO).append(0, [RowLoss(1.0), RowLoss(2.0)])
    RowLossLog(path, TWO[1:]).append(5, [RowLoss(3.0)])
    (only,) = read_row_losses(path)
    assert only.source == TWO[1]
    assert only.losses == {5: 3.0}


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "row_losses.jsonl"
    path.write_text("")
    path.chmod(0)
    with pytest.raises(TrainerError, match="cannot read"):
        read_row_losses(path)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "row_losses.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TrainerError, match="cannot read"):
        read_row_losses(path)
