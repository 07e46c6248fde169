import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.viewmodels.plot_range import step_range, value_range


@given(st.integers(0, 1000), st.integers(0, 10**6))
def test_all_steps_are_inside(first: int, length: int) -> None:
    low, high = step_range(first, first + length)
    assert low <= first
    assert high >= first + length
    assert high - low <= max(length, 1) * 1.3 + 2


def test_the_step_axis_moves_in_strides() -> None:
    ends = [step_range(0, last)[1] for last in range(100, 200)]
    assert len(set(ends)) <= 7


def test_a_range_that_still_fits_is_kept() -> None:
    before = value_range([np.array([0.0, 10.0])], None)
    assert value_range([np.array([1.0, 9.0])], before) == before


def test_a_range_grows_and_shrinks_with_the_values() -> None:
    before = value_range([np.array([0.0, 10.0])], None)
    grown = value_range([np.array([0.0, 20.0])], before)
    assert grown is not None
    assert grown[1] > 20
    shrunk = value_range([np.array([0.0, 1.0])], before)
    assert shrunk is not None
    assert shrunk[1] < 2


def test_constant_and_missing_values() -> None:
    flat = value_range([np.array([3.0, np.nan, 3.0])], None)
    assert flat is not None
    assert flat[0] < 3 < flat[1]
    assert value_range([np.array([np.nan]), np.array([])], None) is None


@pytest.mark.parametrize("value", [0.0, 1e-12, -4.0])
def test_a_single_value_gets_a_range_around_it(value: float) -> None:
    found = value_range([np.array([value])], None)
    assert found is not None
    assert found[0] < value < found[1]
