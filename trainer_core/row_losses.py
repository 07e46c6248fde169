"""The validation loss of every row by itself: `row_losses.jsonl` in the run folder.

One line says which rows there are, and one line for each validation says what became of them:

    {"rows": [["train.jsonl", 17], ["train.jsonl", 23]]}
    {"step": 50, "losses": [1.25, 0.5], "margins": [-0.1, 2.0]}

`margins` is there for pairs only. A number that is not finite is null. A resumed run writes both
again; the later line for a step counts.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer_core.data.types import Source
from trainer_core.errors import TrainerError


@dataclass(frozen=True, slots=True)
class RowLoss:
    """A row as the objective judges it alone.

    Attributes:
        loss: what the objective makes of a step with this row only.
        margin: by how much its chosen answer is preferred, None for a single answer.
    """

    loss: float
    margin: float | None = None


@dataclass(slots=True)
class RowHistory:
    """A validation row over a run.

    Attributes:
        source: where it stands.
        losses: step -> its loss, in the order of the steps.
        margins: step -> its margin; empty for single answers.
    """

    source: Source
    losses: dict[int, float] = field(default_factory=dict)
    margins: dict[int, float] = field(default_factory=dict)

    @property
    def first(self) -> float:
        """Its loss at the first validation; NaN without any."""
        return next(iter(self.losses.values()), math.nan)

    @property
    def last(self) -> float:
        """Its loss at the last validation; NaN without any."""
        return next(reversed(self.losses.values()), math.nan)

    @property
    def last_margin(self) -> float | None:
        """Its margin at the last validation, None for a single answer."""
        return next(reversed(self.margins.values()), None)


class RowLossLog:
    """Appends to the file of a run.

    Args:
        path: the file; made with the first validation.
        sources: where the validation rows stand, in the order in which they are judged.
    """

    def __init__(self, path: Path, sources: Sequence[Source]) -> None:
        self._path = path
        self._sources = sources
        self._introduced = False

    def append(self, step: int, judged: Sequence[RowLoss]) -> None:
        """Write what a validation made of the rows.

        Raises:
            OSError: the disk does not take it.
        """
        entry: dict[str, Any] = {"step": step, "losses": [_number(row.loss) for row in judged]}
        if any(row.margin is not None for row in judged):
            entry["margins"] = [_number(row.margin) for row in judged]
        lines = [] if self._introduced else [_introduction(self._sources)]
        with self._path.open("a", encoding="utf-8") as file:
            # On a line of its own even after half a line that a crash left; empty ones are nothing.
            file.write("\n" + "\n".join([*lines, json.dumps(entry)]) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._introduced = True


def read_row_losses(path: Path) -> list[RowHistory]:
    """What became of every validation row; nothing if there is no file.

    Raises:
        TrainerError: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        why = str(getattr(error, "strerror", None) or error)
        raise TrainerError(f"cannot read {path}", why) from None
    rows: list[RowHistory] = []
    for line in text.split("\n"):
        entry = _entry(line)
        if "rows" in entry:
            fresh = [RowHistory(Source(str(file), int(number))) for file, number in entry["rows"]]
            same = [row.source for row in rows] == [row.source for row in fresh]
            rows = rows if same else fresh
        elif "step" in entry:
            _take(rows, entry)
    return rows


def _take(rows: Sequence[RowHistory], entry: dict[str, Any]) -> None:
    step = int(entry["step"])
    for kind in ("losses", "margins"):
        for row, value in zip(rows, entry.get(kind, ()), strict=False):
            told: dict[int, float] = getattr(row, kind)
            # What a resumed run had done after this step was undone.
            for later in [other for other in told if other >= step]:
                del told[later]
            told[step] = math.nan if value is None else float(value)


def _entry(line: str) -> dict[str, Any]:
    """A line of the file; nothing for half a line that a crash left."""
    try:
        entry = json.loads(line) if line else {}
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _introduction(sources: Sequence[Source]) -> str:
    return json.dumps({"rows": [[s.file, s.line] for s in sources]}, ensure_ascii=False)


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
