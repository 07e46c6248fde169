"""What the data set on show comes to: counts, lengths, and sentences about what stands out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.viewmodels.data_rows import DataRow, RowFilter
from app.viewmodels.wording import count

BINS = 40
BIAS = 0.65
"""Share of pairs whose preferred answer is the longer one, from which on it is worth a word."""
FEWEST_PAIRS = 20


class DataSummary:
    """Counts of the rows read so far; tokens of those measured so far. Kept up row by row.

    Attributes:
        rows: all of them.
        filters: how many pass each filter.
        trained: rows that are trained on.
        measured: rows in use whose tokens are known.
        tokens: tokens of one epoch of training.
        supervised: of these, the trained ones.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.filters = dict.fromkeys(RowFilter, 0)
        self.trained = 0
        self.measured = 0
        self.tokens = 0
        self.supervised = 0
        self._pairs = 0
        self._longer = 0
        self._lengths = np.zeros((256, 2), np.int64)

    def add(self, row: DataRow) -> None:
        """Count a row as it is now."""
        self._count(row, 1)

    def drop(self, row: DataRow) -> None:
        """Take a row out as it is now, before it changes."""
        self._count(row, -1)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sequence before anything is cut."""
        return self._lengths[self._lengths > 0]

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return int(self._lengths.max(initial=0))

    @property
    def longer_chosen(self) -> float | None:
        """Share of the pairs whose preferred answer has more letters; None if they are few."""
        return self._longer / self._pairs if self._pairs >= FEWEST_PAIRS else None

    def sentences(self, limit: int) -> list[tuple[str, RowFilter | None]]:
        """What stands out, each with the rows that it is about.

        Args:
            limit: max_seq_length.
        """
        found: list[tuple[str, RowFilter | None]] = []
        counts = self.filters
        if n := counts[RowFilter.PROBLEM]:
            found.append((f"{count(n, 'row')} cannot be used", RowFilter.PROBLEM))
        if n := counts[RowFilter.CUT]:
            share = f", {n / max(self.measured, 1):.0%} of all" if n > 1 else ""
            found.append((f"{count(n, 'row')} cut at {limit:,} tokens{share}", RowFilter.CUT))
        if n := counts[RowFilter.CONTRADICTION]:
            what = "row contradicts", "rows contradict"
            found.append((f"{count(n, *what)} an earlier one", RowFilter.CONTRADICTION))
        if n := counts[RowFilter.DUPLICATE]:
            what = "row repeats", "rows repeat"
            found.append((f"{count(n, *what)} an earlier one", RowFilter.DUPLICATE))
        share = self.longer_chosen
        if share is not None and not 1 - BIAS <= share <= BIAS:
            which = "longer" if share > 0.5 else "shorter"
            share = max(share, 1 - share)
            text = f"The preferred answer is the {which} one in {share:.0%} of the pairs"
            found.append((text, None))
        return found

    def _count(self, row: DataRow, sign: int) -> None:
        self.rows += sign
        for wanted in row.filters():
            self.filters[wanted] += sign
        example, measured = row.example, row.measured
        if not row.used or example is None:
            return
        if not row.valid:
            self.trained += sign
        if example.is_pair:
            good, bad = example.answer_characters
            self._pairs += sign * (good != bad)
            self._longer += sign * (good > bad)
        if measured is not None:
            self.measured += sign
            if not row.valid:
                self.tokens += sign * measured.tokens
                self.supervised += sign * measured.trained
            self._note(row.number, measured.lengths if sign > 0 else ())

    def _note(self, number: int, lengths: tuple[int, ...]) -> None:
        while number >= len(self._lengths):
            self._lengths = np.concatenate([self._lengths, np.zeros_like(self._lengths)])
        self._lengths[number] = (*lengths, 0, 0)[:2]


def histogram(lengths: NDArray[np.int64], limit: int) -> tuple[NDArray[np.int64], float]:
    """Number of sequences in bins of equal width from 0 on, and the width of a bin in tokens.

    The last bin holds at least the longest sequence, or the limit if that is near it.

    Args:
        lengths: tokens of each sequence.
        limit: max_seq_length, which is to be seen if sequences come near it.
    """
    longest = int(lengths.max(initial=0))
    top = max(longest + 1, limit + 1) if longest > limit / 3 else longest + 1
    width = max(top / BINS, 1.0)
    counts, _ = np.histogram(lengths, bins=np.arange(BINS + 1) * width)
    return counts.astype(np.int64), width
