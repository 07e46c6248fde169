"""The probe takes two real steps on the longest rows, and the estimate is near what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.core.runs import GOLDEN, fresh_config, rows_of
from trainer_core.control import Control
from trainer_core.data.tokenizer import load_tokenizer
from trainer_core.events import Event
from trainer_core.memory import estimate, longest_of
from trainer_core.probe import probe


def probed(output: Path, control: Control | None = None, **more: Any) -> Any:
    config = fresh_config(output, **more)
    said: list[Event] = []
    tokenizer = load_tokenizer(GOLDEN / "llama", config)
    dataset = rows_of(config)
    return probe(config, GOLDEN / "llama", dataset, tokenizer, said.append, control), dataset


@pytest.mark.parametrize("method", ["sft", "dpo", "orpo"])
@pytest.mark.parametrize("segment", [0, 1])
def test_the_estimate_is_not_low_and_not_far_off(tmp_path: Path, method: str, segment: int) -> None:
    more: dict[str, Any] = {"method": method, "segment_size": segment, "batch_size": 2}
    found, dataset = probed(tmp_path, **more)
    rows = longest_of(dataset.train, found.config)
    needs = estimate(GOLDEN / "llama", found.config, rows).total(found.config.weights)
    # A model of 60,000 parameters: what is always there, 1 MB, is most of it.
    assert found.peak <= needs <= 1.25 * found.peak + 1_000_000
    assert found.seconds > 0


@pytest.mark.parametrize("segment", [0, 1])
def test_packed_rows_are_full(tmp_path: Path, segment: int) -> None:
    options: dict[str, Any] = {"packing": True, "max_seq_length": 400, "segment_size": segment}
    found, dataset = probed(tmp_path, method="sft", **options)
    rows = longest_of(dataset.train, found.config)
    assert rows[0].packed == 400
    needs = estimate(GOLDEN / "llama", found.config, rows).total(found.config.weights)
    assert found.peak <= needs <= 1.25 * found.peak + 1_000_000
    alone, _ = probed(tmp_path, method="sft", segment_size=segment)
    assert found.peak > alone.peak


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    probed(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_stop_ends_it(tmp_path: Path) -> None:
    control = Control()
    control.stop()
    found, _ = probed(tmp_path, control)
    assert found is None
