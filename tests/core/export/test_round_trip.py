"""Train, save, load in mlx-lm, same logits: each type of adapter on each precision of the base."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from tests.core.runs import GOLDEN, fresh_config, run
from trainer_core.config import RunConfig
from trainer_core.errors import ExportError, ModelError
from trainer_core.events import Warned
from trainer_core.export.mlx import export_adapter
from trainer_core.model.load import load_model
from trainer_core.model.open_policy import open_with_adapter

BASES = ("float32", "bfloat16", "4", "6", "8")
# Logits are of the order of one. Two ways to the same product in bfloat16 differ by its rounding.
TOLERANCE = {"bfloat16": 0.05}


@pytest.fixture(scope="module", params=BASES)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden llama in another precision."""
    from mlx_lm.utils import quantize_model, save_model

    folder = tmp_path_factory.mktemp("models") / request.param
    shutil.copytree(GOLDEN / "llama", folder)
    loaded = load_model(folder)
    model, config = loaded.model, loaded.config
    if request.param == "bfloat16":
        model.set_dtype(mx.bfloat16)
    elif request.param != "float32":
        model, config = quantize_model(model, config, 32, int(request.param))
    for file in folder.glob("model*.safetensors"):
        file.unlink()
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("weights", ["keep", "float32"])
@pytest.mark.parametrize("kind", ["lora", "dora", "full"])
def test_mlx_lm_gives_the_trained_logits(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, weights: Any
) -> None:
    from mlx_lm.tuner.utils import load_adapters

    given = fresh_config(
        tmp_path / "runs",
        model=str(base),
        weights=weights,
        iters=2,
        learning_rate=1e-2,
    ).model_dump(exclude_unset=True)
    del given["rank"]
    rank = {} if kind == "full" else {"rank": 3}
    config = RunConfig(**given, **rank, fine_tune_type=kind)
    out = tmp_path / "out"
    if kind == "full" and base.name.isdigit():
        with pytest.raises(ModelError, match="a quantised model cannot be fully fine-tuned"):
            run(config)
        return
    ran = run(config)
    if kind == "dora" and base.name == "6":
        assert any("cannot load DoRA on layers of 6 bits" in w.message for w in ran.of(Warned))
        with pytest.raises(ExportError, match="mlx-lm cannot load DoRA"):
            export_adapter(ran.folder.path, out)
        return
    monkeypatch.setattr(
        "trainer_core.export.mlx._weights", lambda _: weights
    )  # as a GPU keeps them
    export_adapter(ran.folder.path, out)
    ids = mx.array([[5, 80, 90, 100, 3, 7]])
    network = load_model(base, weights).model
    plain = np.array(network(ids).astype(mx.float32))
    theirs = np.array(load_adapters(network, str(out))(ids).astype(mx.float32))
    ours = open_with_adapter(base, ran.folder.adapter, weights).model(ids)
    atol = TOLERANCE.get(base.name, 2e-4) if weights == "keep" else 2e-5
    np.testing.assert_allclose(theirs, np.array(ours.astype(mx.float32)), atol=atol)
    assert np.abs(theirs - plain).max() > atol
