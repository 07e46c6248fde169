"""Pairs that have no prompt to share are counted and reported once an epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.runs import fresh_config, run, small_config
from trainer_core.events import Step, Warned
from trainer_core.objectives.rows import ScoredRow
from trainer_core.streams import pair


@pytest.fixture
def some_unshared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows 0 and 1 run as two sequences, as pairs whose prompts differ would."""

    def shares(row: ScoredRow) -> bool:
        return row.example.row > 1 and pair.shares_prompt(row)

    monkeypatch.setattr("trainer_core.policy.shares_prompt", shares)
    monkeypatch.setattr("trainer_core.sharing.shares_prompt", shares)


def said(events: list[object]) -> list[tuple[int, str]]:
    """(last step before it, its text) of every report."""
    found, step = [], 0
    for event in events:
        if isinstance(event, Step):
            step = event.step
        if isinstance(event, Warned) and event.code == "prefix_unshared":
            found.append((step, event.message))
    return found


def test_it_is_said_once_at_the_end_of_each_epoch(tmp_path: Path, some_unshared: None) -> None:
    ran = run(fresh_config(tmp_path, epochs=2, valid_fraction=0, prefix_sharing="on"))
    steps = [event.step for event in ran.events if isinstance(event, Step)]
    pairs = len(steps) // 2
    assert said([*ran.events]) == [
        (
            epoch * pairs,
            f"2 of the {pairs} pairs of epoch {epoch} had no prompt to share and ran as two "
            "sequences",
        )
        for epoch in (1, 2)
    ]


def test_an_epoch_cut_short_is_reported_too(tmp_path: Path, some_unshared: None) -> None:
    config = fresh_config(tmp_path, valid_fraction=0, shuffle=False, prefix_sharing="on", iters=3)
    ran = run(config)
    assert [(step, text.split(" had")[0]) for step, text in said([*ran.events])] == [
        (3, "2 of the 3 pairs of epoch 1")
    ]


@pytest.mark.parametrize("more", [{"prefix_sharing": "off"}, {"method": "sft"}])
def test_nothing_is_said_where_nothing_is_shared(
    tmp_path: Path, some_unshared: None, more: dict[str, str]
) -> None:
    assert said([*run(small_config(tmp_path, **more)).events]) == []
