"""Every preference loss against TRL's trainers, and against its formula where TRL has none."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from tests.conftest import GOLDEN
from tests.core.engine import golden_config
from trainer_core.config import RunConfig
from trainer_core.data.types import Sequence, Source, TokenisedExample
from trainer_core.events import Event, Step
from trainer_core.objectives.objective import make_objective
from trainer_core.objectives.pairs import score_answers
from trainer_core.objectives.rows import RowLogps
from trainer_core.run import train

TRL = json.loads((GOLDEN / "llama" / "golden_preference_losses.json").read_text())
PATHS: list[dict[str, Any]] = [
    {"head": "full", "segment_size": 0, "prefix_sharing": "off"},
    {"head": "flash", "segment_size": 2, "prefix_sharing": "on"},
]


@pytest.mark.parametrize("path", PATHS, ids=["whole graph", "segments"])
@pytest.mark.parametrize("name", TRL)
def test_matches_trl(golden: Path, tmp_path: Path, name: str, path: dict[str, Any]) -> None:
    config = golden_config(golden / "llama", "dpo", tmp_path, **TRL[name]["options"], **path)
    events: list[Event] = []

    train(config, events.append)

    steps = [event for event in events if isinstance(event, Step)]
    assert len(steps) == 12
    for got, wanted in zip(steps, TRL[name]["steps"], strict=True):
        assert got.loss == pytest.approx(wanted["loss"], rel=1e-4)
        assert got.grad_norm == pytest.approx(wanted["grad_norm"], rel=1e-4)
        if "nll_loss" in wanted and name != "simpo":
            assert got.nll == pytest.approx(wanted["nll_loss"], rel=1e-5)
        if wanted["rewards/margins"] != 0:  # against itself, zero but for rounding
            assert got.margin == pytest.approx(wanted["rewards/margins"], rel=1e-3, abs=1e-5)
            assert got.accuracy == wanted["rewards/accuracies"]


def test_only_losses_with_a_reference_score_one(golden: Path, tmp_path: Path) -> None:
    for name in ("ipo", "simpo"):
        config = golden_config(
            golden / "llama", "dpo", tmp_path / name, preference_loss=name, iters=1
        )
        events: list[Event] = []
        finished = train(config, events.append)
        assert (Path(finished.run) / "reference.safetensors").exists() == (name == "ipo")


def rows() -> list[RowLogps]:
    """Two pairs with prompts of two tokens."""
    chosen, rejected = [[-1.0, -2.0, -0.3], [-0.5]], [[-1.5, -0.2], [-2.5, -0.1, -0.7]]
    reference = [(-3.0, -2.0), (-1.0, -4.0)]
    found = []
    for n, (c, r) in enumerate(zip(chosen, rejected, strict=True)):
        sequences = [
            Sequence(np.arange(2 + len(s), dtype=np.int32), np.arange(2 + len(s)) >= 2)
            for s in (c, r)
        ]
        example = TokenisedExample(n, Source("f", n), *sequences, 2)
        found.append(RowLogps(score_answers(example), mx.array(c), mx.array(r), reference[n]))
    return found


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_conservative_dpo_weighs_both_labels() -> None:
    """Mitchell 2023: -(1 - e) log sigmoid(beta delta) - e log sigmoid(-beta delta)."""
    config = RunConfig(model="m", data="d", method="dpo", dpo_beta=0.3, label_smoothing=0.2)
    objective = make_objective(config)
    given = rows()
    loss, _ = objective.loss(given, objective.totals([row.row for row in given]))
    deltas = [(-3.3 + 3.0) - (-1.7 + 2.0), (-0.5 + 1.0) - (-3.3 + 4.0)]
    terms = [-0.8 * math.log(sigmoid(0.3 * d)) - 0.2 * math.log(sigmoid(-0.3 * d)) for d in deltas]
    assert float(loss) == pytest.approx(sum(terms) / 2, rel=1e-6)


@pytest.mark.parametrize("name", ["sigmoid", "robust", "hinge", "ipo", "cpo", "simpo"])
def test_shares_of_micro_batches_add_up(name: str) -> None:
    config = RunConfig.model_validate(
        {"model": "m", "data": "d", "method": "dpo", "preference_loss": name}
    )
    objective = make_objective(config)
    given = rows()
    totals = objective.totals([row.row for row in given])
    whole, metrics = objective.loss(given, totals)
    parts = [objective.loss([row], totals) for row in given]
    assert float(parts[0][0] + parts[1][0]) == pytest.approx(float(whole), rel=1e-6)
    for key, value in metrics.items():
        assert float(parts[0][1][key] + parts[1][1][key]) == pytest.approx(float(value), rel=1e-6)
