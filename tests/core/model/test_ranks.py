"""Ranks by bits: the rule, and a run on a base of 4 and 8 bits through to mlx-lm and back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from tests.core.runs import GOLDEN, fresh_config, run
from trainer_core.errors import ModelError
from trainer_core.events import Warned
from trainer_core.export.mlx import export_adapter
from trainer_core.memory import estimate
from trainer_core.model.adapter_files import read_parameters
from trainer_core.model.load import WeightPolicy, load_model
from trainer_core.model.open_policy import open_for_training, open_with_adapter
from trainer_core.plan import make_plan
from trainer_core.ranks import ranks_by_bits, ranks_by_kl, spread
from trainer_core.sensitivities import read_sensitivities


def test_the_rank_is_in_proportion_to_the_bits() -> None:
    bits = {"a": 4, "b": 8, "c": 3, "d": 6}
    assert ranks_by_bits("abcde", bits, 8) == {"a": 8, "b": 16, "c": 6, "d": 12, "e": 8}
    assert ranks_by_bits("ac", bits, 1) == {"a": 2, "c": 2}
    assert spread({"a": 8, "b": 16, "c": 8}) == "8 for 2 layers, 16 for 1 layer"


def test_the_rank_is_in_proportion_to_the_sensitivity() -> None:
    kl = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 9.0, "z": 0.25}  # sorted, the third is 0.25
    ranks = ranks_by_kl("abcde", kl, {"e": 8}, 8)
    # 8 * 0.4 is below half; 8 * 0.8 and 8 * 1.2 rounded up; 8 * 36 above twice; e by its bits.
    assert ranks == {"a": 4, "b": 7, "c": 10, "d": 16, "e": 16}
    assert ranks_by_kl("a", {"a": 1.0}, {}, 1) == {"a": 2}
    assert ranks_by_kl("ab", {}, {"a": 8}, 8) == {"a": 16, "b": 8}
    assert ranks_by_kl("ab", {"a": -1.0, "b": -2.0}, {}, 8) == {"a": 8, "b": 8}


FORMS: list[tuple[str, Any]] = [
    ("optiq_metadata.json", {"per_layer": {"x.q_proj": {"kl": 0.5, "bits": 8}, "y": {}}}),
    ("optiq_metadata.json", {"optimization": {"per_layer": [{"name": "x.q_proj", "kl": 0.5}]}}),
    ("tiny_sensitivities.json", [["x.q_proj", 0.5]]),
    ("sensitivities.json", {"per_layer": {"x.q_proj.weight": 0.5}}),
]


@pytest.mark.parametrize(("name", "content"), FORMS)
def test_sensitivities_are_read_in_every_form(tmp_path: Path, name: str, content: Any) -> None:
    assert read_sensitivities(tmp_path) == {}
    (tmp_path / name).write_text(json.dumps(content))
    assert read_sensitivities(tmp_path) == {"x.q_proj": 0.5}


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "[1]", '{"per_layer": 3}', '[["a", "b"]]', '[["a", NaN]]', "[{}]"]
)
def test_a_file_of_something_else_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "optiq_metadata.json").write_text(content)
    with pytest.raises(ModelError, match=r"optiq_metadata.json cannot be read") as caught:
        read_sensitivities(tmp_path)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("recorded", [True, False])
def test_ranks_by_kl_train_and_export(tmp_path: Path, recorded: bool) -> None:
    from mlx_lm.tuner.utils import load_adapters

    model = tmp_path / "model"
    shutil.copytree(GOLDEN / "llama", model)
    if recorded:
        paths = [f"model.layers.{n}.self_attn.{p}_proj" for n in range(2) for p in "qkvo"]
        kl = {path: {"kl": 1.0 + 3.0 * path.endswith("v_proj")} for path in paths}
        (model / "optiq_metadata.json").write_text(json.dumps({"per_layer": kl}))
    ran = run(fresh_config(tmp_path / "runs", model=str(model), rank=4, rank_scaling="by_kl"))
    told = next(w.message for w in ran.of(Warned) if w.code == "ranks")
    assert ("records no sensitivities" in told) == (not recorded)
    assert ("8 for 2 layers" in told) == recorded
    export_adapter(ran.folder.path, tmp_path / "out")
    ids = mx.array([[5, 80, 90, 100, 3, 7]])
    theirs = load_adapters(load_model(model, "keep").model, str(tmp_path / "out"))(ids)
    ours = open_with_adapter(model, ran.folder.adapter, "keep").model(ids)
    np.testing.assert_allclose(np.array(theirs), np.array(ours), atol=2e-5)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden llama with 8 bits in every v_proj and down_proj, 4 in the other linears."""
    from mlx_lm.utils import quantize_model, save_model

    folder = tmp_path_factory.mktemp("models") / "mixed"
    shutil.copytree(GOLDEN / "llama", folder)
    loaded = load_model(folder)

    def bits(path: str, module: nn.Module) -> Any:
        high = path.endswith(("v_proj", "down_proj"))
        weight: Any = getattr(module, "weight", None)
        fits = hasattr(module, "to_quantized") and weight.shape[-1] % 32 == 0
        return fits and {"group_size": 32, "bits": 8 if high else 4}

    model, config = quantize_model(loaded.model, loaded.config, 32, 4, quant_predicate=bits)
    for file in folder.glob("model*.safetensors"):
        file.unlink()
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("rs_lora", [False, True])
@pytest.mark.parametrize("weights", ["keep", "float32"])
def test_trains_and_mlx_lm_loads_it(
    mixed: Path, tmp_path: Path, weights: WeightPolicy, rs_lora: bool
) -> None:
    from mlx_lm.tuner.utils import load_adapters

    config = fresh_config(
        tmp_path / "runs",
        model=str(mixed),
        weights=weights,
        rank=3,
        rank_scaling="by_bits",
        rs_lora=rs_lora,
        learning_rate=1e-2,
    )
    ran = run(config)
    assert any("3 for" in w.message and "6 for" in w.message for w in ran.of(Warned))
    export_adapter(ran.folder.path, tmp_path / "out")

    arrays = read_parameters(tmp_path / "out")
    assert {a.shape[-1] for name, a in arrays.items() if name.endswith("lora_a")} == {6}
    ids = mx.array([[5, 80, 90, 100, 3, 7]])
    base = load_model(mixed, weights).model
    plain = base(ids)
    theirs = load_adapters(base, str(tmp_path / "out"))(ids)
    assert not mx.allclose(theirs, plain, atol=1e-4)
    ours = open_with_adapter(mixed, ran.folder.adapter, weights).model(ids)
    np.testing.assert_allclose(np.array(theirs), np.array(ours), atol=2e-4)


@pytest.mark.parametrize("rs_lora", [False, True])
def test_one_rank_and_multiplier_on_disk_compute_what_was_trained(
    mixed: Path, tmp_path: Path, rs_lora: bool
) -> None:
    config = fresh_config(
        tmp_path, model=str(mixed), rank=3, rank_scaling="by_bits", rs_lora=rs_lora
    )
    opened = open_for_training(mixed, make_plan(config, mixed).config)
    assert {layer.lora_a.shape[1] for layer in opened.adapter.layers.values()} == {3, 6}
    for number, layer in enumerate(opened.adapter.layers.values()):
        layer.lora_b = mx.random.normal(layer.lora_b.shape, key=mx.random.key(number))
    arrays = opened.adapter.uniform(opened.spec.rank, opened.spec.scale)
    for path, layer in opened.adapter.layers.items():
        # alpha / sqrt(rank) of rsLoRA, with alpha = 2.0 * 3
        own = 6.0 / layer.lora_a.shape[1] ** 0.5 if rs_lora else 2.0
        wanted = own * np.array(layer.lora_a) @ np.array(layer.lora_b)
        a, b = (np.array(arrays[f"{path}.{leaf}"]) for leaf in ("lora_a", "lora_b"))
        np.testing.assert_allclose(opened.spec.scale * a @ b, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scaling", ["constant", "by_bits", "by_kl"])
def test_the_estimate_counts_what_is_trained(mixed: Path, tmp_path: Path, scaling: str) -> None:
    model = tmp_path / "model"
    shutil.copytree(mixed, model)
    told = [["model.layers.0.self_attn.q_proj", 3.0], ["model.layers.1.mlp.up_proj", 1.0]]
    (model / "sensitivities.json").write_text(json.dumps(told))
    config = fresh_config(tmp_path, model=str(model), rank=3, rank_scaling=scaling)
    opened = open_for_training(model, make_plan(config, model).config)
    trained = sum(array.size for array in opened.adapter.parameters().values())
    assert estimate(model, config).adapter_parameters == trained


def test_says_when_all_ranks_are_the_same(tmp_path: Path) -> None:
    ran = run(fresh_config(tmp_path, rank_scaling="by_bits", iters=1))
    assert any("every layer has rank 2" in warned.message for warned in ran.of(Warned))
