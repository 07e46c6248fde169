import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.viewmodels.series import Series, smooth

VALUES = st.lists(st.one_of(st.floats(-1e3, 1e3), st.just(math.nan)), max_size=400)
WEIGHTS = st.sampled_from([0.0, 1e-9, 0.3, 0.6, 0.9, 0.98])


def pandas_ewm(values: list[float], weight: float) -> list[float]:
    """The textbook definition, summed afresh for every point: weights w^i, normalised."""
    out, seen = [], []
    for value in values:
        if math.isnan(value):
            out.append(math.nan)
            continue
        seen.append(value)
        powers = [weight**i for i in range(len(seen))]
        out.append(sum(p * v for p, v in zip(powers, reversed(seen), strict=True)) / sum(powers))
    return out


@given(VALUES, WEIGHTS)
def test_smoothing_is_the_normalised_weighted_mean(values: list[float], weight: float) -> None:
    wanted = pandas_ewm(values[:80], weight)
    np.testing.assert_allclose(smooth(np.array(values[:80]), weight), wanted, atol=1e-7, rtol=1e-7)


@given(VALUES, WEIGHTS)
def test_appending_smooths_like_smoothing_at_once(values: list[float], weight: float) -> None:
    series = Series(weight)
    for step, value in enumerate(values):
        series.append(step, value)
    np.testing.assert_allclose(series.smoothed, smooth(np.array(values), weight), atol=1e-7)


def test_a_constant_curve_stays_constant_from_the_first_point() -> None:
    assert smooth(np.full(300, 2.5), 0.98) == pytest.approx(np.full(300, 2.5))


def test_changing_the_smoothing_later_gives_the_same_as_having_it_from_the_start() -> None:
    early, late = Series(0.9), Series(0.0)
    for series in (early, late):
        for step in range(50):
            series.append(step, math.sin(step))
    late.smoothing = 0.9
    early.append(50, 1.0)
    late.append(50, 1.0)
    np.testing.assert_allclose(early.smoothed, late.smoothed)


def test_infinite_values_become_gaps() -> None:
    series = Series()
    for step, value in enumerate([1.0, math.inf, 3.0]):
        series.append(step, value)
    assert np.isnan(series.values[1])
    assert series.last == 3.0


def test_a_step_seen_before_replaces_it_and_all_that_follow() -> None:
    series = Series(0.5)
    for step in range(1, 11):
        series.append(step, step)
    series.append(6, 100.0)
    assert series.steps.tolist() == [1, 2, 3, 4, 5, 6]
    assert series.values.tolist() == [1, 2, 3, 4, 5, 100]
    np.testing.assert_allclose(series.smoothed, smooth(series.values, 0.5))


def test_a_hundred_thousand_points_are_kept_exactly() -> None:
    series = Series(0.6)
    for step in range(100_000):
        series.append(step, step * 0.5)
    assert len(series) == 100_000
    assert series.steps[-1] == 99_999
    assert series.values[12_345] == 12_345 * 0.5


@pytest.mark.parametrize(("asked", "found"), [(-5, 10), (14, 10), (16, 20), (1e9, 30)])
def test_the_nearest_point_is_found(asked: float, found: float) -> None:
    series = Series()
    for step in (10, 20, 30):
        series.append(step, step / 10)
    assert series.at(asked) == (found, found / 10)


def test_an_empty_series_has_no_points() -> None:
    assert Series().at(3) is None
    assert Series().last is None


def test_between_takes_one_more_point_at_each_end() -> None:
    series = Series()
    for step in range(10):
        series.append(step, step)
    assert series.steps[series.between(3, 5)].tolist() == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("weight", [-0.1, 1.0, 2.0])
def test_a_weight_that_never_forgets_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="smoothing"):
        Series().smoothing = weight
