"""Advice lowers the estimate, the harmless first, and stops where the run fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainer_core.config import RunConfig
from trainer_core.memory import Lengths, estimate
from trainer_core.memory.advice import advise

LOSES = {"rank", "max_seq_length"}
ROWS = [Lengths(3000, 1500)]


def config(**values: Any) -> RunConfig:
    given = {"method": "orpo", "max_seq_length": 4096, "segment_size": 0, "head": "full"}
    return RunConfig(**{"model": "m", "data": "d", **given, **values})


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_every_change_lowers_what_the_one_before_needs(golden: Path, kind: str) -> None:
    folder, asked = golden / "llama", config(batch_size=2, prefix_sharing="off")
    before = estimate(folder, asked, ROWS, kind).total("keep")
    advice = advise(folder, asked, "keep", ROWS, kind)
    totals = [before, *(each.total for each in advice)]
    assert totals == sorted(set(totals), reverse=True)
    harmful = [bool(set(each.change) & LOSES) for each in advice]
    assert harmful == sorted(harmful)  # what loses something comes last
    assert any(harmful)
    assert any("segment_size" in each.change for each in advice)
    assert {"prefix_sharing": "on"} in [each.change for each in advice]


def test_a_change_needs_what_the_estimate_says_of_it(golden: Path) -> None:
    folder, asked = golden / "llama", config()
    found, changed = advise(folder, asked, "keep", ROWS, "cpu"), asked
    for each in found:
        if "max_seq_length" in each.change:
            break
        changed = changed.model_copy(update=each.change)
        assert each.total == estimate(folder, changed, ROWS, "cpu").total("keep")


def test_it_ends_where_the_run_fits(golden: Path) -> None:
    folder, asked = golden / "llama", config()
    every = advise(folder, asked, "keep", ROWS, "cpu")
    some = advise(folder, asked, "keep", ROWS, "cpu", room=every[1].total)
    assert some == every[:2]
    before = estimate(folder, asked, ROWS, "cpu").total("keep")
    assert advise(folder, asked, "keep", ROWS, "cpu", room=before) == []


def test_a_measured_peak_corrects_what_is_not_weights(golden: Path) -> None:
    folder, asked = golden / "llama", config()
    needs = estimate(folder, asked, ROWS, "cpu")
    weights = needs.weights("keep")
    measured = weights + (needs.total("keep") - weights) // 2
    plain = advise(folder, asked, "keep", ROWS, "cpu")
    corrected = advise(folder, asked, "keep", ROWS, "cpu", measured=measured)
    assert [each.change for each in corrected] == [each.change for each in plain]
    for half, whole in zip(corrected, plain, strict=True):
        assert half.total - weights == pytest.approx((whole.total - weights) / 2, abs=1)


def test_full_fine_tuning_is_only_told_what_it_can_do(golden: Path) -> None:
    config = RunConfig(
        model="m", data="d", fine_tune_type="full", segment_size=0, head="full", batch_size=2
    )
    found = advise(golden / "llama", config, "float32", [Lengths(40)], "cpu")
    changes = {name for advice in found for name in advice.change}
    assert "fine_tune_type" in changes
    assert not changes & {"segment_size", "chunk_size", "rank", "prefix_sharing"}
