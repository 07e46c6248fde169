"""Loading a base: precision, quantised or not, and every broken folder said in one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from safetensors.numpy import load_file, save_file

from trainer_core.errors import ModelError
from trainer_core.model.find import resolve_model
from trainer_core.model.load import is_half, load_model, set_precision

IDS = mx.array([[5, 80, 90, 100, 3, 7]])


@pytest.fixture
def folder(golden: Path, tmp_path: Path) -> Path:
    """A llama's folder to break."""
    return Path(
        shutil.copytree(
            golden / "llama", tmp_path / "модель", ignore=shutil.ignore_patterns("final_*")
        )
    )


def quantised_copy(folder: Path, bits: int, group_size: int = 32) -> None:
    """Quantise a model folder in place, as mlx-lm's own convert does."""
    from mlx_lm.utils import quantize_model, save_model

    loaded = load_model(folder)
    model, config = quantize_model(loaded.model, dict(loaded.config), group_size, bits)
    (folder / "model.safetensors").unlink()
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def dtypes(model: nn.Module) -> set[mx.Dtype]:
    return {array.dtype for _, array in tree_flatten(model.parameters())}


def test_loads_frozen_and_evaluated(folder: Path) -> None:
    loaded = load_model(folder)
    assert tree_flatten(loaded.model.trainable_parameters()) == []
    assert not loaded.model.training
    assert loaded.config["model_type"] == "llama"
    assert loaded.folder == folder


@pytest.mark.parametrize("bits", [4, 8])
def test_a_quantised_base_is_kept_or_brought_to_a_precision(folder: Path, bits: int) -> None:
    quantised_copy(folder, bits)
    kept = load_model(folder, "keep").model
    assert mx.uint32 in dtypes(kept)
    wide = load_model(folder, "float32").model
    assert dtypes(wide) == {mx.float32}
    half = load_model(folder, "bfloat16").model
    assert dtypes(half) == {mx.bfloat16}
    # Dequantised weights are the same numbers, so only the order of sums differs.
    np.testing.assert_allclose(np.array(wide(IDS)), np.array(kept(IDS)), atol=2e-4)
    near = np.array(half(IDS).astype(mx.float32))
    np.testing.assert_allclose(near, np.array(wide(IDS)), atol=0.1)


def test_set_precision_keeps_on_request(folder: Path) -> None:
    model = load_model(folder).model
    assert set_precision(model, "keep") is model
    assert dtypes(model) == {mx.float32}


def test_float16_is_recognised(folder: Path) -> None:
    arrays = load_file(folder / "model.safetensors")
    assert not is_half(load_model(folder).model)
    save_file(
        {name: array.astype(np.float16) for name, array in arrays.items()},
        folder / "model.safetensors",
        {"format": "mlx"},
    )
    assert is_half(load_model(folder).model)
    assert not is_half(load_model(folder, "float32").model)


def test_shards_load_as_one_and_a_missing_one_is_told(folder: Path) -> None:
    arrays = load_file(folder / "model.safetensors")
    whole = load_model(folder).model(IDS)
    names = sorted(arrays)
    (folder / "model.safetensors").unlink()
    for number, part in enumerate((names[:9], names[9:]), start=1):
        save_file(
            {name: arrays[name] for name in part},
            folder / f"model-0000{number}-of-00002.safetensors",
            {"format": "mlx"},
        )
    assert mx.array_equal(load_model(folder).model(IDS), whole)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError) as caught:
        load_model(folder)
    said = str(caught.value)
    assert "could not be loaded" in said
    assert "issing" in said
    assert len(said) < 700
    assert "\n" not in said


@pytest.mark.parametrize("left", [5, 200, -40])
def test_a_cut_file_is_told(folder: Path, left: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(ModelError, match="could not be loaded"):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": "nosuchnet"}, "cannot be trained.*nosuchnet.*not supported.*mlx-lm"),
        ({"hidden_size": 32}, "could not be loaded"),
        ({"hidden_size": None}, "could not be loaded"),
        ({"num_hidden_layers": 5}, "could not be loaded.*issing"),
    ],
)
def test_a_config_that_does_not_fit_is_told(
    folder: Path, changes: dict[str, object], says: str
) -> None:
    edit_config(folder, **changes)
    with pytest.raises(ModelError, match=says):
        load_model(folder)


def test_a_missing_key_is_named(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config["hidden_size"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="hidden_size"):
        load_model(folder)


def test_a_model_that_brings_code_is_refused_before_it_runs(folder: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (folder / "mine.py").write_text(f"open({str(ran)!r}, 'w')\n")
    edit_config(folder, model_file="mine.py")
    with pytest.raises(ModelError, match=r"brings its own program code \(mine\.py\)"):
        resolve_model(str(folder))
    with pytest.raises(ModelError, match=r"mine\.py"):
        load_model(folder)
    assert not ran.exists()
