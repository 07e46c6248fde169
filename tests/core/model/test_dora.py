"""DoRA against PEFT's numbers, its formula in float64, and mlx-lm's loader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.core.backward.test_paths import check, one_step
from tests.core.engine import golden_config, golden_steps
from tests.core.runs import GOLDEN, fresh_config, run
from tests.core.test_golden import adapter_distance, as_json, check_steps
from trainer_core.backward.autograd import whole_graph
from trainer_core.backward.compiled import CompiledRanges
from trainer_core.backward.compiled_graph import CompiledGraph
from trainer_core.backward.segmented import Segmented
from trainer_core.config import Method
from trainer_core.errors import ConfigError
from trainer_core.events import Step
from trainer_core.export.mlx import export_adapter
from trainer_core.heads.head import Head
from trainer_core.memory import estimate
from trainer_core.model.adapter_files import read_parameters, read_spec
from trainer_core.model.dora import DoRALinear
from trainer_core.model.dropout import DropoutPlan, DropoutSwitch, RowKey, drop
from trainer_core.model.load import load_model
from trainer_core.model.lora import attach
from trainer_core.model.open_policy import open_for_training, open_with_adapter
from trainer_core.model.open_stack import open_stack
from trainer_core.model.targets import choose
from trainer_core.plan import make_plan
from trainer_core.policy import Policy

LLAMA = GOLDEN / "llama"
PATHS: list[dict[str, Any]] = [
    {"head": "full", "segment_size": 0, "prefix_sharing": "off"},
    {"head": "fused", "segment_size": 1, "prefix_sharing": "on"},
    {"head": "flash", "segment_size": 2, "prefix_sharing": "off"},
]


def lengths(path: str, weights: dict[str, np.ndarray]) -> np.ndarray:
    return np.sqrt(np.square(weights[f"{path}.weight"].astype(np.float64)).sum(axis=1))


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """The golden init adapter as DoRA: with the lengths of the model's rows."""
    folder = tmp_path / "start"
    folder.mkdir()
    arrays = load_file(LLAMA / "init_adapter" / "adapters.safetensors")
    weights = load_file(LLAMA / "model.safetensors")
    for path in {name.rsplit(".", 1)[0] for name in arrays}:
        arrays[f"{path}.m"] = lengths(path, weights).astype(np.float32)
    save_file(arrays, folder / "adapters.safetensors")
    config = json.loads((LLAMA / "init_adapter" / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**config, "fine_tune_type": "dora"}))
    return folder


@pytest.mark.parametrize("path", PATHS, ids=["whole", "segments of 1", "segments of 2"])
@pytest.mark.parametrize("method", ["dpo", "orpo"])
def test_matches_peft(start: Path, tmp_path: Path, method: str, path: dict[str, Any]) -> None:
    config = golden_config(LLAMA, method, tmp_path / "runs", warm_start=str(start), **path)
    ran = run(config)
    steps = [as_json(step) for step in ran.of(Step)]
    check_steps(steps, golden_steps(LLAMA, f"dora_{method}"), method)
    assert ran.finished is not None
    assert adapter_distance(Path(ran.finished.adapter), LLAMA / f"final_dora_{method}") < 2e-4


def layer(
    inputs: int = 64, outputs: int = 32, bits: int | None = None, *, bias: bool = False, **more: Any
) -> DoRALinear:
    mx.random.seed(3)
    linear: Any = nn.Linear(inputs, outputs, bias=bias)
    if bits:
        linear = nn.QuantizedLinear.from_linear(linear, 32, bits)
    made = DoRALinear(linear, 4, 1.5, mx.random.key(0), **more)
    made.lora_b = 0.3 * mx.random.normal((4, outputs), key=mx.random.key(1))
    made.m = made.m * (1 + 0.1 * mx.random.normal((outputs,), key=mx.random.key(2)))
    return made


def dense(made: DoRALinear) -> np.ndarray:
    linear: Any = made.linear
    if isinstance(linear, nn.QuantizedLinear):
        return np.array(
            mx.dequantize(linear.weight, linear.scales, linear.biases, 32, linear.bits), np.float64
        )
    return np.array(linear.weight, np.float64)


def formula(
    w: np.ndarray, a: np.ndarray, b: np.ndarray, m: np.ndarray, scale: float, norm: np.ndarray
) -> np.ndarray:
    """m (W + scale B A) / norm, [outputs, inputs]."""
    return (m / norm)[:, None] * (w + scale * (a @ b).T)


def norms(w: np.ndarray, a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray:
    return np.sqrt(np.square(w + scale * (a @ b).T).sum(axis=1))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("bits", [None, 3, 4, 6, 8])
def test_computes_the_papers_formula(bits: int | None, bias: bool) -> None:
    made = layer(bits=bits, bias=bias)
    x = mx.random.normal((2, 5, 64), key=mx.random.key(5))
    w, a, b, m = dense(made), *(np.array(made[n], np.float64) for n in ("lora_a", "lora_b", "m"))
    wanted = np.array(x, np.float64) @ formula(w, a, b, m, 1.5, norms(w, a, b, 1.5)).T
    if bias:
        wanted = wanted + np.array(made.linear.bias)
    np.testing.assert_allclose(np.array(made(x)), wanted, rtol=1e-4, atol=1e-4)


def test_changes_nothing_at_first() -> None:
    linear = nn.Linear(64, 32)
    made = DoRALinear(linear, 4, 1.5, mx.random.key(0))
    x = mx.random.normal((3, 64))
    np.testing.assert_allclose(np.array(made(x)), np.array(linear(x)), rtol=1e-5, atol=1e-5)


def test_gradients_take_the_length_for_constant() -> None:
    """Finite differences of the formula in float64 with the norm held."""
    made = layer()
    x = mx.random.normal((7, 64), key=mx.random.key(6))
    pull = mx.random.normal((7, 32), key=mx.random.key(7))
    names = ("lora_a", "lora_b", "m")

    def loss(arrays: list[mx.array]) -> mx.array:
        for name, array in zip(names, arrays, strict=True):
            setattr(made, name, array)
        return (made(x) * pull).sum()

    start = [made[name] for name in names]
    found = mx.grad(loss)(start)
    w = dense(made)
    values = [np.array(array, np.float64) for array in start]
    held = norms(w, values[0], values[1], 1.5)

    def plain(a: np.ndarray, b: np.ndarray, m: np.ndarray) -> float:
        y = np.array(x, np.float64) @ formula(w, a, b, m, 1.5, held).T
        return float((y * np.array(pull, np.float64)).sum())

    for place, gradient in enumerate(found):
        direction = np.random.default_rng(place).normal(size=gradient.shape)
        ends = []
        for step in (1e-6, -1e-6):
            moved = list(values)
            moved[place] = moved[place] + step * direction
            ends.append(plain(*moved))
        wanted = (ends[0] - ends[1]) / 2e-6
        assert float((np.array(gradient) * direction).sum()) == pytest.approx(wanted, rel=1e-4)


def test_dropout_spares_the_base_models_output() -> None:
    """PEFT: base(x) + (m/n - 1) W d(x) + m/n scale B A d(x)."""
    switch = DropoutSwitch()
    made = layer(dropout=0.5, switch=switch, index=3)
    x = mx.random.normal((1, 6, 64), key=mx.random.key(8))
    switch.plan = DropoutPlan(0, 1, (RowKey(0, 0, 6),))
    seen = np.array(drop(x, 0.5, switch.plan, 3), np.float64)[0]
    w, a, b, m = dense(made), *(np.array(made[n], np.float64) for n in ("lora_a", "lora_b", "m"))
    share = m / norms(w, a, b, 1.5)
    wanted = np.array(x, np.float64)[0] @ w.T + (share - 1) * (seen @ w.T)
    wanted += share * 1.5 * (seen @ a @ b)
    np.testing.assert_allclose(np.array(made(x))[0], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", ["sft", "dpo", "orpo"])
def test_compiled_layers_and_packed_rows_are_exact(method: Method) -> None:
    def policy(**more: Any) -> Policy:
        loaded = load_model(LLAMA)
        paths = choose(loaded.model, "auto", -1).paths
        adapter = attach(loaded.model, paths, rank=3, scale=1.0, layer_type=DoRALinear)
        for number, made in enumerate(adapter.layers.values()):
            made.lora_b = 0.05 * mx.random.normal(made.lora_b.shape, key=mx.random.key(number))
        stack = open_stack(loaded.model, "llama").stack
        return Policy(stack, adapter, Head("fused", stack.project, 7), **more)

    wanted = one_step(policy(), whole_graph, method)
    check(one_step(policy(share_prefix=True), Segmented(1, CompiledRanges()), method), wanted)
    if method == "sft":
        check(one_step(policy(), CompiledGraph(), method), wanted)
        check(one_step(policy(pack_tokens=1000, packs=True), Segmented(2), method), wanted)


def test_export_is_what_mlx_lm_loads(tmp_path: Path) -> None:
    from mlx_lm.tuner.utils import load_adapters

    ran = run(fresh_config(tmp_path / "runs", fine_tune_type="dora", rank=3, learning_rate=1e-2))
    report = export_adapter(ran.folder.path, tmp_path / "out")
    assert report.logits_difference < 1e-4
    ids = mx.array([[5, 80, 90, 100, 3, 7]])
    base = load_model(LLAMA, "keep").model
    plain = base(ids)
    theirs = load_adapters(base, str(tmp_path / "out"))(ids)
    assert not mx.allclose(theirs, plain, atol=1e-4)
    ours = open_with_adapter(LLAMA, ran.folder.adapter, "keep").model(ids)
    np.testing.assert_allclose(np.array(theirs), np.array(ours), atol=1e-5)


def test_a_warm_start_keeps_its_type(start: Path, tmp_path: Path) -> None:
    config = fresh_config(tmp_path, warm_start=str(start), rank=4)
    assert make_plan(config, LLAMA).config.fine_tune_type == "dora"
    with pytest.raises(ConfigError, match=r"fine_tune_type is dora, but the adapter"):
        make_plan(
            fresh_config(
                tmp_path, warm_start=str(LLAMA / "init_adapter"), rank=4, fine_tune_type="dora"
            ),
            LLAMA,
        )


def test_a_peft_folder_is_read(start: Path, tmp_path: Path) -> None:
    arrays = load_file(start / "adapters.safetensors")
    leaves = {"lora_a": "lora_A.weight", "lora_b": "lora_B.weight", "m": "lora_magnitude_vector"}
    theirs = {}
    for name, array in arrays.items():
        path, leaf = name.rsplit(".", 1)
        theirs[f"base_model.model.{path}.{leaves[leaf]}"] = np.ascontiguousarray(array.T)
    folder = tmp_path / "peft"
    folder.mkdir()
    save_file(theirs, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_dora": True}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    spec = read_spec(folder, 2)
    assert (spec.kind, spec.rank, spec.scale) == ("dora", 4, 2.0)
    for name, array in read_parameters(folder).items():
        np.testing.assert_array_equal(np.array(array), arrays[name])


def test_the_estimate_counts_what_is_trained(tmp_path: Path) -> None:
    config = fresh_config(tmp_path, fine_tune_type="dora", rank=3)
    opened = open_for_training(LLAMA, make_plan(config, LLAMA).config)
    trained = sum(array.size for array in opened.adapter.parameters().values())
    assert estimate(LLAMA, config).adapter_parameters == trained
