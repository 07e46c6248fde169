"""Export: what mlx-lm makes of it, and every folder that must stay as it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.core.engine import golden_config
from trainer_core.errors import ExportError, ModelError, VerifyError
from trainer_core.events import Event, Finished, Stage
from trainer_core.export import mlx as export
from trainer_core.model.adapter_files import WEIGHTS, read_parameters
from trainer_core.run import train
from trainer_core.runfolder import RunFolder


def trained(golden: Path, output: Path, family: str = "llama") -> RunFolder:
    config = golden_config(golden / family, "orpo", output, iters=2, save_every=1)
    finished: Finished = train(config, [].append)
    return RunFolder(Path(finished.run))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    golden = Path(__file__).parents[2] / "golden"
    return trained(golden, tmp_path_factory.mktemp("runs"))


@pytest.fixture
def run(made: RunFolder, tmp_path: Path) -> RunFolder:
    """A run of the test's own."""
    shutil.copytree(made.path, tmp_path / "runs" / "läuft")
    return RunFolder(tmp_path / "runs" / "läuft")


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("family", ["llama", "gemma3", "gemma4"])
def test_mlx_lm_loads_it_and_gives_the_trained_logits(
    golden: Path, tmp_path: Path, family: str
) -> None:
    from mlx_lm import load

    run = trained(golden, tmp_path, family)
    out = tmp_path / "für mlx"
    events: list[Event] = []

    report = export.export_adapter(run.path, out, events.append)

    assert sorted(files(out)) == ["adapter_config.json", "adapters.safetensors", "chat.json"]
    assert report.same_choices == 1.0
    assert report.logits_difference <= 1e-4 * report.logits_scale
    assert {event.stage for event in events if isinstance(event, Stage)} == {"save", "verify"}
    plain = load(str(golden / family))[0]
    theirs = load(str(golden / family), adapter_path=str(out))[0]
    ids = mx.array([[5, 80, 90, 100, 3, 7]])
    assert not mx.allclose(plain(ids), theirs(ids), atol=1e-4)
    ours = export.open_with_adapter(golden / family, run.adapter, "keep").model
    np.testing.assert_allclose(np.array(theirs(ids)), np.array(ours(ids)), atol=1e-5)


def test_takes_best_or_a_checkpoint_too(run: RunFolder, tmp_path: Path) -> None:
    export.export_adapter(run.checkpoint(1), tmp_path / "one")
    export.export_adapter(run.best, tmp_path / "best")
    assert (tmp_path / "one" / WEIGHTS).read_bytes() == (run.checkpoint(1) / WEIGHTS).read_bytes()
    assert (tmp_path / "best" / WEIGHTS).read_bytes() == (run.best / WEIGHTS).read_bytes()
    assert (tmp_path / "one" / WEIGHTS).read_bytes() != (tmp_path / "best" / WEIGHTS).read_bytes()


def test_replaces_an_earlier_export(run: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export.export_adapter(run.checkpoint(1), out)
    export.export_adapter(run.path, out)
    assert (out / WEIGHTS).read_bytes() == (run.adapter / WEIGHTS).read_bytes()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize(
    "place", ["", "adapter", "best", "checkpoints", "checkpoints/step-1", "adapter/deeper", ".."]
)
def test_a_runs_own_folders_are_never_written(run: RunFolder, place: str) -> None:
    before = files(run.path)
    with pytest.raises(ExportError, match=r"own files|not empty"):
        export.export_adapter(run.path, run.path / place)
    assert files(run.path) == before


def test_another_runs_adapter_is_not_taken_for_an_earlier_export(
    run: RunFolder, tmp_path: Path
) -> None:
    other = RunFolder(tmp_path / "other")
    shutil.copytree(run.path, other.path)
    (tmp_path / "link").symlink_to(other.adapter)
    before = files(other.path)
    for out in (other.adapter, other.best, tmp_path / "link"):
        with pytest.raises(ExportError, match="a run's own files"):
            export.export_adapter(run.path, out)
    assert files(other.path) == before


def test_a_folder_of_its_own_inside_the_run_is_fine(run: RunFolder) -> None:
    export.export_adapter(run.path, run.path / "exported")
    assert (run.path / "exported" / WEIGHTS).exists()


def test_strangers_files_stay(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("chapter one")
    with pytest.raises(ExportError, match=r"not empty: it holds thesis\.txt"):
        export.export_adapter(run.path, tmp_path / "out")
    assert sorted(files(tmp_path / "out")) == ["thesis.txt"]


@pytest.mark.parametrize(
    ("remove", "error", "says"),
    [
        ("adapter", ExportError, "no finished adapter"),
        ("adapter/adapter_config.json", ExportError, "no finished adapter"),
        ("config.yaml", ExportError, "not part of a run"),
    ],
)
def test_half_a_run_is_refused(
    run: RunFolder, tmp_path: Path, remove: str, error: type[Exception], says: str
) -> None:
    gone = run.path / remove
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    with pytest.raises(error, match=says):
        export.export_adapter(run.path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_that_is_gone_is_named(run: RunFolder, tmp_path: Path) -> None:
    text = run.config.read_text(encoding="utf-8")
    model = next(line for line in text.splitlines() if line.startswith("model:"))
    run.config.write_text(text.replace(model, "model: /nowhere/llama"), encoding="utf-8")
    with pytest.raises(ModelError, match="/nowhere/llama"):
        export.export_adapter(run.path, tmp_path / "out")


def worn(a: Path, b: Path) -> None:
    """A copy that a failing disk made."""
    save_file({name: value + np.float32(1e-6) for name, value in load_file(a).items()}, b)


def cut(a: Path, b: Path) -> None:
    Path(b).write_bytes(Path(a).read_bytes()[:-400])


def missing(a: Path, b: Path) -> None:
    arrays = load_file(a)
    arrays.pop(next(iter(arrays)))
    save_file(arrays, b)


@pytest.mark.parametrize("copy", [worn, cut, missing])
def test_a_damaged_copy_leaves_what_was_there(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: object
) -> None:
    out = tmp_path / "out"
    export.export_adapter(run.checkpoint(1), out)
    before = files(out)
    monkeypatch.setattr(export.shutil, "copyfile", copy)
    for target in (out, tmp_path / "new"):
        with pytest.raises(VerifyError, match="nothing was written"):
            export.export_adapter(run.path, target)
    assert files(out) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "runs"]


def test_a_full_disk_is_said_in_one_sentence(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export.shutil, "copyfile", full)
    with pytest.raises(ExportError, match="No space left on device"):
        export.export_adapter(run.path, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["runs"]


def test_the_config_says_what_it_belongs_to(run: RunFolder, golden: Path, tmp_path: Path) -> None:
    export.export_adapter(run.path, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["model"] == str(golden / "llama")
    assert config["num_layers"] == 4
    assert config["lora_parameters"]["rank"] == 4
    assert config["step"] == 2
    assert set(read_parameters(tmp_path / "out")) == set(read_parameters(run.adapter))
