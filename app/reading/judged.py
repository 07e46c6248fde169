"""Validation rows and what a run made of them; bodies of tasks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from app.reading.background import Task
from trainer_core.config import RunConfig
from trainer_core.data.scan import plain_text, scan_rows
from trainer_core.data.types import Source
from trainer_core.errors import TrainerError
from trainer_core.row_losses import RowHistory, read_row_losses
from trainer_core.runfolder import RunFolder

_PREVIEW = 300


@dataclass(frozen=True, slots=True)
class RowText:
    """What a row says, in short."""

    prompt: str
    answer: str


def judged_rows(task: Task, folder: Path) -> list[RowHistory]:
    """What became of every validation row of a run.

    Raises:
        TrainerError: the run's file cannot be read.
    """
    task.check()
    return read_row_losses(RunFolder(folder).row_losses)


def texts_of(task: Task, config: RunConfig, wanted: Collection[Source]) -> dict[Source, RowText]:
    """What these rows say, as far as they are still where they were.

    Args:
        task: asked now and then whether it is still wanted.
        config: the run whose rows they are.
        wanted: where they stand.
    """
    left = set(wanted)
    found: dict[Source, RowText] = {}
    try:
        for row in scan_rows(config):
            task.check()
            if row.source in left:
                left.remove(row.source)
                example = row.example
                if example is not None:
                    prompt, answer = plain_text(example.prompt), plain_text(example.chosen)
                    found[row.source] = RowText(prompt[:_PREVIEW], answer[:_PREVIEW])
            if not left:
                break
    except TrainerError:  # the file went away since: the losses are there all the same
        return found
    return found
