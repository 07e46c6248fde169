import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.viewmodels.thinning import envelope, every_nth


@given(st.integers(4, 5000), st.integers(4, 400), st.integers(0, 2**32 - 1))
def test_the_envelope_keeps_every_extreme_and_the_order(n: int, most: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=n)
    steps, kept = envelope(np.arange(n, dtype=float), values, most)
    assert len(steps) <= most + 2
    assert (np.diff(steps) >= 0).all()
    assert kept.min() == values.min()
    assert kept.max() == values.max()
    np.testing.assert_array_equal(values[steps.astype(int)], kept)


def test_few_points_are_left_alone() -> None:
    steps, values = np.arange(5.0), np.arange(5.0)
    assert envelope(steps, values, 10)[1] is values
    assert every_nth(steps, values, 10)[1] is values


def test_gaps_do_not_hide_peaks() -> None:
    values = np.full(1000, np.nan)
    values[501] = 7.0
    kept = envelope(np.arange(1000.0), values, 20)[1]
    assert np.nanmax(kept) == 7.0


@given(st.integers(1, 5000), st.integers(1, 400))
def test_every_nth_ends_with_the_last_point(n: int, most: int) -> None:
    steps, _ = every_nth(np.arange(n, dtype=float), np.arange(n, dtype=float), most)
    assert len(steps) <= most
    assert steps[-1] == n - 1
