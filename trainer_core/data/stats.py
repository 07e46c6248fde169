"""What a user wants to know of the data before training: counts, lengths, and what would be cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainer_core.data.types import Dataset, TokenisedExample

QUANTILES = (0.5, 0.9, 0.95, 0.99)
BINS = 12


@dataclass(frozen=True, slots=True)
class Bin:
    """Number of sequences with `low <= length < high` tokens."""

    low: int
    high: int
    count: int


@dataclass(frozen=True, slots=True)
class DataStats:
    """Counts over training and validation rows together, unless a name says otherwise.

    Attributes:
        rows: rows found; always rows_used + rows_skipped.
        rows_used: rows that will be trained or validated on.
        rows_skipped: rows that cannot be used.
        rows_truncated: used rows that lost tokens to max_seq_length.
        train_rows: rows that are trained on.
        valid_rows: rows that are validated on.
        tokens: tokens of one epoch of training; a pair counts its prompt twice.
        supervised_tokens: trained tokens of one epoch.
        longest: length of the longest sequence in tokens.
        mean_length: mean length of a sequence in tokens.
        quantiles: length in tokens that this share of the sequences does not exceed.
        histogram: lengths in bins of equal width.
    """

    rows: int
    rows_used: int
    rows_skipped: int
    rows_truncated: int
    train_rows: int
    valid_rows: int
    tokens: int
    supervised_tokens: int
    longest: int
    mean_length: float
    quantiles: dict[float, int]
    histogram: tuple[Bin, ...]


def summarise(dataset: Dataset) -> DataStats:
    """Counts and lengths of a data set. Each answer of a pair is a sequence of its own."""
    rows = [*dataset.train, *dataset.valid]
    lengths = np.array(_lengths(rows), np.int64)
    skipped = dataset.rows_skipped + dataset.valid_rows_skipped
    return DataStats(
        rows=len(rows) + skipped,
        rows_used=len(rows),
        rows_skipped=skipped,
        rows_truncated=sum(row.truncated for row in rows),
        train_rows=len(dataset.train),
        valid_rows=len(dataset.valid),
        tokens=dataset.tokens,
        supervised_tokens=dataset.supervised_tokens,
        longest=int(lengths.max(initial=0)),
        mean_length=float(lengths.mean()) if lengths.size else 0.0,
        quantiles={share: _quantile(lengths, share) for share in QUANTILES},
        histogram=_histogram(lengths),
    )


def _lengths(rows: Sequence[TokenisedExample]) -> list[int]:
    return [
        len(sequence)
        for row in rows
        for sequence in (row.chosen, row.rejected)
        if sequence is not None
    ]


def _quantile(lengths: np.ndarray, share: float) -> int:
    return int(np.quantile(lengths, share, method="inverted_cdf")) if lengths.size else 0


def _histogram(lengths: np.ndarray) -> tuple[Bin, ...]:
    if not lengths.size:
        return ()
    low, high = int(lengths.min()), int(lengths.max()) + 1
    width = max(1, -(-(high - low) // BINS))
    edges = np.arange(low, high + width, width)
    counts, _ = np.histogram(lengths, bins=edges)
    # numpy closes the last bin on the right; `high` lies past the longest, so nothing sits on it.
    bins = zip(edges[:-1], edges[1:], counts, strict=True)
    return tuple(Bin(int(a), int(b), int(count)) for a, b, count in bins)
