from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainer_core.data.stats import summarise
from trainer_core.data.types import Dataset, Sequence, Source, TokenisedExample


def row(chosen: int, rejected: int | None = None) -> TokenisedExample:
    def sequence(length: int) -> Sequence:
        return Sequence(np.zeros(length, np.int32), np.arange(length) > 0)

    other = None if rejected is None else sequence(rejected)
    return TokenisedExample(0, Source("x", 1), sequence(chosen), other, 1, truncated=chosen > 50)


def dataset(train: list[TokenisedExample], valid: list[TokenisedExample]) -> Dataset:
    return Dataset(train, valid, rows=len(train) + 1, rows_skipped=1, rows_truncated=0)


def test_counts() -> None:
    stats = summarise(dataset([row(10, 30), row(20, 60)], [row(100, 5)]))
    assert (stats.rows, stats.rows_used, stats.rows_skipped) == (4, 3, 1)
    assert (stats.train_rows, stats.valid_rows, stats.rows_truncated) == (2, 1, 1)
    assert (stats.tokens, stats.supervised_tokens) == (120, 116)
    assert (stats.longest, stats.mean_length) == (100, 37.5)
    assert stats.quantiles == {0.5: 20, 0.9: 100, 0.95: 100, 0.99: 100}


def test_nothing() -> None:
    stats = summarise(Dataset([], [], rows=0, rows_skipped=0, rows_truncated=0))
    assert (stats.rows, stats.longest, stats.mean_length, stats.histogram) == (0, 0, 0.0, ())


@given(lengths=st.lists(st.integers(2, 4000), min_size=1, max_size=40))
def test_histogram_and_quantiles(lengths: list[int]) -> None:
    stats = summarise(dataset([row(length) for length in lengths], []))
    assert sum(bin_.count for bin_ in stats.histogram) == len(lengths)
    for bin_ in stats.histogram:
        assert bin_.count == sum(bin_.low <= length < bin_.high for length in lengths)
    for share, length in stats.quantiles.items():
        assert length in lengths
        assert sum(value <= length for value in lengths) >= share * len(lengths) - 1e-9
