"""The bench commands run from end to end on a tiny model, and what they report holds together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench import compare, growth, leak, ours
from tests.bench.shapes import config_of, write_model
from tests.bench.task import Task, load_rows, random_pair, random_sequence, save_rows


def test_rows_and_tasks_survive_the_way_to_the_child(tmp_path: Path) -> None:
    rows = [random_pair(7, 3, 50), random_sequence(9, 50)]
    save_rows(tmp_path / "rows.npz", rows)
    pair, sequence = load_rows(tmp_path / "rows.npz")
    assert pair.rejected is not None
    assert sequence.rejected is None
    assert pair.prompt == 7
    assert np.array_equal(pair.chosen[:7], pair.rejected[:7])
    assert np.array_equal(sequence.chosen, rows[1].chosen)
    assert (pair.tokens, sequence.tokens) == (20, 10)
    task = Task("burnish", "sft", "model", "rows", {"segment_size": 1}, steps=5)
    task.save(tmp_path / "task.json")
    assert Task.load(tmp_path / "task.json") == task


def test_the_engine_takes_given_ids(tmp_path: Path) -> None:
    write_model(tmp_path / "model", config_of("tiny", 1, 64), half=False)
    save_rows(tmp_path / "rows.npz", [random_pair(12, 6, 64)])
    task = Task("burnish", "orpo", str(tmp_path / "model"), str(tmp_path / "rows.npz"), steps=2)
    found = ours.run(task, tmp_path / "runs")
    assert len(found.seconds) == 2
    assert len(found.actives) == 3  # with the warm-up
    assert found.above > 0
    assert found.loss > np.log(64)  # the nll of random weights, and the odds


def test_a_power_law_has_its_slope() -> None:
    points = [{"x": float(x), "seconds": 3.0 * x**2, "above": 5.0 * x} for x in (1, 2, 4, 8)]
    assert growth.slope(points, "seconds") == pytest.approx(2)
    assert growth.slope(points, "above") == pytest.approx(1)


@pytest.mark.long
def test_trainers_agree_on_loss_and_gradients(tmp_path: Path) -> None:
    shortly = ["--quick", "--rounds", "2", "--steps", "1", "--out", str(tmp_path)]
    compare.main([*shortly, "--methods", "sft", "orpo-full"])
    found: list[list[dict[str, Any]]] = json.loads((tmp_path / "compare.json").read_text())
    assert [group[0]["method"] for group in found] == ["sft", "orpo-full"]
    names = {one["contender"]["name"] for one in found[0]}
    assert {"Burnish", "mlx-lm", "mlx-lm, grad_checkpoint"} <= names
    for group in found:
        losses = [one["rounds"][0]["loss"] for one in group]
        assert losses == pytest.approx([losses[0]] * len(losses), rel=1e-5)
        assert all(one["off"] < 2e-5 for one in group[1:])
        assert all(len(one["rounds"]) == 2 and one["above"] > 0 for one in group)
    assert (tmp_path / "compare-sft.png").stat().st_size > 1000
    assert "| sft | 48 | mlx-lm |" in (tmp_path / "compare.md").read_text()


@pytest.mark.long
def test_growth_draws_every_series(tmp_path: Path) -> None:
    growth.main(["--quick", "--of", "length", "--steps", "1", "--out", str(tmp_path)])
    series = json.loads((tmp_path / "growth.json").read_text())["length"]
    assert all([point["x"] for point in points] == [32, 64] for points in series.values())
    assert (tmp_path / "growth-length.png").stat().st_size > 1000


@pytest.mark.long
def test_leak_reports_flat_memory(tmp_path: Path) -> None:
    assert leak.main(["--quick", "--steps", "40", "--out", str(tmp_path)]) == 0
    assert "Active memory is flat" in (tmp_path / "leak.md").read_text()
