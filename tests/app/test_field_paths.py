from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from app.viewmodels.hub_models import cached_models, is_cached
from app.viewmodels.path_fields import path_problem


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    for name in ("models--org--whole", "models--org--with--dashes"):
        snapshot = folder / name / "snapshots" / "abc"
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
    (folder / "models--org--empty" / "snapshots").mkdir(parents=True)
    (folder / "datasets--org--rows" / "snapshots" / "abc").mkdir(parents=True)
    return folder


def test_only_whole_models_of_the_cache_are_offered(cache: Path) -> None:
    assert cached_models() == ["org/whole", "org/with--dashes"]
    assert is_cached("org/whole")
    assert not is_cached("org/empty")


def test_without_a_cache_nothing_is_offered(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "none"))
    assert cached_models() == []


def test_a_model_is_a_folder_or_in_the_cache(cache: Path, tmp_path: Path) -> None:
    assert path_problem("model", "org/whole") is None
    assert "nor such a model in the local cache" in (path_problem("model", "org/empty") or "")
    (tmp_path / "config.json").write_text("{}")
    assert path_problem("model", str(tmp_path)) is None
    assert "is a file" in (path_problem("model", str(tmp_path / "config.json")) or "")


def test_an_adapter_is_not_a_model_nor_a_model_an_adapter(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    assert "is an adapter" in (path_problem("model", str(tmp_path)) or "")
    assert path_problem("warm_start", str(tmp_path)) is None
    (tmp_path / "adapter_config.json").unlink()
    assert "no config.json" in (path_problem("model", str(tmp_path)) or "")
    assert "no adapter_config.json" in (path_problem("warm_start", str(tmp_path)) or "")


def test_data_is_a_file_or_a_folder_with_train_jsonl(tmp_path: Path) -> None:
    assert "no train.jsonl" in (path_problem("data", str(tmp_path)) or "")
    (tmp_path / "train.jsonl").write_text("{}\n")
    assert path_problem("data", str(tmp_path)) is None
    assert path_problem("data", str(tmp_path / "train.jsonl")) is None
    assert path_problem("valid_data", str(tmp_path)) == "is a folder; choose a file"


def test_the_runs_folder_may_still_have_to_be_made(tmp_path: Path) -> None:
    assert path_problem("output", str(tmp_path / "new" / "runs")) is None
    (tmp_path / "taken").write_text("")
    assert "taken is a file" in (path_problem("output", str(tmp_path / "taken" / "runs")) or "")


def test_the_sample_stands_for_a_model_and_data_only() -> None:
    assert path_problem("model", "sample") is None
    assert path_problem("data", "sample") is None
    assert path_problem("warm_start", "sample") == "there is no such folder"


@pytest.mark.parametrize("text", ["a\0b", "x" * 5000])
def test_what_cannot_be_a_path_is_said_so(text: str) -> None:
    assert path_problem("data", text)
