"""rsLoRA against PEFT's numbers (tests/golden/rslora), and through a run to mlx-lm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from tests.core.runs import fresh_config, run
from trainer_core.export.mlx import export_adapter
from trainer_core.model.load import load_model
from trainer_core.model.lora import LoRALinear, multiplier
from trainer_core.model.open_policy import open_with_adapter

VALUES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "golden" / "rslora" / "values.json").read_text()
)


def array(name: str) -> mx.array:
    return mx.array(np.array(VALUES[name], dtype=np.float32))


def test_the_multiplier_is_pefts() -> None:
    assert multiplier(VALUES["scale"], VALUES["rank"], VALUES["rank"]) == pytest.approx(
        VALUES["scaling"]
    )


def test_trains_as_peft_does() -> None:
    base = nn.Linear(10, 6, bias=False)
    base.weight = array("weight")
    scale = multiplier(VALUES["scale"], VALUES["rank"], VALUES["rank"])
    layer = LoRALinear(base, VALUES["rank"], scale, mx.random.key(0))
    x, wanted = array("x"), array("wanted")
    values = {"a": array("a").T, "b": layer.lora_b}

    def loss(values: dict[str, mx.array]) -> mx.array:
        layer.lora_a, layer.lora_b = values["a"], values["b"]
        return mx.square(layer(x) - wanted).sum()

    for told in VALUES["losses"]:
        value, slopes = mx.value_and_grad(loss)(values)
        assert float(value) == pytest.approx(told, rel=1e-5)
        values = {name: values[name] - VALUES["rate"] * slopes[name] for name in values}
    layer.lora_a, layer.lora_b = values["a"], values["b"]
    np.testing.assert_allclose(np.array(values["a"].T), VALUES["trained_a"], atol=1e-5)
    np.testing.assert_allclose(np.array(values["b"].T), VALUES["trained_b"], atol=1e-5)
    np.testing.assert_allclose(np.array(layer(x)), VALUES["output"], atol=1e-4)


def test_mlx_lm_gets_the_multiplier_that_was_trained(tmp_path: Path) -> None:
    from mlx_lm.tuner.utils import load_adapters

    config = fresh_config(tmp_path / "runs", rank=9, scale=1.5, rs_lora=True, iters=2)
    ran = run(config)
    export_adapter(ran.folder.path, tmp_path / "out")

    stored = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert stored["lora_parameters"]["scale"] == pytest.approx(4.5)  # 1.5 * 9 / sqrt(9)
    ids = mx.array([[5, 80, 90, 100, 3, 7]])
    folder = Path(config.model)
    base = load_model(folder).model
    plain = base(ids)
    theirs = load_adapters(base, str(tmp_path / "out"))(ids)
    ours = open_with_adapter(folder, ran.folder.adapter, "keep").model(ids)
    np.testing.assert_allclose(np.array(theirs), np.array(ours), atol=1e-5)
    assert not mx.allclose(theirs, plain, atol=1e-4)
