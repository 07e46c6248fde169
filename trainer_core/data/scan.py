"""Every row of a data set one after the other, the unusable ones too: what the app shows of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainer_core.config import PREFERENCE, RunConfig
from trainer_core.data.example import BadRow, Example, Turn
from trainer_core.data.load import example_of, files_of
from trainer_core.data.readers import read_rows_of
from trainer_core.data.row_changes import RowChanges, read_row_changes
from trainer_core.data.types import Problem, Row, Source
from trainer_core.errors import DataError


@dataclass(frozen=True, slots=True)
class ScannedRow:
    """A row as it was found.

    Attributes:
        source: file and line.
        row: as the file has it, or None if it cannot be read.
        example: what it means, with its changes; None if it cannot be used.
        problem: why it cannot be used.
        valid: whether it stands in a validation file.
        left_out: whether `row_changes` leaves it out.
        replaced: whether `row_changes` gives it other values.
    """

    source: Source
    row: Row | None = None
    example: Example | None = None
    problem: Problem | None = None
    valid: bool = False
    left_out: bool = False
    replaced: bool = False


def scan_rows(config: RunConfig) -> Iterator[ScannedRow]:
    """All rows that `data` and `valid_data` name, in order. Streams.

    Raises:
        DataError: a file cannot be read at all.
    """
    files = files_of(config)
    changes = read_row_changes(config.row_changes)
    for valid, part in ((False, files.train), (True, files.valid)):
        for file in part:
            for item in read_rows_of(file):
                if isinstance(item, Problem):
                    yield ScannedRow(Source(item.file, item.line), problem=item, valid=valid)
                else:
                    yield _scanned(item, config, changes, valid=valid)


def _scanned(row: Row, config: RunConfig, changes: RowChanges, *, valid: bool) -> ScannedRow:
    source = row.source
    try:
        changed = changes.apply(row)
        example = example_of(changed or row, config)
        if config.method in PREFERENCE and not example.is_pair:
            what = f"the row has {example.shape}, but {config.method} needs chosen and rejected"
            raise BadRow(what, "add a rejected answer")
    except BadRow as bad:
        problem = Problem(source.file, source.line, bad.what, bad.hint)
    except DataError as error:
        problem = Problem(source.file, source.line, error.what, error.try_this)
    else:
        kind = {"left_out": changed is None, "replaced": changed not in (None, row)}
        return ScannedRow(source, row, example, None, valid, **kind)
    left_out = (change := changes.change_at(row)) is not None and change.values is None
    return ScannedRow(source, row, None, problem, valid, left_out)


def plain_text(part: str | tuple[Turn, ...] | None) -> str:
    """A prompt or an answer as text for people, turns under their roles if there are several."""
    if part is None:
        return ""
    if isinstance(part, str):
        return part
    if len(part) == 1 and part[0].role in ("user", "assistant"):
        return part[0].content
    return "\n".join(f"{turn.role}: {turn.content}" for turn in part)
