"""DPO's reference, and losses of first steps from a warm start, against closed forms in float64."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.core.runs import (
    GOLDEN,
    rows_of,
    run,
    small_config,
    token_logps,
    warm_adapter,
)
from trainer_core.control import Control
from trainer_core.data.types import Sequence, TokenisedExample
from trainer_core.events import Event, Stage, Step, Validation
from trainer_core.model.load import load_model
from trainer_core.model.open_policy import open_with_adapter


def response_logps(network: object, sequence: Sequence) -> np.ndarray:
    return token_logps(network, sequence.ids)[sequence.trained[1:]]


def sums(network: object, row: TokenisedExample) -> tuple[float, float]:
    assert row.rejected is not None
    return (
        response_logps(network, row.chosen).sum(),
        response_logps(network, row.rejected).sum(),
    )


@pytest.mark.parametrize("prefix_sharing", ["off", "on"])
def test_from_the_start_the_first_loss_is_ln_2(tmp_path: Path, prefix_sharing: str) -> None:
    warm = warm_adapter(tmp_path / "warm")
    config = small_config(
        tmp_path, "dpo", iters=1, warm_start=str(warm), prefix_sharing=prefix_sharing
    )
    ran = run(config)
    (step,) = ran.of(Step)
    assert step.loss == pytest.approx(math.log(2), abs=2e-6)
    assert step.margin == pytest.approx(0, abs=5e-6)
    assert ran.of(Validation)[0].loss == pytest.approx(math.log(2), abs=2e-6)


def test_from_the_base_the_first_loss_is_the_closed_form(tmp_path: Path) -> None:
    warm = warm_adapter(tmp_path / "warm")
    config = small_config(
        tmp_path,
        "dpo",
        iters=1,
        batch_size=3,
        warm_start=str(warm),
        dpo_reference="base",
        dpo_beta=0.7,
    )
    data = rows_of(config)
    base = load_model(GOLDEN / "llama").model
    policy = open_with_adapter(GOLDEN / "llama", warm, "keep").model
    rewards = []
    for row in data.train[:3]:
        (pi_w, pi_r), (ref_w, ref_r) = sums(policy, row), sums(base, row)
        rewards.append(0.7 * ((pi_w - ref_w) - (pi_r - ref_r)))
    wanted = np.mean(np.log1p(np.exp(-np.array(rewards))))
    assert abs(wanted - math.log(2)) > 0.01  # else this could not tell the two references apart

    ran = run(config)

    (step,) = ran.of(Step)
    assert step.loss == pytest.approx(wanted, rel=1e-5)
    assert step.margin == pytest.approx(np.mean(rewards), rel=1e-4)
    assert step.accuracy == pytest.approx(np.mean(np.array(rewards) > 0))


def test_the_stored_reference_has_every_row(tmp_path: Path) -> None:
    config = small_config(tmp_path, "dpo", iters=1)
    data = rows_of(config)
    base = load_model(GOLDEN / "llama").model  # the golden adapter starts with B = 0
    stored = load_file(run(config).folder.reference)
    for name, rows in (("train", data.train), ("valid", data.valid)):
        found = dict(zip(stored[f"{name}.rows"].tolist(), stored[f"{name}.sums"], strict=True))
        assert set(found) == {row.row for row in rows}
        for row in rows:
            np.testing.assert_allclose(found[row.row], sums(base, row), rtol=1e-5)


def test_a_stop_while_the_reference_is_scored_ends_the_run(tmp_path: Path) -> None:
    control = Control()

    def stop(event: Event) -> None:
        if isinstance(event, Stage) and event.stage == "reference":
            control.stop()

    ran = run(small_config(tmp_path, "dpo"), control, stop)
    assert ran.finished is not None
    assert (ran.finished.reason, ran.finished.steps) == ("stopped", 0)
    assert len([e for e in ran.of(Stage) if e.stage == "reference"]) == 1
    assert ran.of(Step) == ran.of(Validation) == []
    assert not ran.folder.reference.exists()
    open_with_adapter(GOLDEN / "llama", ran.folder.adapter, "keep")


@pytest.mark.parametrize("scope", ["full", "response"])
def test_orpos_first_loss_is_the_closed_form(tmp_path: Path, scope: str) -> None:
    warm = warm_adapter(tmp_path / "warm")
    config = small_config(
        tmp_path,
        "orpo",
        iters=1,
        batch_size=2,
        grad_accumulation_steps=2,
        warm_start=str(warm),
        sft_scope=scope,
        orpo_lambda=0.6,
    )
    rows = rows_of(config).train[:4]
    policy = open_with_adapter(GOLDEN / "llama", warm, "keep").model
    odds, means, every = [], [], []
    for row in rows:
        assert row.rejected is not None
        lw = response_logps(policy, row.chosen).mean()
        lr = response_logps(policy, row.rejected).mean()
        log_odds = (lw - np.log(1 - np.exp(lw))) - (lr - np.log(1 - np.exp(lr)))
        odds.append(np.log1p(np.exp(-log_odds)))
        means.append(lw)
        every.append(token_logps(policy, row.chosen.ids))
    nll = -np.concatenate(every).mean() if scope == "full" else -np.mean(means)

    (step,) = run(config).of(Step)

    assert step.nll == pytest.approx(nll, rel=1e-5)
    assert step.odds_loss == pytest.approx(np.mean(odds), rel=1e-5)
    assert step.loss == pytest.approx(nll + 0.6 * np.mean(odds), rel=1e-5)
    assert step.logps_chosen == pytest.approx(np.mean(means), rel=1e-5)


@pytest.mark.parametrize("family", ["gemma3", "gemma4"])
def test_sfts_first_loss_is_the_closed_form(tmp_path: Path, family: str) -> None:
    warm = warm_adapter(tmp_path / "warm", family)
    config = small_config(tmp_path, "sft", family, iters=1, batch_size=3, warm_start=str(warm))
    policy = open_with_adapter(GOLDEN / family, warm, "keep").model
    logps = [response_logps(policy, row.chosen) for row in rows_of(config).train[:3]]
    (step,) = run(config).of(Step)
    assert step.loss == pytest.approx(-np.concatenate(logps).mean(), rel=1e-5)
