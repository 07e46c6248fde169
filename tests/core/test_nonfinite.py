"""The loop where a loss is not finite: one step is skipped, two in a row end the run."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from tests.core.runs import GOLDEN, fresh_config, run, small_config
from trainer_core.backward.autograd import whole_graph
from trainer_core.errors import TrainerError
from trainer_core.events import Event, Failed, Finished, Step, Warned
from trainer_core.model.open_policy import open_with_adapter
from trainer_core.run import train
from trainer_core.runfolder import RunFolder


def nan_at(*steps: int) -> Callable[..., object]:
    """A backward pass whose loss and gradients are NaN at some steps."""

    def backward(*args: object) -> object:
        loss, metrics, gradients = whole_graph(*args)  # type: ignore[arg-type]
        if args[-1] in steps:
            loss, gradients = loss * math.nan, {n: g * math.nan for n, g in gradients.items()}
        return loss, metrics, gradients

    return backward


def test_one_step_that_is_not_finite_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_core.assemble.whole_graph", nan_at(2, 4))
    ran = run(small_config(tmp_path, iters=5, save_every=1, segment_size=0, keep_checkpoints=9))
    assert [w.code for w in ran.of(Warned)].count("nonfinite") == 2
    assert [math.isnan(e.loss) for e in ran.of(Step)] == [False, True, False, True, False]
    one, two, three = (
        (ran.folder.checkpoint(n) / "adapters.safetensors").read_bytes() for n in (2, 3, 4)
    )
    assert two == three != one


def nan_for(*numbers: int) -> Callable[..., object]:
    """A backward pass that is NaN whenever one of these rows takes part."""

    def backward(*args: object) -> object:
        loss, metrics, gradients = whole_graph(*args)  # type: ignore[arg-type]
        rows: Any = args[2]
        if any(row.example.row in numbers for row in rows):
            loss, gradients = loss * math.nan, {n: g * math.nan for n, g in gradients.items()}
        return loss, metrics, gradients

    return backward


def test_the_rows_that_cause_it_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_core.assemble.whole_graph", nan_for(2, 5))
    events: list[Event] = []
    config = small_config(tmp_path, iters=9, segment_size=0, valid_fraction=0, batch_size=4)
    with pytest.raises(TrainerError, match=r"it comes from .*preference.jsonl:6\.") as caught:
        train(config, events.append)
    assert "look at these rows" in caught.value.try_this
    (warned,) = [event for event in events if isinstance(event, Warned)]
    # Rows are taken in order: the third is line 3, the sixth line 6.
    assert "the step was skipped; it comes from" in warned.message
    assert warned.message.endswith("preference.jsonl:3")


def test_two_in_a_row_end_the_run_and_keep_what_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_core.assemble.whole_graph", nan_at(3, 4))
    events: list[Event] = []
    config = small_config(tmp_path, iters=9, segment_size=0, valid_fraction=0, run_name="r")
    with pytest.raises(TrainerError, match="step 4 is not finite, the second in a row"):
        train(config, events.append)
    assert isinstance(events[-1], Failed)
    folder = RunFolder(tmp_path / "r")
    assert not folder.adapter.exists()
    assert folder.checkpoint_steps() == [3]  # step 3 changed nothing after step 2
    open_with_adapter(GOLDEN / "llama", folder.checkpoint(3), "keep")
    good = run(small_config(tmp_path, iters=2, segment_size=0, valid_fraction=0))
    assert (folder.checkpoint(3) / "adapters.safetensors").read_bytes() == (
        good.folder.adapter / "adapters.safetensors"
    ).read_bytes()


def test_weights_that_are_nan_end_the_run_and_leave_nothing(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(GOLDEN / "llama", model)
    weights = mx.load(str(model / "model.safetensors"))
    assert isinstance(weights, dict)
    broken = {name: a * math.nan if "norm" in name else a for name, a in weights.items()}
    mx.save_safetensors(str(model / "model.safetensors"), broken, {"format": "mlx"})
    events: list[Event] = []
    with pytest.raises(TrainerError):
        train(fresh_config(tmp_path / "runs", model=str(model)), events.append)
    assert isinstance(events[-1], Failed)
    assert not any(isinstance(event, Finished) for event in events)
    assert list((tmp_path / "runs").iterdir()) == []
