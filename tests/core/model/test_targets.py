"""Which layers get an adapter, on models of mlx-lm's own classes."""

from __future__ import annotations

import mlx.nn as nn
import pytest

from tests.core.tiny import tiny_model
from trainer_core.errors import ConfigError
from trainer_core.model.lora import attach
from trainer_core.model.targets import blocks_of, choose

ATTENTION = ["self_attn.k_proj", "self_attn.o_proj", "self_attn.q_proj", "self_attn.v_proj"]
MLP = ["mlp.down_proj", "mlp.gate_proj", "mlp.up_proj"]


@pytest.fixture
def llama() -> nn.Module:
    return tiny_model("llama")


def test_auto_takes_every_linear_of_every_block(llama: nn.Module) -> None:
    found = choose(llama, "auto", -1)
    assert found.keys == sorted(MLP + ATTENTION)
    assert found.num_layers == 3
    assert found.paths == [f"model.layers.{n}.{key}" for n in range(3) for key in found.keys]
    assert found.warnings == []


@pytest.mark.parametrize("name", ["q_proj", "self_attn.q_proj"])
def test_names_are_short_or_long(llama: nn.Module, name: str) -> None:
    found = choose(llama, [name], -1)
    assert found.keys == ["self_attn.q_proj"]
    assert len(found.paths) == 3


def test_num_layers_takes_the_last_blocks(llama: nn.Module) -> None:
    found = choose(llama, ["q_proj", "down_proj"], 1)
    assert found.paths == ["model.layers.2.mlp.down_proj", "model.layers.2.self_attn.q_proj"]
    assert found.num_layers == 1


def test_part_of_a_name_matches_nothing(llama: nn.Module) -> None:
    # q_proj must not be found by "proj" or "_proj", nor self_attn.q_proj by "attn.q_proj".
    for name in ("proj", "_proj", "attn.q_proj", "self_attn", "mlp"):
        with pytest.raises(ConfigError, match="matches no linear layer"):
            choose(llama, [name], -1)


def test_an_unknown_name_is_told_the_nearest(llama: nn.Module) -> None:
    with pytest.raises(ConfigError) as caught:
        choose(llama, ["q_proj", "gate_porj"], -1)
    assert "'gate_porj'" in str(caught.value)
    assert "id you mean gate_proj?" in str(caught.value)
    assert "down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj" in str(caught.value)
    assert caught.value.key == "target_modules"


def test_more_layers_than_there_are_is_an_error(llama: nn.Module) -> None:
    with pytest.raises(ConfigError, match=r"num_layers is 4: the model has 3 layers.*1 to 3"):
        choose(llama, "auto", 4)


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        ("auto", ["mlp.down_proj", "mlp.gate_up_proj", "self_attn.o_proj", "self_attn.qkv_proj"]),
        (["q_proj", "v_proj"], ["self_attn.qkv_proj"]),
        (["self_attn.k_proj"], ["self_attn.qkv_proj"]),
        (["qkv_proj"], ["self_attn.qkv_proj"]),
        (["gate_proj"], ["mlp.gate_up_proj"]),
    ],
)
def test_a_fused_layer_is_found_by_its_parts(asked: str | list[str], keys: list[str]) -> None:
    assert choose(tiny_model("phi3"), asked, -1).keys == keys


@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_routers_and_experts_are_left_alone(family: str) -> None:
    model = tiny_model(family)
    modules = dict(model.named_modules())
    routers = [path for path in modules if path.endswith(".gate")]
    assert routers  # what there is to be left alone
    found = choose(model, "auto", -1)
    assert not set(routers) & set(found.paths)
    assert set(ATTENTION) <= set(found.keys)
    assert any("experts" in warning for warning in found.warnings)
    assert all(isinstance(modules[path], nn.Linear) for path in found.paths)


def test_a_layer_that_only_some_blocks_have_is_told() -> None:
    # The first block of this model is dense, the others have experts.
    found = choose(tiny_model("qwen3_moe"), ["gate_proj"], -1)
    assert found.paths == ["model.layers.0.mlp.gate_proj"]
    assert found.warnings == ["gate_proj is in 1 of the 3 layers"]


def test_nested_and_quantised_models_have_their_own_paths() -> None:
    model = tiny_model("mistral3")
    nn.quantize(model, group_size=32, bits=4, class_predicate=lambda path, _: "q_proj" in path)
    found = choose(model, ["q_proj"], -1)
    modules = dict(model.named_modules())
    assert len(found.paths) == len(blocks_of(model)) == 3
    assert all(isinstance(modules[path], nn.QuantizedLinear) for path in found.paths)
    assert attach(model, found.paths, rank=2, scale=1.0).layers.keys() == set(found.paths)
