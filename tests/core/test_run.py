"""Whole runs: repeatable, recorded, tidy after a failure, steady at the edges of their options."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from tests.core.runs import (
    GOLDEN,
    Ran,
    fresh_config,
    rows_of,
    run,
    small_config,
    write_rows,
)
from trainer_core.config import RunConfig
from trainer_core.config_io import load_config
from trainer_core.errors import ConfigError, ModelError, OutOfMemoryError, TrainerError
from trainer_core.events import Data, Event, Failed, Finished, Started, Step, Validation, Warned
from trainer_core.model.open_policy import open_with_adapter
from trainer_core.row_losses import RowLossLog
from trainer_core.run import train
from trainer_core.runfolder import EventLog, read_events

METHODS = ("sft", "dpo", "orpo")


def adapter_bytes(ran: Ran) -> bytes:
    return (ran.folder.adapter / "adapters.safetensors").read_bytes()


def sound(ran: Ran, steps: int = 3) -> None:
    """It trained, every number is finite, and the adapter loads."""
    assert ran.finished is not None
    assert (ran.finished.reason, ran.finished.steps) == ("done", steps)
    assert len(ran.of(Step)) == steps
    assert all(math.isfinite(e.loss) and math.isfinite(e.grad_norm) for e in ran.of(Step))
    config = load_config(ran.folder.config)
    open_with_adapter(Path(config.model), ran.folder.adapter, "keep")


def failure(config: RunConfig) -> tuple[TrainerError, list[Event]]:
    events: list[Event] = []
    with pytest.raises(TrainerError) as caught:
        train(config, events.append)
    assert isinstance(events[-1], Failed)
    assert (events[-1].what, events[-1].why) == (caught.value.what, caught.value.why)
    return caught.value, events


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, method: str) -> None:
    options: dict[str, Any] = {"shuffle": True, "dropout": 0.2, "batch_size": 2}
    one, two, other = (
        run(fresh_config(tmp_path, method, seed=seed, **options)) for seed in (7, 7, 8)
    )
    assert adapter_bytes(one) == adapter_bytes(two) != adapter_bytes(other)
    assert [e.loss for e in one.of(Step)] == [e.loss for e in two.of(Step)]
    assert [e.loss for e in one.of(Step)] != [e.loss for e in other.of(Step)]


def test_the_record_is_what_was_told(tmp_path: Path) -> None:
    ran = run(small_config(tmp_path, run_name="ein Lauf é"))
    assert ran.folder.path == tmp_path / "ein Lauf é"
    assert read_events(ran.folder.events) == ran.events
    assert isinstance(ran.events[0], Started)
    assert ran.events[-1] == ran.finished
    assert isinstance(ran.finished, Finished)
    assert ran.finished.adapter == str(ran.folder.adapter)
    (data,) = ran.of(Data)
    assert (data.rows, data.rows_used, data.valid_rows) == (9, 9, 3)


def test_the_written_config_has_no_auto_left_and_runs_again(tmp_path: Path) -> None:
    ran = run(fresh_config(tmp_path, learning_rate=None, iters=2))
    config = load_config(ran.folder.config)
    assert "auto" not in config.model_dump().values()
    assert config.learning_rate == 1e-4
    assert config.num_layers == 4
    again = run(config)
    assert adapter_bytes(again) == adapter_bytes(ran)
    assert again.folder.path != ran.folder.path


def test_the_passport_tells_models_and_data_apart(tmp_path: Path) -> None:
    one, two, other = (
        json.loads(run(small_config(tmp_path, "sft", family, iters=1)).folder.passport.read_text())
        for family in ("llama", "llama", "qwen3")
    )
    assert one["model"] == two["model"] != other["model"]
    assert len(one["model"]["sha256"]) == 64
    assert one["data"][0]["file"] == "preference.jsonl"
    assert one["results"]["steps"] == 1
    assert one["versions"]["mlx"] == mx.__version__


# The edges of options, for every method.

EDGES: dict[str, dict[str, Any]] = {
    "a batch larger than the data": {"batch_size": 64, "grad_accumulation_steps": 4},
    "one step": {"iters": 1, "warmup_steps": 5},
    "one token a chunk": {"head": "chunked", "chunk_size": 1},
    "one token a chunk, fused": {"head": "fused", "chunk_size": 1},
    "sixteen tokens": {"max_seq_length": 16},
    "one target": {"target_modules": ["v_proj"]},
    "one layer": {"num_layers": 1},
    "half dropped": {"dropout": 0.5},
    "half dropped, prefix shared, segments": {"dropout": 0.5, "segment_size": 1},
    "no validation": {"valid_fraction": 0},
    "all validation rows": {"val_rows": 0},
    "no clipping, no decay": {"grad_clip": 0, "weight_decay": 0},
    "rank one": {"rank": 1},
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("method", METHODS)
def test_edges(tmp_path: Path, method: str, edge: str) -> None:
    options = {"iters": 2, **EDGES[edge]}
    sound(run(fresh_config(tmp_path, method, **options)), options["iters"])


@pytest.mark.parametrize("method", METHODS)
def test_one_row(tmp_path: Path, method: str) -> None:
    row = {"prompt": "the cat", "chosen": "A MAT", "rejected": "a log"}
    data = write_rows(tmp_path / "eine.jsonl", [row])
    sound(run(fresh_config(tmp_path, method, data=str(data), valid_fraction=0)))


@pytest.mark.parametrize("method", METHODS)
def test_answers_of_one_token(tmp_path: Path, method: str) -> None:
    # raw text gets its end token, so an empty-looking answer is the end token alone
    rows = [
        {"prompt": f"say {word}", "chosen": "<|im_end|>", "rejected": "b<|im_end|>"}
        for word in ("one", "two", "three", "four")
    ]
    data = write_rows(tmp_path / "short.jsonl", rows)
    sound(run(fresh_config(tmp_path, method, data=str(data))))


def test_names_in_any_alphabet(tmp_path: Path) -> None:
    model = tmp_path / "モデル ü"
    shutil.copytree(GOLDEN / "llama", model, ignore=shutil.ignore_patterns("final_*"))
    output = tmp_path / "läufe 🙂"
    config = fresh_config(output, model=str(model), run_name="пробег №1")
    ran = run(config)
    sound(ran)
    assert ran.folder.path == output / "пробег №1"


@pytest.mark.parametrize(
    ("method", "weights"),
    [
        ("sft", "keep"),
        ("dpo", "keep"),
        ("orpo", "keep"),
        ("sft", "bfloat16"),
        ("dpo", "auto"),
        ("orpo", "float32"),
    ],
)
def test_a_four_bit_model_trains_in_each_precision(
    four_bit: Path, tmp_path: Path, method: str, weights: str
) -> None:
    ran = run(fresh_config(tmp_path, method, model=str(four_bit), weights=weights))
    sound(ran)
    slow = [w for w in ran.of(Warned) if w.code == "slow_weights"]
    assert bool(slow) == (weights in ("keep", "bfloat16"))


@pytest.fixture(scope="module")
def four_bit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden llama with 4 bits a weight."""
    from mlx_lm.utils import quantize_model, save_model

    from trainer_core.model.load import load_model

    folder = tmp_path_factory.mktemp("models") / "four"
    ignored = shutil.ignore_patterns("final_*", "*.safetensors")
    shutil.copytree(GOLDEN / "llama", folder, ignore=ignored)
    loaded = load_model(GOLDEN / "llama")
    model, config = quantize_model(loaded.model, dict(loaded.config), 32, 4)
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_a_float16_model_is_warned_of_and_trains(tmp_path: Path) -> None:
    model = tmp_path / "half"
    shutil.copytree(GOLDEN / "llama", model, ignore=shutil.ignore_patterns("final_*"))
    weights = mx.load(str(model / "model.safetensors"))
    assert isinstance(weights, dict)
    half = {name: array.astype(mx.float16) for name, array in weights.items()}
    mx.save_safetensors(str(model / "model.safetensors"), half, {"format": "mlx"})
    ran = run(fresh_config(tmp_path, model=str(model), weights="keep"))
    sound(ran)
    assert "float16" in [warning.code for warning in ran.of(Warned)]
    ran = run(fresh_config(tmp_path, model=str(model), weights="float32"))
    assert "float16" not in [warning.code for warning in ran.of(Warned)]


# Refusals and failures.


def test_a_rank_that_is_not_the_adapters_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    error, events = failure(small_config(tmp_path / "runs", rank=8))
    assert isinstance(error, ConfigError)
    assert error.key == "rank"
    assert len(events) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"target_modules": ["q_porj"]}, "q_porj"),
        ({"num_layers": 9}, "the model has 4 layers"),
        ({"early_stop_patience": 2, "valid_fraction": 0}, "early_stop_patience"),
    ],
)
def test_what_cannot_be_honoured_is_refused_and_leaves_no_folder(
    tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    error, _ = failure(fresh_config(tmp_path / "runs", **options))
    assert isinstance(error, ConfigError)
    assert says in str(error)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_broken_model_leaves_no_folder(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(GOLDEN / "llama", model)
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    error, _ = failure(fresh_config(tmp_path / "runs", model=str(model)))
    assert isinstance(error, ModelError)
    assert not any((tmp_path / "runs").glob("*"))


def test_a_runs_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    error, _ = failure(fresh_config(tmp_path / "file" / "runs"))
    assert "cannot make a run folder" in error.what


def test_a_fault_of_ours_is_told_and_raised_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(job: object, progress: Any, *_: object) -> None:
        if progress.steps:
            raise ZeroDivisionError("a bug")

    monkeypatch.setattr("trainer_core.loop._judge_if_due", broken)
    events: list[Event] = []
    with pytest.raises(ZeroDivisionError):
        train(fresh_config(tmp_path / "runs", valid_fraction=0), events.append)
    assert isinstance(events[-1], Failed)
    assert "ZeroDivisionError: a bug" in events[-1].why
    (folder,) = (tmp_path / "runs").iterdir()  # one step was trained, and kept
    assert [p.name for p in (folder / "checkpoints").iterdir()] == ["step-1"]
    assert read_events(folder / "events.jsonl") == events


def test_memory_that_runs_out_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy(*_: object) -> None:
        raise RuntimeError("[malloc] Unable to allocate 99999999 bytes.")

    monkeypatch.setattr("trainer_core.assemble.whole_graph", greedy)
    error, _ = failure(fresh_config(tmp_path / "runs", segment_size=0))
    assert isinstance(error, OutOfMemoryError)
    assert "lower the batch size" in error.try_this


@pytest.mark.parametrize(
    "place", ["log", "row_losses", "adapter", "config", "reference", "passport"]
)
def test_a_full_disk_is_told_whatever_it_hits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    real_append, real_replace = EventLog.append, Path.replace
    names = {
        "config": "config.yaml",
        "reference": "reference.safetensors",
        "passport": "passport.json",
    }
    made: list[bool] = []
    full_since: list[Event] = []

    def append(log: EventLog, event: Event) -> None:
        if place == "log" and (isinstance(event, Step) or full_since):
            full_since.append(event)
            raise full
        real_append(log, event)

    def replace(path: Path, target: Any) -> Path:
        name = Path(target).name
        if place == "adapter" and name == "adapter":
            raise full
        if name == names.get(place) and (place != "config" or made):
            raise full
        made.append(True)
        return real_replace(path, target)

    def append_rows(*_: object) -> None:
        raise full

    if place == "row_losses":
        monkeypatch.setattr(RowLossLog, "append", append_rows)
    monkeypatch.setattr(EventLog, "append", append)
    monkeypatch.setattr(Path, "replace", replace)
    config = fresh_config(tmp_path / "runs", "dpo", iters=2, valid_fraction=0.25)
    error, events = failure(config)
    assert "No space left on device" in error.why
    assert "make room on the disk" in error.try_this
    assert str(tmp_path / "runs") in error.what
    for folder in (tmp_path / "runs").glob("*"):
        hidden = {path.name for path in folder.rglob(".*")} - {".lock", ".best-before"}
        assert not hidden, "a temporary file was left"
        assert read_events(folder / "events.jsonl")
    assert any(isinstance(event, Step) for event in events) == (place in ("log", "adapter"))


def test_validation_is_told_at_start_and_end(tmp_path: Path) -> None:
    for every in (0, 2):
        ran = run(small_config(tmp_path, iters=5, steps_per_eval=every))
        steps = [event.step for event in ran.of(Validation)]
        assert (steps[0], steps[-1]) == (0, 5)
        assert steps[1:-1] == ([k for k in range(1, 5) if k % every == 0] if every else [])


def test_rows_of_like_length_share_a_batch(tmp_path: Path) -> None:
    config = fresh_config(
        tmp_path, "sft", epochs=1, batch_size=4, group_by_length=True, valid_fraction=0
    )
    longest = sorted((len(row.chosen) for row in rows_of(config).train), reverse=True)
    tokens = [step.tokens for step in run(config).of(Step)]
    assert tokens == [sum(longest[:4]), sum(longest[:8]), sum(longest)]


@pytest.mark.parametrize("segment", [0, 1])
def test_packed_rows_learn_as_the_batch_of_the_same_rows(tmp_path: Path, segment: int) -> None:
    options: dict[str, Any] = {
        "valid_fraction": 0,
        "epochs": 3,
        "segment_size": segment,
        "dropout": 0.1,
        "max_seq_length": 4096,
    }
    packed = run(fresh_config(tmp_path / "packed", "sft", packing=True, **options))
    batch = run(fresh_config(tmp_path / "batch", "sft", batch_size=12, **options))
    assert len(packed.of(Step)) == len(batch.of(Step)) == 3
    for got, wanted in zip(packed.of(Step), batch.of(Step), strict=True):
        assert got.tokens == wanted.tokens
        assert got.loss == pytest.approx(wanted.loss, rel=1e-5)
        assert got.grad_norm == pytest.approx(wanted.grad_norm, rel=1e-4)
