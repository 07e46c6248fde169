"""From a name to a model folder; everything that is none says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainer_core.errors import ModelError
from trainer_core.model.find import read_config, resolve_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "a model é"
    made.mkdir()
    (made / "config.json").write_text('{"model_type": "llama"}')
    (made / "model.safetensors").write_bytes(b"x")
    return made


def test_a_folder_is_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_model(str(folder)) == folder
    monkeypatch.chdir(folder.parent)
    assert resolve_model("a model é") == folder
    monkeypatch.setenv("HOME", str(folder.parent))
    assert resolve_model("~/a model é") == folder


def test_a_shard_is_enough_of_a_name(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    assert resolve_model(str(folder)) == folder


@pytest.mark.parametrize("name", ["/nowhere", "nowhere", "./org/name", "a/b/c", "~/nothing here"])
def test_nothing_there(name: str, dirs: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no model at .*Hugging Face id"):
        resolve_model(name)


def test_an_id_that_is_not_in_the_cache_says_how_to_get_it(dirs: Path) -> None:
    with pytest.raises(ModelError, match=r"no model org/name .*trainer_core download org/na"):
        resolve_model("org/name")
    with pytest.raises(ModelError, match="no model -bad-/name"):
        resolve_model("-bad-/name")


def test_an_id_in_the_cache_is_found(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    repo = tmp_path / "hub" / "models--org--name"
    (repo / "snapshots").mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("abc")
    folder.rename(repo / "snapshots" / "abc")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    assert resolve_model("org/name") == repo / "snapshots" / "abc"


def test_a_file_is_not_a_folder(folder: Path) -> None:
    with pytest.raises(ModelError, match="is a file, not a model folder"):
        resolve_model(str(folder / "model.safetensors"))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (None, r"no config\.json"),
        ("{", "cannot be read"),
        ("[]", "does not hold a JSON object"),
        ("\udce9".encode("utf-8", "surrogateescape"), "cannot be read"),
        ('{"fine_tune_type": "lora"}', r"names no model_type.*warm_start"),
        ('{"model_type": "llama", "model_file": "x.py"}', "its own program code"),
    ],
)
def test_a_folder_that_is_no_model(folder: Path, config: str | bytes | None, says: str) -> None:
    path = folder / "config.json"
    path.unlink()
    if config is not None:
        path.write_bytes(config if isinstance(config, bytes) else config.encode())
    with pytest.raises(ModelError, match=says):
        resolve_model(str(folder))


def test_weights_of_another_kind(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no model\*\.safetensors"):
        resolve_model(str(folder))
    (folder / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"GGUF files only.*Use the safetensors version"):
        resolve_model(str(folder))


def test_reads_the_config(folder: Path) -> None:
    assert read_config(folder) == json.loads((folder / "config.json").read_text())
