"""The rows of the data set on show, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from app.reading.rows import Measured
from trainer_core.data.example import Example
from trainer_core.data.scan import ScannedRow, plain_text


class RowFilter(Enum):
    """Which rows to show. The value is the filter's name for people."""

    ALL = "All"
    PROBLEM = "Unusable"
    CUT = "Cut"
    DUPLICATE = "Duplicates"
    CONTRADICTION = "Contradictory"
    VALIDATION = "Validation"
    CHANGED = "Changed"


@dataclass(slots=True)
class DataRow:
    """One row.

    Attributes:
        number: its place, from 0.
        scanned: what reading found.
        measured: what tokenising found, once it did.
        valid: whether it validates instead of being trained on.
        twin: number of the first row that is the same.
        rival: number of the first row with the same prompt and another answer, or with the two
            answers the other way round.
    """

    number: int
    scanned: ScannedRow
    measured: Measured | None = None
    valid: bool = False
    twin: int | None = None
    rival: int | None = None

    @property
    def example(self) -> Example | None:
        """What the row means, if it can be used."""
        return self.scanned.example

    @property
    def problem(self) -> str:
        """Why the row is not used, or an empty string."""
        if self.scanned.problem is not None:
            return self.scanned.problem.what
        return self.measured.problem if self.measured else ""

    @property
    def hint(self) -> str:
        """What to do about the problem."""
        return self.scanned.problem.hint if self.scanned.problem else ""

    @property
    def cut(self) -> bool:
        """Whether the sequence length takes tokens from it."""
        return self.measured is not None and self.measured.cut

    @property
    def changed(self) -> bool:
        """Whether it is left out or replaced."""
        return self.scanned.left_out or self.scanned.replaced

    @property
    def used(self) -> bool:
        """Whether it takes part in the run."""
        return not self.scanned.left_out and not self.problem

    @property
    def prompt(self) -> str:
        """Its prompt as text."""
        return plain_text(self.example.prompt) if self.example else ""

    @property
    def answer(self) -> str:
        """Its answer, or the preferred one."""
        return plain_text(self.example.chosen) if self.example else ""

    @property
    def rejected(self) -> str:
        """The other answer of a pair."""
        return plain_text(self.example.rejected) if self.example else ""

    @property
    def state(self) -> str:
        """What is most worth knowing of it, in a word or two."""
        if self.scanned.left_out:
            return "left out"
        if self.problem:
            return "unusable"
        for name, holds in (
            ("cut", self.cut),
            ("duplicate", self.twin is not None),
            ("contradictory", self.rival is not None),
            ("changed", self.scanned.replaced),
            ("validation", self.valid),
        ):
            if holds:
                return name
        return "trained"

    def filters(self) -> list[RowFilter]:
        """The filters that it passes."""
        found = [RowFilter.ALL]
        if self.problem and not self.scanned.left_out:
            found.append(RowFilter.PROBLEM)
        if self.cut and self.used:
            found.append(RowFilter.CUT)
        if self.twin is not None:
            found.append(RowFilter.DUPLICATE)
        if self.rival is not None:
            found.append(RowFilter.CONTRADICTION)
        if self.valid and self.used:
            found.append(RowFilter.VALIDATION)
        if self.changed:
            found.append(RowFilter.CHANGED)
        return found


@dataclass
class DataRows:
    """All rows, and the ones seen before by what they say."""

    rows: list[DataRow] = field(default_factory=list)
    _whole: dict[int, int] = field(default_factory=dict)
    _prompts: dict[int, tuple[int, int]] = field(default_factory=dict)
    _swapped: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def extend(self, scanned: Iterable[ScannedRow]) -> Sequence[DataRow]:
        """Add rows that were read; returns them."""
        first = len(self.rows)
        for item in scanned:
            row = DataRow(len(self.rows), item, valid=item.valid)
            self.rows.append(row)
            if item.example is not None and not item.left_out:
                self._compare(row, item.example)
        return self.rows[first:]

    def usable(self) -> list[DataRow]:
        """The rows that reading found nothing wrong with, and that are not left out."""
        return [r for r in self.rows if r.scanned.example is not None and not r.scanned.left_out]

    def _compare(self, row: DataRow, example: Example) -> None:
        prompt, chosen = hash(plain_text(example.prompt)), hash(plain_text(example.chosen))
        rejected = hash(plain_text(example.rejected))
        row.twin = self._whole.setdefault(hash((prompt, chosen, rejected)), row.number)
        if row.twin == row.number:
            row.twin = None
        if example.is_pair:
            row.rival = self._swapped.get(hash((prompt, rejected, chosen)))
            self._swapped.setdefault(hash((prompt, chosen, rejected)), row.number)
        elif not example.is_text:
            answer, first = self._prompts.setdefault(prompt, (chosen, row.number))
            row.rival = first if answer != chosen else None
