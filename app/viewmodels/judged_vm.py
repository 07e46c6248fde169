"""The validation rows of the selected run, each with its own loss."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.reading.background import Background
from app.reading.judged import RowText, judged_rows, texts_of
from app.reading.runs import RunRecord
from app.viewmodels.judged_table import JudgedTable, WorstFirst
from app.viewmodels.runs_vm import RunsViewModel
from trainer_core.data.types import Source
from trainer_core.errors import TrainerError
from trainer_core.row_losses import RowHistory


class JudgedRowsViewModel(QObject):
    """Follows the history's selection; of several runs it shows none.

    Attributes:
        table: the rows.
        ordered: the same, the worst first unless another order was asked for.
        record: the run, or None.
        error: why its losses cannot be read, or an empty string.

    Signals:
        changed: another run, or its rows came.
    """

    changed = Signal()

    def __init__(self, runs: RunsViewModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs = runs
        self._line = Background("judged", self)
        self._texts: dict[Source, RowText] = {}
        self._read_at = 0.0
        self.table = JudgedTable(self)
        self.ordered = WorstFirst(self.table, self)
        self.record: RunRecord | None = None
        self.error = ""
        runs.changed.connect(self.follow)

    @property
    def reading(self) -> bool:
        """Whether rows are still to come."""
        return self._line.busy

    def close(self) -> None:
        """Give everything up and wait for the thread."""
        self._line.close()

    def follow(self) -> None:
        """Read what the selected run has that was not read yet."""
        chosen = self._runs.selected
        record = chosen[0] if len(chosen) == 1 else None
        before, self.record = self.record, record
        other = before is None or record is None or before.folder != record.folder
        if other:
            self._texts, self.error = {}, ""
            self.table.show([], {})
        if record is not None and (other or record.changed != self._read_at):
            self._read_at = record.changed
            self._line.run(
                lambda task: (record.folder, judged_rows(task, record.folder)),
                self._on_read,
                failed=self._on_failed,
            )
        if other:
            self.changed.emit()

    def sources(self, places: Sequence[int]) -> list[Source]:
        """Where the rows in these lines of `ordered` stand."""
        lines = [self.ordered.mapToSource(self.ordered.index(place, 0)).row() for place in places]
        return [self.table.rows[line].source for line in lines]

    def _on_read(self, read: tuple[Path, list[RowHistory]]) -> None:
        folder, rows = read
        record = self.record
        if record is None or record.folder != folder:
            return
        self.table.show(rows, self._texts)
        self.changed.emit()
        missing = {row.source for row in rows} - self._texts.keys()
        config = self._runs.config_of(record) if missing and not self._texts else None
        if config is not None:
            self._line.run(lambda task: (folder, texts_of(task, config, missing)), self._on_texts)

    def _on_texts(self, read: tuple[Path, dict[Source, RowText]]) -> None:
        folder, texts = read
        if self.record is not None and self.record.folder == folder:
            self._texts = texts
            self.table.show(self.table.rows, texts)
            self.changed.emit()

    def _on_failed(self, error: TrainerError) -> None:
        self.error = str(error)
        self.changed.emit()
