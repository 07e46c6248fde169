"""A few real kills in every run of the tests; `python -m tests.soak.kill -n 30` does many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.kill import soak


@pytest.mark.parametrize(
    ("method", "count"), [("orpo", 3), pytest.param("dpo", 21, marks=pytest.mark.long)]
)
def test_killed_runs_go_on_bit_for_bit(tmp_path: Path, method: str, count: int) -> None:
    assert soak(tmp_path, seed=7, count=count, method=method) == 0
