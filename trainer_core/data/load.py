"""From the `data` option to rows, and from rows to a `Dataset`.

`read_rows` needs no tokenizer: it finds the files, reads them, checks that the rows fit the method
and splits off the validation rows, so that a mistake in the data shows before any model is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainer_core.config import PREFERENCE, RunConfig
from trainer_core.data.example import BadRow, Example
from trainer_core.data.files import DataFile, DataFiles, find_files
from trainer_core.data.formats import parse_row
from trainer_core.data.readers import read_rows_of
from trainer_core.data.row_changes import RowChanges, read_row_changes
from trainer_core.data.tokenise import Tokenised, tokenise_examples, warnings_of
from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.data.types import Dataset, Problem, Row
from trainer_core.errors import DataError

SAMPLE = "sample"
SHOWN = 10


@dataclass(frozen=True, slots=True)
class RawData:
    """Rows in canonical form, before any tokenizer.

    Attributes:
        train: training examples in file order.
        valid: validation examples in file order; empty if there is no validation.
        train_skipped: rows for training that could not be used (bad_rows: skip).
        valid_skipped: the same for validation rows.
        problems: one for each row that could not be used.
        files: the files that were read, in order.
        shapes: how many rows have each shape.
        note: a warning (code, message, what to try) about changed rows, if there are any.
    """

    train: list[Example]
    valid: list[Example]
    train_skipped: int
    valid_skipped: int
    problems: list[Problem]
    files: tuple[Path, ...]
    shapes: dict[str, int]
    note: tuple[str, str, str] | None = None


class BadRowsError(DataError):
    """Some rows cannot be used and bad_rows is error, or none can. `problems` holds them all."""

    def __init__(self, what: str, problems: Sequence[Problem], try_this: str) -> None:
        lines = [describe(problem) for problem in problems[:SHOWN]]
        if len(problems) > SHOWN:
            lines.append(f"and {len(problems) - SHOWN:,} more")
        super().__init__(what, "\n  ".join(lines), try_this)
        self.problems = list(problems)


def describe(problem: Problem) -> str:
    """A problem as `file:line: what (hint)`."""
    place = f"{problem.file}:{problem.line}" if problem.line else problem.file
    return f"{place}: {problem.what}" + (f" ({problem.hint})" if problem.hint else "")


def sample_data(method: str) -> Path:
    """The sample project's rows for a method: pairs for dpo and orpo, else prompts and answers."""
    kind = "preference" if method in PREFERENCE else "sft"
    return Path(__file__).resolve().parents[2] / "resources" / "sample" / kind


def read_rows(config: RunConfig) -> RawData:
    """Read, check and split the rows that `data` and `valid_data` name.

    Raises:
        DataError: a file cannot be read, no row can be used, rows do not fit the method, or some
            are bad and bad_rows is error.
    """
    files = files_of(config)
    changes = read_row_changes(config.row_changes)
    train, train_bad = _read(files.train, config, changes)
    valid, valid_bad = _read(files.valid, config, changes) if files.valid else ([], [])
    _check_method(config, train, train_bad, named(files.train))
    if files.valid:
        _check_method(config, valid, valid_bad, named(files.valid))
    problems = train_bad + valid_bad
    if problems and config.bad_rows == "error":
        total = len(train) + len(valid) + len(problems)
        names = " and ".join(dict.fromkeys(Path(problem.file).name for problem in problems))
        raise BadRowsError(
            f"{len(problems):,} of {total:,} rows in {names} cannot be used",
            problems,
            "mend them, or set bad_rows to skip",
        )
    if not train:
        raise BadRowsError(
            f"no row in {named(files.train)} can be used", train_bad, "mend the rows"
        )
    shapes = Counter(example.shape for example in train + valid)
    if not files.valid:
        train, valid = _split(train, config)
    paths = files.paths
    if config.row_changes is not None:
        paths = (*paths, Path(config.row_changes).expanduser())
    return RawData(
        train, valid, len(train_bad), len(valid_bad), problems, paths, dict(shapes), changes.note
    )


def tokenise(
    raw: RawData,
    config: RunConfig,
    tokenizer: ChatTokenizer,
    progress: Callable[[float], None] | None = None,
) -> Dataset:
    """Token ids and masks of all rows.

    Args:
        raw: what `read_rows` gave.
        config: the run's configuration.
        tokenizer: the model's tokenizer.
        progress: called now and then with the share that is done; may raise to give up.

    Raises:
        DataError: the chat template refuses rows and bad_rows is error, or no training row is left.
        ModelError: rows need a chat template and the model has none that works.
    """
    total = max(1, len(raw.train) + len(raw.valid))

    def report(done: int) -> None:
        if progress is not None:
            progress(done / total)

    train = tokenise_examples(raw.train, config, tokenizer, report)
    valid = tokenise_examples(
        raw.valid, config, tokenizer, lambda done: report(len(raw.train) + done)
    )
    refused = train.refused + valid.refused
    if refused and config.bad_rows == "error":
        raise BadRowsError(
            f"{len(refused):,} of {total:,} rows do not fit the model's chat template",
            refused,
            "mend them, or set bad_rows to skip",
        )
    problems = raw.problems + train.refused + train.skipped + valid.refused + valid.skipped
    if not train.rows:
        raise BadRowsError(
            f"no training row of {raw.files[0]} can be used", problems, "mend the rows"
        )
    skipped = raw.train_skipped + _lost(train)
    return Dataset(
        train=train.rows,
        valid=valid.rows,
        rows=len(train.rows) + skipped,
        rows_skipped=skipped,
        rows_truncated=sum(row.truncated for row in train.rows),
        valid_rows_skipped=raw.valid_skipped + _lost(valid),
        problems=problems,
        warnings=[
            *([raw.note] if raw.note else []),
            *warnings_of(train.notes + valid.notes, tokenizer),
        ],
    )


def _lost(made: Tokenised) -> int:
    return len(made.refused) + len(made.skipped)


def files_of(config: RunConfig) -> DataFiles:
    """The files that `data` and `valid_data` name.

    Raises:
        DataError: there is nothing there.
    """
    named = config.data.strip()
    files = find_files(sample_data(config.method) if named == SAMPLE else Path(named).expanduser())
    if config.valid_data is None:
        return files
    return DataFiles(files.train, find_files(Path(config.valid_data.strip()).expanduser()).train)


def named(files: Sequence[DataFile]) -> str:
    """The files in a sentence: the one, or the first of several."""
    more = len(files) - 1
    return files[0].name + (f" and {more:,} more" if more else "")


def _read(
    files: Sequence[DataFile], config: RunConfig, changes: RowChanges
) -> tuple[list[Example], list[Problem]]:
    examples: list[Example] = []
    problems: list[Problem] = []
    for item in (item for file in files for item in read_rows_of(file)):
        if isinstance(item, Problem):
            problems.append(item)
            continue
        row = changes.apply(item)
        if row is None:
            continue
        try:
            examples.append(example_of(row, config))
        except BadRow as bad:
            problems.append(Problem(row.source.file, row.source.line, bad.what, bad.hint))
    return examples, problems


def example_of(row: Row, config: RunConfig) -> Example:
    """The example that a row holds under the options of the data.

    Raises:
        BadRow: it cannot be used.
    """
    return parse_row(row.values, row.source, config.prompt_format, config.columns)


def _check_method(
    config: RunConfig, examples: list[Example], problems: list[Problem], where: str
) -> None:
    """Move rows without a rejected answer to the problems; refuse a file without any pair."""
    if config.method not in PREFERENCE:
        return
    single = [example for example in examples if not example.is_pair]
    if single and len(single) == len(examples):
        shapes = ", ".join(dict.fromkeys(example.shape for example in single))
        raise DataError(
            f"{config.method} learns from pairs, and {where} has none",
            f"its rows have {shapes}, but no chosen and rejected answers",
            "choose method sft, or data with chosen and rejected answers",
        )
    examples[:] = [example for example in examples if example.is_pair]
    for example in single:
        what = f"the row has {example.shape}, but {config.method} needs chosen and rejected"
        problems.append(
            Problem(example.source.file, example.source.line, what, "add a rejected answer")
        )
    problems.sort(key=lambda problem: problem.line)


def _split(examples: list[Example], config: RunConfig) -> tuple[list[Example], list[Example]]:
    """Hold out a seeded share of the rows; at least one row stays for training."""
    chosen = held_out(len(examples), config)
    train = [example for index, example in enumerate(examples) if index not in chosen]
    return train, [example for index, example in enumerate(examples) if index in chosen]


def held_out(count: int, config: RunConfig) -> set[int]:
    """Which of `count` usable rows validate, if there is no validation file."""
    held = round(count * config.valid_fraction)
    if config.valid_fraction > 0:
        held = max(1, held)
    held = max(min(held, count - 1), 0)
    return set(np.random.default_rng([config.seed, count]).permutation(count)[:held].tolist())
