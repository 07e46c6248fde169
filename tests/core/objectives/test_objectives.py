"""Losses and metrics from given log-probabilities, against the formulas in plain Python."""

from __future__ import annotations

import math
from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest

from trainer_core.data.types import Sequence, Source, TokenisedExample
from trainer_core.objectives.dpo import Dpo
from trainer_core.objectives.orpo import Orpo
from trainer_core.objectives.rows import RowLogps
from trainer_core.objectives.sft import Sft

# Prompt of two tokens; log-probabilities of tokens 1.. of chosen and rejected.
CHOSEN = [[-0.4, -1.0, -2.0, -0.3], [-3.0, -0.5]]
REJECTED = [[-0.4, -1.5, -0.2], [-3.0, -2.5, -0.1, -0.7]]


def sequence(length: int) -> Sequence:
    trained = np.arange(length) >= 2
    return Sequence(np.arange(length, dtype=np.int32), trained)


def examples() -> list[TokenisedExample]:
    return [
        TokenisedExample(i, Source("f", i), sequence(len(c) + 1), sequence(len(r) + 1), 2)
        for i, (c, r) in enumerate(zip(CHOSEN, REJECTED, strict=True))
    ]


def scored(objective, reference=None):
    found = []
    for row, c, r in zip(map(objective.score, examples()), CHOSEN, REJECTED, strict=True):
        picked = mx.array([c[p - 1] for p in row.chosen.positions])
        other = None
        if row.rejected is not None:
            other = mx.array([r[p - 1] for p in row.rejected.positions])
        known = reference[row.example.row] if reference else None
        found.append(RowLogps(row, picked, other, known))
    return found


def total(objective, rows):
    return objective.totals([row.row for row in rows])


def log_odds(lw: float, lr: float) -> float:
    return math.log(math.exp(lw) / (1 - math.exp(lw))) - math.log(math.exp(lr) / (1 - math.exp(lr)))


LW = [(-1.0 - 2.0 - 0.3) / 3, -0.5]
LR = [(-1.5 - 0.2) / 2, (-2.5 - 0.1 - 0.7) / 3]
ODDS = [math.log1p(math.exp(-log_odds(w, r))) for w, r in zip(LW, LR, strict=True)]


def test_sft_is_the_token_mean_of_the_responses() -> None:
    rows = scored(Sft())
    loss, metrics = Sft().loss(rows, total(Sft(), rows))
    assert float(loss) == pytest.approx((1.0 + 2.0 + 0.3 + 0.5) / 4, rel=1e-6)
    assert metrics == {}


@pytest.mark.parametrize("weight", [0.0, 0.1, 1.0])
def test_orpo_full_counts_every_chosen_token(weight: float) -> None:
    objective = Orpo(weight, "full")
    rows = scored(objective)
    loss, metrics = objective.loss(rows, total(objective, rows))
    nll = -(sum(CHOSEN[0]) + sum(CHOSEN[1])) / 6
    assert float(metrics["nll"]) == pytest.approx(nll, rel=1e-6)
    assert float(metrics["odds_loss"]) == pytest.approx(sum(ODDS) / 2, rel=1e-5)
    assert float(loss) == pytest.approx(nll + weight * sum(ODDS) / 2, rel=1e-5)
    assert float(metrics["accuracy"]) == 0.5
    wanted = sum(log_odds(w, r) for w, r in zip(LW, LR, strict=True)) / 2
    assert float(metrics["margin"]) == pytest.approx(wanted, rel=1e-5)
    assert float(metrics["logps_chosen"]) == pytest.approx(sum(LW) / 2, rel=1e-6)
    assert float(metrics["logps_rejected"]) == pytest.approx(sum(LR) / 2, rel=1e-6)


def test_the_scope_changes_the_nll_alone() -> None:
    full, response = Orpo(0.1, "full"), Orpo(0.1, "response")
    rows = scored(response)
    loss, metrics = response.loss(rows, total(response, rows))
    assert float(metrics["nll"]) == pytest.approx(-sum(LW) / 2, rel=1e-6)
    assert float(loss) == pytest.approx(-sum(LW) / 2 + 0.1 * sum(ODDS) / 2, rel=1e-5)
    others = scored(full)
    _, wanted = full.loss(others, total(full, others))
    for name in ("odds_loss", "accuracy", "margin", "logps_chosen", "logps_rejected"):
        assert float(metrics[name]) == pytest.approx(float(wanted[name]), rel=1e-6)


def test_dpo_measures_against_the_reference() -> None:
    objective = Dpo(beta=0.3)
    reference = {0: (-3.0, -2.0), 1: (-1.0, -4.0)}
    rows = scored(objective, reference)
    loss, metrics = objective.loss(rows, total(objective, rows))
    deltas = [(-3.3 + 3.0) - (-1.7 + 2.0), (-0.5 + 1.0) - (-3.3 + 4.0)]
    wanted = sum(math.log1p(math.exp(-0.3 * d)) for d in deltas) / 2
    assert float(loss) == pytest.approx(wanted, rel=1e-5)
    assert float(metrics["margin"]) == pytest.approx(0.3 * sum(deltas) / 2, rel=1e-4)
    assert float(metrics["accuracy"]) == 0.0
    assert float(metrics["logps_chosen"]) == pytest.approx(-3.8 / 2, rel=1e-6)


@pytest.mark.parametrize("objective", [Sft(), Orpo(0.4, "full"), Orpo(0.4, "response"), Dpo(0.2)])
def test_shares_of_micro_batches_add_up(objective) -> None:
    reference = {0: (-3.0, -2.0), 1: (-1.0, -4.0)}
    rows = scored(objective, reference)
    totals = total(objective, rows)
    whole, metrics = objective.loss(rows, totals)
    parts = [objective.loss([row], totals) for row in rows]
    assert float(parts[0][0] + parts[1][0]) == pytest.approx(float(whole), rel=1e-6)
    for name, value in metrics.items():
        assert float(parts[0][1][name] + parts[1][1][name]) == pytest.approx(float(value), rel=1e-6)


def test_a_probability_of_one_stays_finite_and_is_counted() -> None:
    objective = Orpo(1.0, "response")
    rows = scored(objective)
    certain = RowLogps(rows[0].row, mx.zeros_like(rows[0].chosen), rows[0].rejected)
    loss, metrics = objective.loss([certain], objective.totals([certain.row]))
    assert math.isfinite(float(loss))
    assert float(metrics["at_ceiling"]) == 1


def test_a_larger_gap_lowers_the_odds_loss() -> None:
    objective = Orpo(1.0, "response")
    row = scored(objective)[0]
    losses = []
    for worse in (0.0, -1.0, -2.0, -3.0):
        moved = RowLogps(row.row, row.chosen, row.rejected + worse)
        losses.append(float(objective.loss([moved], objective.totals([row.row]))[1]["odds_loss"]))
    assert all(later < earlier for earlier, later in pairwise(losses))
