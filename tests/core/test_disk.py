"""A run that would fill the disk is refused before it starts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.core.runs import fresh_config, run
from trainer_core.disk import check_room
from trainer_core.errors import TrainerError


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_less_than_a_run_may_save_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def usage(path: Path) -> Usage:
        asked.append(Path(path))
        return Usage(10**9, 0, 10_000_000)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    with pytest.raises(TrainerError, match="has 10 MB free, and the run may save") as caught:
        run(fresh_config(tmp_path / "not" / "there" / "runs"))
    assert "lower keep_checkpoints" in caught.value.try_this
    assert asked == [tmp_path]
    assert not list(tmp_path.iterdir())


def test_what_is_asked_for_covers_what_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed: list[int] = []
    monkeypatch.setattr("trainer_core.run.check_room", lambda _, count: needed.append(count))
    more = {"save_every": 1, "steps_per_eval": 1, "iters": 8}
    for kind in ({}, {"fine_tune_type": "full", "rank": 16, "learning_rate": 1e-5}):
        config = fresh_config(tmp_path / str(len(kind)), "sft", **{**more, **kind})
        ran = run(config)
        saved = sum(f.stat().st_size for f in ran.folder.path.rglob("*") if f.is_file())
        assert saved < needed[-1] < saved + 40_000_000


def test_a_disk_that_does_not_tell_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(_: Path) -> Usage:
        raise OSError("not supported")

    monkeypatch.setattr(shutil, "disk_usage", usage)
    check_room(tmp_path, 10**18)
