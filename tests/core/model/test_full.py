"""Full fine-tuning: its gradients, what it trains and saves, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.core.backward.test_paths import objective_of
from tests.core.engine import random_pairs
from tests.core.runs import GOLDEN, fresh_config, run
from trainer_core.backward.autograd import checkpointed_graph, whole_graph
from trainer_core.config import Method, RunConfig
from trainer_core.errors import ConfigError, ModelError, TrainerError
from trainer_core.events import Step, Warned
from trainer_core.export.mlx import export_adapter
from trainer_core.heads.head import Head
from trainer_core.memory import Lengths, estimate
from trainer_core.model.full import FullWeights, as_a_whole
from trainer_core.model.load import load_model
from trainer_core.model.open_policy import open_with_adapter
from trainer_core.plan import make_plan
from trainer_core.policy import Policy
from trainer_core.run import train

LLAMA = GOLDEN / "llama"


def full_config(output: Path, method: str = "sft", **more: Any) -> RunConfig:
    given = fresh_config(output, method).model_dump(exclude_unset=True)
    del given["rank"]
    return RunConfig(**{**given, "fine_tune_type": "full", **more})


def policy(num_layers: int = -1, family: str = "llama") -> Policy:
    loaded = load_model(GOLDEN / family)
    trained = FullWeights(loaded.model, num_layers)
    stack = as_a_whole(loaded.model).stack
    return Policy(stack, trained, Head("full", stack.project, 1))


@pytest.mark.parametrize("backward", [whole_graph, checkpointed_graph])
@pytest.mark.parametrize("method", ["sft", "dpo", "orpo"])
@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma4"])
def test_gradients_are_those_of_finite_differences(
    family: str, method: Method, backward: Any
) -> None:
    """Along a random direction of all weights; tied and untied heads, embeddings included."""
    made = policy(family=family)
    objective = objective_of(method)
    rows = [objective.score(example) for example in random_pairs(3)]
    reference = {row.example.row: (-20.0, -21.0) for row in rows} if method == "dpo" else None
    totals = objective.totals(rows)
    start = made.adapter.parameters()
    _, _, gradients = backward(made, objective, rows, totals, reference, 1)
    keys = mx.random.split(mx.random.key(9), len(start))
    size = {name: float(mx.sqrt(mx.square(g).mean())) for name, g in gradients.items()}
    # Each array moves in proportion to its gradient's size, so that none hides behind another.
    direction = {
        name: mx.random.normal(array.shape, key=key) * size[name] / max(size.values())
        for key, (name, array) in zip(keys, start.items(), strict=True)
    }

    def loss(step: float) -> float:
        made.adapter.assign({name: a + step * direction[name] for name, a in start.items()})
        value = objective.loss(made.score(rows, reference), totals)[0]
        made.adapter.assign(start)
        return float(value)

    slopes = []
    for step in (2e-4, 1e-4):
        slopes.append((loss(step) - loss(-step)) / (2 * step))
    wanted = (4 * slopes[1] - slopes[0]) / 3  # Richardson: the error in the square is gone
    got = sum(float((gradients[name] * direction[name]).sum()) for name in gradients)
    assert got == pytest.approx(wanted, rel=5e-3, abs=5e-3)


def test_everything_or_the_last_blocks_are_trained() -> None:
    every = set(load_file(LLAMA / "model.safetensors"))
    assert set(policy().adapter.parameters()) == every
    last = set(policy(1).adapter.parameters())
    layers = json.loads((LLAMA / "config.json").read_text())["num_hidden_layers"]
    assert last == {name for name in every if f"layers.{layers - 1}." in name}
    with pytest.raises(ConfigError, match="num_layers is 99"):
        policy(99)


@pytest.mark.parametrize("method", ["sft", "dpo", "orpo"])
def test_a_run_learns_saves_and_loads_in_mlx_lm(tmp_path: Path, method: str) -> None:
    from mlx_lm.tuner.utils import load_adapters

    ran = run(full_config(tmp_path / "runs", method, iters=12, learning_rate=1e-3))
    losses = [step.loss for step in ran.of(Step)]
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    settings = json.loads((ran.folder.adapter / "adapter_config.json").read_text())
    assert settings["fine_tune_type"] == "full"
    out = tmp_path / "out"
    export_adapter(ran.folder.path, out)
    ids = mx.array([[5, 80, 90, 100, 3, 7]])
    network = load_model(LLAMA).model
    plain = np.array(network(ids))
    theirs = np.array(load_adapters(network, str(out))(ids))
    ours = np.array(open_with_adapter(LLAMA, ran.folder.adapter, "keep").model(ids))
    np.testing.assert_allclose(theirs, ours, atol=1e-5)
    assert np.abs(theirs - plain).max() > 1e-3


def test_what_is_trained_is_the_best_and_the_same_on_every_run(tmp_path: Path) -> None:
    one, two = (run(full_config(tmp_path / n, "orpo", batch_size=2)) for n in "ab")
    files = [r.folder.adapter / "adapters.safetensors" for r in (one, two)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert (one.folder.best / "adapters.safetensors").exists()


def test_accumulation_is_the_big_batch(tmp_path: Path) -> None:
    options: dict[str, Any] = {"iters": 2, "valid_fraction": 0}
    big = run(full_config(tmp_path / "a", "orpo", batch_size=4, **options))
    small = run(full_config(tmp_path / "b", "orpo", grad_accumulation_steps=4, **options))
    for one, other in zip(big.of(Step), small.of(Step), strict=True):
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=2e-5)


def test_a_warm_start_goes_on_from_trained_weights(tmp_path: Path) -> None:
    first = run(full_config(tmp_path / "a", iters=4, learning_rate=1e-3))
    config = fresh_config(tmp_path / "b", "sft", warm_start=str(first.folder.adapter), iters=1)
    given = config.model_dump(exclude_unset=True)
    del given["rank"]
    second = run(RunConfig(**given))
    fresh = run(full_config(tmp_path / "c", iters=1))
    assert second.of(Step)[0].loss < fresh.of(Step)[0].loss
    dpo = RunConfig(**{**given, "method": "dpo", "dpo_reference": "base"})
    with pytest.raises(ConfigError, match="dpo_reference = base cannot be used"):
        make_plan(dpo, LLAMA)


@pytest.mark.parametrize(
    ("option", "value"),
    [("head", "fused"), ("segment_size", 1), ("prefix_sharing", "on")],
)
def test_ways_that_hold_the_head_constant_are_refused(
    tmp_path: Path, option: str, value: Any
) -> None:
    with pytest.raises(TrainerError, match=f"{option} = {value} cannot be used.*all weights"):
        run(full_config(tmp_path, "orpo", **{option: value}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("weights", ["auto", "float32"])
def test_a_quantised_model_is_refused(tmp_path: Path, weights: str) -> None:
    from mlx_lm.utils import quantize_model, save_model

    model = tmp_path / "model"
    shutil.copytree(LLAMA, model)
    loaded = load_model(LLAMA)
    network, config = quantize_model(loaded.model, loaded.config, 32, 4)
    save_model(model, network)
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="a quantised model cannot be fully fine-tuned"):
        train(full_config(tmp_path / "runs", model=str(model), weights=weights), lambda _: None)
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_half_weights_are_widened_or_warned_of(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(LLAMA, model)
    loaded = load_model(LLAMA)
    loaded.model.set_dtype(mx.bfloat16)
    loaded.model.save_weights(str(model / "model.safetensors"))
    wide = run(full_config(tmp_path / "a", model=str(model), iters=1, weights="auto"))
    assert not [w for w in wide.of(Warned) if w.code == "half_weights"]
    arrays = mx.load(str(wide.folder.adapter / "adapters.safetensors"))
    assert {array.dtype for array in arrays.values()} == {mx.float32}  # type: ignore[union-attr]
    half = run(full_config(tmp_path / "b", model=str(model), iters=1, weights="keep"))
    assert [w.message for w in half.of(Warned) if w.code == "half_weights"]


def test_the_estimate_counts_moments_and_gradients_of_all_weights() -> None:
    config = full_config(Path("runs"), segment_size=0, head="full")
    found = estimate(LLAMA, config, [Lengths(40)])
    elements = sum(array.size for array in load_file(LLAMA / "model.safetensors").values())
    assert found.adapter_parameters == elements
    parts = found.parts("float32")
    assert "adapter" not in parts
    assert parts["optimiser"] == 2 * 4 * elements
    assert parts["gradients"] >= 4 * elements
