"""The running figures of a loop: which validation was best, patience, throughput, metrics."""

from __future__ import annotations

import math

import pytest

from trainer_core.progress import BestSoFar, Rates, StepMetrics


def bests(metric: str, values: list[float], key: str | None = None) -> list[bool]:
    best = BestSoFar(metric, 0)
    return [best.offer(step, {key or metric: value}) for step, value in enumerate(values)]


@pytest.mark.parametrize(
    ("metric", "values", "wanted"),
    [
        ("loss", [2.0, 1.0, 1.5, 0.5], [True, True, False, True]),
        ("accuracy", [0.5, 0.4, 0.6], [True, False, True]),
        ("margin", [-2.0, -1.0, -3.0], [True, True, False]),
        ("loss", [1.0, 1.0], [True, False]),  # no better is not better
        ("loss", [math.nan, 3.0, math.nan, 4.0], [False, True, False, False]),
        ("margin", [math.inf, -math.inf, 1.0], [False, False, True]),
    ],
)
def test_which_is_best(metric: str, values: list[float], wanted: list[bool]) -> None:
    assert bests(metric, values) == wanted


def test_a_metric_that_is_absent_is_never_best() -> None:
    assert bests("accuracy", [1.0, 2.0], key="loss") == [False, False]


def test_patience_counts_validations_since_the_best() -> None:
    best = BestSoFar("loss", 2)
    worn = []
    for step, value in enumerate([3.0, 4.0, 2.0, math.nan, 5.0]):
        best.offer(step, {"loss": value})
        worn.append(best.worn_out)
    assert worn == [False, False, False, False, True]
    assert (best.step, best.value) == (2, 2.0)


def test_no_patience_is_never_worn_out() -> None:
    best = BestSoFar("loss", 0)
    assert [best.offer(s, {"loss": 1.0}) or best.worn_out for s in range(20)][1:] == [False] * 19


def test_state_holds_no_number_that_json_lacks() -> None:
    best = BestSoFar("loss", 0)
    assert best.state() == {"best_step": None, "best_value": None, "validations_since_best": 0}
    best.offer(0, {"loss": 0.25})
    best.offer(5, {"loss": 0.5})
    assert best.state() == {"best_step": 0, "best_value": 0.25, "validations_since_best": 1}


def test_rates_are_over_the_steps_since_the_last_report() -> None:
    rates = Rates()
    rates.add(StepMetrics(tokens=100, supervised_tokens=40), 2.0)
    rates.add(StepMetrics(tokens=300, supervised_tokens=40), 6.0)
    assert (rates.tokens_per_s, rates.supervised_tokens_per_s) == (50.0, 10.0)
    rates.report()
    rates.add(StepMetrics(tokens=10, supervised_tokens=5), 0.5)
    assert (rates.tokens_per_s, rates.supervised_tokens_per_s) == (20.0, 10.0)
    assert (rates.tokens, rates.last_seconds) == (410, 0.5)


def test_shares_of_micro_batches_add_up() -> None:
    metrics = StepMetrics(tokens=1, supervised_tokens=1)
    metrics.add(0.25, {"nll": 0.5, "at_ceiling": 1.0})
    metrics.add(0.5, {"nll": 0.25, "at_ceiling": 2.0})
    assert metrics.loss == 0.75
    assert metrics.values["at_ceiling"] == 3.0
    assert metrics.shown() == {"nll": 0.75}  # what is not a field of the event stays inside
