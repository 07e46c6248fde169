"""A guess at how long a form's rows are, for as long as nobody has counted their tokens."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import TYPE_CHECKING

from app.reading.background import Task
from trainer_core.config import RunConfig
from trainer_core.errors import TrainerError

if TYPE_CHECKING:
    from trainer_core.data.example import Example
    from trainer_core.memory import Lengths

LOOKED_AT = 2_000
"""Rows; those after them may be longer, which the Data page finds out when it counts them all."""

_READ_BY = ("data", "valid_data", "columns", "prompt_format", "method", "row_changes")


class LengthGuess:
    """Reads a form's rows, and again only once the files or what they are read by have changed."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._longest: Example | None = None

    def __call__(self, config: RunConfig, task: Task) -> list[Lengths]:
        """The longest row by its characters; nothing if the rows cannot be read.

        The form and the Data page say why they cannot.
        """
        from trainer_core.data.load import files_of
        from trainer_core.length_guess import lengths_of

        try:
            paths = [(str(path), path.stat()) for path in files_of(config).paths]
            files = tuple((name, found.st_mtime_ns, found.st_size) for name, found in paths)
            key = (files, repr([getattr(config, name) for name in _READ_BY]))
            if key != self._key:
                self._key = None
                self._longest = _longest(config, task)
                self._key = key
        except (TrainerError, OSError):
            return []
        return [lengths_of(self._longest, config)] if self._longest is not None else []


def _longest(config: RunConfig, task: Task) -> Example | None:
    from trainer_core.data.scan import scan_rows

    longest: Example | None = None
    for row in islice(scan_rows(config), LOOKED_AT):
        task.check()
        example = row.example
        if example is None or row.left_out or row.valid:
            continue
        if longest is None or example.characters > longest.characters:
            longest = example
    return longest
