"""Adapter folders: round trip, mlx-lm's reader, PEFT's layout, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.core.engine import small_policy
from trainer_core.errors import ModelError
from trainer_core.model.adapter_files import (
    AdapterSpec,
    read_parameters,
    read_spec,
    write_adapter,
)

SPEC = AdapterSpec(
    rank=4,
    scale=2.0,
    dropout=0.0,
    keys=(
        *("mlp.down_proj", "mlp.gate_proj", "mlp.up_proj", "self_attn.k_proj"),
        *("self_attn.o_proj", "self_attn.q_proj", "self_attn.v_proj"),
    ),
    num_layers=4,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "adaptér"
    made.mkdir()
    return made


@pytest.fixture
def mine(golden: Path, folder: Path) -> Path:
    """An adapter folder of ours, B filled."""
    policy = small_policy(golden / "llama")
    write_adapter(folder, policy.adapter.parameters(), SPEC, {"method": "orpo", "note": "déjà"})
    return folder


def as_peft(parameters: dict[str, mx.array], folder: Path, **config: Any) -> Path:
    """What PEFT's save_pretrained writes for the same numbers."""
    arrays = {}
    for name, array in parameters.items():
        path, leaf = name.rsplit(".", 1)
        key = f"base_model.model.{path}.lora_{leaf[-1].upper()}.weight"
        arrays[key] = np.ascontiguousarray(np.array(array).T)
    save_file(arrays, folder / "adapter_model.safetensors")
    written = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "lora_dropout": 0.1, **config}
    (folder / "adapter_config.json").write_text(json.dumps(written))
    return folder


def edit(folder: Path, change: Any) -> None:
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    change(config)
    path.write_text(json.dumps(config), encoding="utf-8")


def test_round_trip(golden: Path, mine: Path) -> None:
    wanted = small_policy(golden / "llama").adapter.parameters()
    found = read_parameters(mine)
    assert found.keys() == wanted.keys()
    assert all(mx.array_equal(found[name], wanted[name]) for name in wanted)
    assert read_spec(mine, 4) == SPEC
    config = json.loads((mine / "adapter_config.json").read_text(encoding="utf-8"))
    assert (config["method"], config["note"]) == ("orpo", "déjà")


def test_mlx_lm_reads_it_to_equal_logits(golden: Path, mine: Path) -> None:
    from mlx_lm import load

    network = load(str(golden / "llama"), adapter_path=str(mine))[0]
    ids = mx.array([[5, 80, 90, 100, 3, 7]])
    ours = small_policy(golden / "llama").stack.project
    stack = small_policy(golden / "llama").stack
    wanted = ours(stack.hidden(ids)[0])
    np.testing.assert_allclose(np.array(network(ids)[0]), np.array(wanted), atol=1e-5)


def test_reads_what_mlx_lm_writes(golden: Path) -> None:
    # keys in any order, integers where we have floats, num_layers of -1 for all
    assert read_spec(golden / "llama" / "init_adapter", 4) == SPEC


@pytest.mark.parametrize(("stated", "layers"), [(-1, 4), (0, 4), (2, 2), (16, 4)])
def test_num_layers_counts_as_for_mlx_lm(mine: Path, stated: int, layers: int) -> None:
    edit(mine, lambda config: config.update(num_layers=stated))
    assert read_spec(mine, 4).num_layers == layers


def test_keys_that_are_not_stated_are_read_off_the_arrays(mine: Path) -> None:
    edit(mine, lambda config: config["lora_parameters"].pop("keys"))
    assert read_spec(mine, 4) == SPEC


def test_arrays_of_half_precision_come_as_float32(mine: Path) -> None:
    arrays = {name: a.astype(mx.float16) for name, a in read_parameters(mine).items()}
    mx.save_safetensors(str(mine / "adapters.safetensors"), arrays)
    assert {array.dtype for array in read_parameters(mine).values()} == {mx.float32}


def test_peft_has_the_transposes(golden: Path, folder: Path) -> None:
    wanted = small_policy(golden / "llama").adapter.parameters()
    as_peft(wanted, folder)
    found = read_parameters(folder)
    assert found.keys() == wanted.keys()
    assert all(mx.array_equal(found[name], wanted[name]) for name in wanted)
    assert read_spec(folder, 4) == AdapterSpec(4, 2.0, 0.1, SPEC.keys, 4)


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({"lora_alpha": 32}, 8.0),  # alpha / r
        ({"lora_alpha": 32, "use_rslora": True}, 16.0),  # alpha / sqrt(r)
        ({"lora_alpha": 3, "use_rslora": False}, 0.75),
    ],
)
def test_pefts_alpha_is_a_scale(
    golden: Path, folder: Path, config: dict[str, Any], scale: float
) -> None:
    as_peft(small_policy(golden / "llama").adapter.parameters(), folder, **config)
    assert read_spec(folder, 4).scale == scale


def test_pefts_layers_are_read_off_the_arrays(golden: Path, folder: Path) -> None:
    parameters = small_policy(golden / "llama").adapter.parameters()
    last = {name: a for name, a in parameters.items() if ".3." in name and "q_proj" in name}
    spec = read_spec(as_peft(last, folder), 4)
    assert (spec.num_layers, spec.keys) == (1, ("self_attn.q_proj",))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rank_pattern": {"q_proj": 8}}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": 8}}, "alpha_pattern"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"peft_type": "IA3"}, "is of type IA3"),
        ({"r": None}, "not a LoRA configuration"),
        ({"r": "four"}, "not a LoRA configuration"),
        ({"r": 0}, "not a LoRA configuration"),
        ({"lora_alpha": None}, "not a LoRA configuration"),
    ],
)
def test_peft_adapters_that_cannot_be_read(
    golden: Path, folder: Path, change: dict[str, Any], says: str
) -> None:
    as_peft(small_policy(golden / "llama").adapter.parameters(), folder, **change)
    with pytest.raises(ModelError, match=says):
        read_spec(folder, 4)


@pytest.mark.parametrize(
    "name",
    [
        "base_model.model.model.embed_tokens.lora_embedding_A",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias",
        "base_model.model.lm_head.weight",
    ],
)
def test_peft_arrays_of_another_kind_are_refused(golden: Path, folder: Path, name: str) -> None:
    as_peft(small_policy(golden / "llama").adapter.parameters(), folder)
    file = folder / "adapter_model.safetensors"
    save_file({**load_file(file), name: np.zeros(4, dtype=np.float32)}, file)
    for read in (lambda: read_spec(folder, 4), lambda: read_parameters(folder)):
        with pytest.raises(ModelError, match=r"only LoRA and DoRA on linear layers"):
            read()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda c: c.update(fine_tune_type="mine"),
            "is of type mine: it must be lora, dora or full",
        ),
        (lambda c: c.pop("lora_parameters"), "lacks or misuses 'lora_parameters'"),
        (lambda c: c.update(lora_parameters=[]), "not a LoRA configuration"),
        (lambda c: c["lora_parameters"].pop("rank"), "lacks or misuses 'rank'"),
        (lambda c: c["lora_parameters"].update(rank="x"), "not a LoRA configuration"),
        (lambda c: c["lora_parameters"].update(scale=None), "not a LoRA configuration"),
        (lambda c: c["lora_parameters"].update(keys=[1]), "not a LoRA configuration"),
        (lambda c: c.pop("num_layers"), "lacks or misuses 'num_layers'"),
    ],
)
def test_configs_that_are_not_lora(mine: Path, change: Any, says: str) -> None:
    edit(mine, change)
    with pytest.raises(ModelError, match=says):
        read_spec(mine, 4)


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_configs_that_are_not_json_objects(mine: Path, text: str) -> None:
    (mine / "adapter_config.json").write_text(text)
    with pytest.raises(ModelError, match=r"adapter_config\.json cannot be read"):
        read_spec(mine, 4)


def test_a_model_folder_is_not_an_adapter(golden: Path, tmp_path: Path) -> None:
    for folder in (golden / "llama", tmp_path, tmp_path / "nothing"):
        with pytest.raises(ModelError, match=r"is not an adapter folder: it has no adapter_config"):
            read_spec(folder, 4)


@pytest.mark.parametrize("layout", ["mlx", "peft"])
@pytest.mark.parametrize("left", [None, 0, 6, 300, -20])
def test_weights_that_are_missing_or_broken(
    golden: Path, folder: Path, layout: str, left: int | None
) -> None:
    parameters = small_policy(golden / "llama").adapter.parameters()
    if layout == "peft":
        file = as_peft(parameters, folder) / "adapter_model.safetensors"
    else:
        write_adapter(folder, parameters, SPEC, {})
        file = folder / "adapters.safetensors"
    if left is None:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(ModelError, match=r"is not an adapter folder|cannot be read"):
        read_parameters(folder)
    if layout == "peft":
        with pytest.raises(ModelError, match=r"is not an adapter folder|cannot be read"):
            read_spec(folder, 4)
