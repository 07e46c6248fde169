"""A guess at how long a form's rows are, for as long as nobody has counted their tokens."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from trainer_core.config import RunConfig
from trainer_core.errors import TrainerError

if TYPE_CHECKING:
    from trainer_core.data.load import RawData
    from trainer_core.memory import Lengths

_READ_BY = (
    "data",
    "valid_data",
    "valid_fraction",
    "seed",
    "columns",
    "prompt_format",
    "method",
    "row_changes",
    "bad_rows",
)


class LengthGuess:
    """Reads a form's rows, and again only once the files or what they are read by have changed."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._raw: RawData | None = None

    def __call__(self, config: RunConfig) -> list[Lengths]:
        """The longest row by its characters; nothing if the rows cannot be read.

        The form and the Data page say why they cannot.
        """
        from trainer_core.data.load import files_of, read_rows
        from trainer_core.length_guess import guess_lengths

        try:
            paths = [(str(path), path.stat()) for path in files_of(config).paths]
            files = tuple((name, found.st_mtime_ns, found.st_size) for name, found in paths)
            key = (files, repr([getattr(config, name) for name in _READ_BY]))
            if key != self._key:
                self._key, self._raw = key, None
                self._raw = read_rows(config)
        except (TrainerError, OSError):
            return []
        return guess_lengths(self._raw, config) if self._raw is not None else []
