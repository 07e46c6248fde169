"""An adapter on a model: a fresh one, a warm start, and all the ways in which they do not fit."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from tests.core.engine import golden_config, small_policy
from trainer_core.config import RunConfig
from trainer_core.errors import ConfigError, ModelError
from trainer_core.model.adapter_files import AdapterSpec, read_parameters, read_spec, write_adapter
from trainer_core.model.open_policy import open_for_training, open_with_adapter
from trainer_core.plan import make_plan

IDS = mx.array([[5, 80, 90, 100, 3, 7]])


def adapter(golden: Path, folder: Path, change: object = None, **spec: object) -> Path:
    """An adapter of the golden llama, its arrays changed before they are written."""
    parameters = small_policy(golden / "llama").adapter.parameters()
    if callable(change):
        parameters = change(parameters)
    folder.mkdir()
    own = read_spec(golden / "llama" / "init_adapter", 4)
    values = {name: getattr(own, name) for name in AdapterSpec.__slots__} | spec
    write_adapter(folder, parameters, AdapterSpec(**values), {})
    return folder


def plain(golden: Path, **more: object) -> RunConfig:
    values = {"model": str(golden / "llama"), "data": "d", "weights": "keep", **more}
    return RunConfig(**values)  # type: ignore[arg-type]


def test_a_warm_start_has_the_adapters_shape_and_numbers(golden: Path, tmp_path: Path) -> None:
    folder = adapter(golden, tmp_path / "warm", scale=0.5)
    plan = make_plan(plain(golden, warm_start=str(folder)), golden / "llama")
    opened = open_for_training(golden / "llama", plan.config)
    assert opened.spec == read_spec(folder, 4)
    assert (plan.config.rank, plan.config.scale, plan.config.num_layers) == (4, 0.5, 4)
    wanted = read_parameters(folder)
    assert all(mx.array_equal(a, wanted[n]) for n, a in opened.adapter.parameters().items())
    used = open_with_adapter(golden / "llama", folder, "keep")
    assert mx.array_equal(opened.model(IDS), used.model(IDS))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rank", 8),
        ("scale", 1.0),
        ("num_layers", 2),
        ("target_modules", ["q_proj"]),
    ],
)
def test_an_explicit_difference_to_the_adapter_is_an_error(
    golden: Path, tmp_path: Path, name: str, value: object
) -> None:
    folder = adapter(golden, tmp_path / "warm")
    with pytest.raises(ConfigError, match=f"{name} is .*but the adapter in .* has") as caught:
        make_plan(plain(golden, warm_start=str(folder), **{name: value}), golden / "llama")
    assert caught.value.key == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rank", 4),
        ("scale", 2.0),
        ("num_layers", 4),
        ("num_layers", -1),
        ("target_modules", "auto"),
        (
            "target_modules",
            ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "gate_proj", "down_proj"],
        ),
    ],
)
def test_saying_the_same_as_the_adapter_is_fine(
    golden: Path, tmp_path: Path, name: str, value: object
) -> None:
    folder = adapter(golden, tmp_path / "warm")
    config = plain(golden, warm_start=str(folder), **{name: value})
    assert make_plan(config, golden / "llama").config.rank == 4


def without_one(parameters: dict[str, mx.array]) -> dict[str, mx.array]:
    parameters.pop("model.layers.2.mlp.up_proj.lora_b")
    return parameters


def with_another(parameters: dict[str, mx.array]) -> dict[str, mx.array]:
    return {**parameters, "model.layers.9.mlp.up_proj.lora_b": mx.zeros((4, 4))}


def of_rank_two(parameters: dict[str, mx.array]) -> dict[str, mx.array]:
    return {n: a[:, :2] if n.endswith("a") else a[:2] for n, a in parameters.items()}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (without_one, "it lacks model.layers.2.mlp.up_proj.lora_b"),
        (with_another, "the model has no model.layers.9.mlp.up_proj.lora_b"),
        (of_rank_two, r"down_proj.lora_a is \(176, 2\), not \(176, 4\)"),
    ],
)
def test_arrays_that_do_not_fit(golden: Path, tmp_path: Path, change: object, says: str) -> None:
    folder = adapter(golden, tmp_path / "warm", change)
    with pytest.raises(ModelError, match=f"does not fit this model: .*{says}"):
        open_with_adapter(golden / "llama", folder, "keep")
    plan = make_plan(plain(golden, warm_start=str(folder)), golden / "llama")
    with pytest.raises(ModelError, match=f"does not fit this model: .*{says}"):
        open_for_training(golden / "llama", plan.config)


@pytest.mark.parametrize("family", ["gemma4"])
def test_the_adapter_of_another_model(golden: Path, tmp_path: Path, family: str) -> None:
    folder = adapter(golden, tmp_path / "warm")
    with pytest.raises(ModelError, match="does not fit this model"):
        open_with_adapter(golden / family, folder, "keep")
    config = golden_config(golden / family, "sft", tmp_path, warm_start=str(folder))
    plan = make_plan(config, golden / family)
    with pytest.raises(ModelError, match="does not fit this model"):
        open_for_training(golden / family, plan.config)


def test_a_warm_start_is_not_told_of_layers_that_it_did_not_choose(golden: Path) -> None:
    # gemma 4's last layers share keys and values, so they have no k_proj and v_proj.
    folder = golden / "gemma4"
    config = golden_config(folder, "sft", Path("unused"))
    assert open_for_training(folder, make_plan(config, folder).config).warnings == []
    named = RunConfig(model=str(folder), data="d", weights="keep", target_modules=["k_proj"])
    (warning,) = open_for_training(folder, named).warnings
    assert "k_proj is in" in warning.message
