"""Damaged and missing files of a model folder are the user's to mend, and are named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from trainer_core.errors import ModelError
from trainer_core.model_files import read_json, read_tensors


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no model"):
        read_tensors(tmp_path, {})


@pytest.mark.parametrize("keep", [0, 5, 200])
def test_a_cut_off_file_is_damaged(tmp_path: Path, golden: Path, keep: int) -> None:
    whole = (golden / "llama" / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:keep])
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        read_tensors(tmp_path, {})


def test_a_header_that_is_not_a_table_is_damaged(tmp_path: Path) -> None:
    text = b"[1, 2]"
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(ModelError, match="damaged"):
        read_tensors(tmp_path, {})


def test_weights_in_several_files_are_all_read(tmp_path: Path, golden: Path) -> None:
    once = read_tensors(golden / "llama", {})
    other = read_tensors(golden / "gemma4", {})
    shutil.copy(
        golden / "llama" / "model.safetensors", tmp_path / "model-00001-of-00002.safetensors"
    )
    shutil.copy(
        golden / "gemma4" / "model.safetensors", tmp_path / "model-00002-of-00002.safetensors"
    )
    names = {tensor.name for tensor in read_tensors(tmp_path, {})}
    assert names == {t.name for t in once} | {t.name for t in other}


@pytest.mark.parametrize(("text", "why"), [("{", "not valid JSON"), ("[]", "JSON object")])
def test_a_broken_config_is_named(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=why):
        read_json(tmp_path / "config.json")


def test_a_missing_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read .*config\.json"):
        read_json(tmp_path / "config.json")
