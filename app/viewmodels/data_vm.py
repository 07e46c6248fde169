"""The data page: reads what the form names, counts, measures, and looks at one row closely."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from PySide6.QtCore import QObject, QTimer, Signal

from app.reading.background import Background, Task
from app.reading.rows import Measured, find, look, measure_all, read_all
from app.viewmodels.config_vm import SPECS, ConfigViewModel
from app.viewmodels.data_rows import DataRow, DataRows, RowFilter
from app.viewmodels.data_summary import DataSummary
from app.viewmodels.row_edits import RowEdits
from app.viewmodels.row_table import RowTable
from trainer_core.column_names import propose_columns
from trainer_core.config import RunConfig
from trainer_core.data.lens import LensRow
from trainer_core.data.load import held_out
from trainer_core.data.scan import ScannedRow
from trainer_core.data.types import Source
from trainer_core.errors import TrainerError

READ_BY = ("data", "valid_data", "columns", "prompt_format", "method", "row_changes")
"""Options that decide what rows say."""
MEASURED_BY = (
    *("model", "max_seq_length", "overlong", "loss_on", "chat_template", "template_kwargs"),
    *("system_prompt", "valid_fraction", "seed", "sft_scope"),
)
"""Options that decide what becomes of their tokens."""

_LENGTHS_BY = ("model", "chat_template", "template_kwargs", "system_prompt")

SETTLE_MS = 250
REFRESH_MS = 200
MOST_COLUMNS = 60


class DataViewModel(QObject):
    """The rows of the form's data.

    Attributes:
        table: the rows on show.
        summary: counts.
        row: the row under the lens, if any.
        lens: that row's tokens, once known.
        lens_error: why there are none.
        reading, measuring: whether more is coming.
        error: why the data cannot be read, or None.
        measure_error: why there are no tokens, or None.
        columns: the columns of the first row.
        proposal: the mapping of columns that would make rows of the unusable ones, or None.
        limit: max_seq_length.

    Signals:
        changed: counts, errors, or what is going on.
        lens_changed: another row under the lens, or its tokens came.
        sought(list of DataRow): the rows that were looked for.
    """

    changed = Signal()
    lens_changed = Signal()
    sought = Signal(object)

    def __init__(
        self, form: ConfigViewModel, edits: RowEdits, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._form = form
        self.edits = edits
        self.table = RowTable(self)
        self.wanted = RowFilter.ALL
        self.search = ""
        self._config: RunConfig | None = None
        self._awake = False
        self._wished: set[Source] = set()
        self._lines = {name: Background(name, self) for name in ("rows", "lens")}
        self._tasks: dict[str, Task] = {}
        self._settle = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle.timeout.connect(self._follow)
        self._refresh = QTimer(self, singleShot=True, interval=REFRESH_MS)
        self._refresh.timeout.connect(self._tell)
        self._forget()
        form.changed.connect(self._on_form_changed)

    def measured(self, config: RunConfig) -> list[Measured]:
        """The rows' lengths, if they were measured and `config` reads the same rows alike."""
        mine = self._config
        if mine is None or self.measuring or self.reading:
            return []
        if _differ(mine, config, READ_BY) or _differ(mine, config, _LENGTHS_BY):
            return []
        return [row.measured for row in self._rows.rows if row.measured and row.used]

    @property
    def limit(self) -> int:
        """Tokens that a sequence may have."""
        return self._config.max_seq_length if self._config else 0

    @property
    def source(self) -> str:
        """The form's data, as a path or `sample`."""
        return str(self._form.values["data"])

    @property
    def mapping(self) -> Mapping[str, str]:
        """The form's mapping of columns."""
        value = self._form.values["columns"]
        return value if isinstance(value, dict) else {}

    def report(self, error: TrainerError) -> None:
        """Show why an edit did not work."""
        self.lens_error = str(error)
        self.lens_changed.emit()

    def wake(self) -> None:
        """The page is on show: follow the form from now on."""
        self._awake = True
        self._follow()

    def sleep(self) -> None:
        """The page is hidden: leave the form alone."""
        self._awake = False

    def again(self) -> None:
        """Read and measure anew, as a file may have changed."""
        self._config = None
        self._follow()

    def close(self) -> None:
        """Give everything up and wait for the threads."""
        for line in self._lines.values():
            line.close()

    def open(self, path: Path) -> None:
        """Put another file or folder into the form."""
        self._form.set_value("data", str(path))
        if self._form.values["columns"]:
            self._form.reset("columns")
        if self._form.values["row_changes"]:
            self._form.reset("row_changes")
        self._follow()

    def map_columns(self, columns: Mapping[str, str] | None) -> None:
        """Say which column is what."""
        self._form.set_value("columns", dict(columns) if columns else None)
        self._follow()

    def set_filter(self, wanted: RowFilter) -> None:
        """Show the rows of one kind."""
        self.wanted = wanted
        self._search_again()

    def set_search(self, text: str) -> None:
        """Show the rows with these words in them."""
        self.search = text.strip()
        self._search_again()

    def select(self, row: DataRow | None) -> None:
        """Put a row under the lens."""
        self.row, self.lens, self.lens_error = row, None, ""
        self._look()
        self.lens_changed.emit()

    def seek(self, sources: Sequence[Source]) -> None:
        """Look for rows by where they stand, as soon as all are read."""
        self._wished = set(sources)
        if not self.reading:
            self._find_wished()

    def leave_out(self, rows: Sequence[DataRow], *, wanted: bool = True) -> None:
        """Leave rows out of the run, or take them in again."""
        found = [row.scanned.row for row in rows if row.scanned.row is not None]
        self._change(self.edits.left_out(self._changes_file(), found, wanted=wanted))

    def replace(self, row: DataRow, values: Mapping[str, Any]) -> None:
        """Give a row other values."""
        if row.scanned.row is not None:
            self._change(self.edits.replaced(self._changes_file(), row.scanned.row, values))

    def restore(self, rows: Sequence[DataRow]) -> None:
        """Give rows their own values back, and take them in again."""
        found = [row.scanned.row for row in rows if row.scanned.row is not None]
        self._change(self.edits.restored(self._changes_file(), found))

    def values_of(self, row: DataRow) -> Mapping[str, Any]:
        """A row's columns as they are used now."""
        assert row.scanned.row is not None
        return self.edits.values_of(self._changes_file(), row.scanned.row)

    def _changes_file(self) -> str | None:
        return self._form.values["row_changes"] or None

    def _change(self, file: str | None) -> None:
        self._form.set_value("row_changes", file)
        self._follow()

    def _on_form_changed(self) -> None:
        if self._awake:
            self._settle.start()

    def _follow(self) -> None:
        """Do what the form's new values ask for, and no more."""
        config = config_of(self._form)
        before, self._config = self._config, config
        if config is None:
            self._forget()
            problems = self._form.problems
            key = next((k for k in (*READ_BY, *MEASURED_BY) if k in problems), "data")
            self.error = TrainerError(f"{SPECS[key].label}: {problems.get(key, 'is missing')}")
            self._tell()
        elif before is None or _differ(before, config, READ_BY):
            self._read(config)
        elif _differ(before, config, MEASURED_BY):
            self._hold_out(config)
            self._measure(config)
            self._look()

    def _forget(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._rows = DataRows()
        self.summary = DataSummary()
        self.row: DataRow | None = None
        self.lens: LensRow | None = None
        self.lens_error = ""
        self.reading = self.measuring = False
        self.error: TrainerError | None = None
        self.measure_error: TrainerError | None = None
        self.warnings: list[tuple[str, str, str]] = []
        self.columns: list[str] = []
        self.proposal: dict[str, str] | None = None
        self._found: set[int] | None = None
        self._valid: set[int] = set()
        self.table.show([], self.wanted, None)

    def _read(self, config: RunConfig) -> None:
        at = self.row.number if self.row else None
        self._forget()
        self.reading = True
        self.table.pairs = config.method != "sft"
        self.table.show(self._rows.rows, self.wanted, None)
        self._return_to = at

        def done(_: int) -> None:
            self.reading, self.measuring = False, True
            if self.search:
                self._search_again()
            self._find_wished()
            # In turns of their own, for each takes a while with many rows.
            self._later(self._hold_out, config)
            self._later(self._measure, config)

        self._run("rows", lambda task: read_all(task, config), done, self._on_read, self._on_error)
        self._tell()

    def _find_wished(self) -> None:
        rows = [row for row in self._rows.rows if row.scanned.source in self._wished]
        self._wished = set()
        if rows:
            self.sought.emit(rows)

    def _later(self, step: Callable[[RunConfig], None], config: RunConfig) -> None:
        QTimer.singleShot(0, self, lambda: step(config) if config is self._config else None)

    def _on_read(self, block: list[ScannedRow]) -> None:
        for row in self._rows.extend(block):
            self.summary.add(row)
            if row.number == self._return_to:
                self.select(row)
        if not self.columns:
            first = next((item.row for item in block if item.row is not None), None)
            self.columns = list(first.values)[:MOST_COLUMNS] if first else []
            if block[0].problem is not None:
                self.proposal = propose_columns(self.columns)
        self.table.grow()
        self._tell_soon()

    def _on_error(self, error: TrainerError) -> None:
        self.reading = False
        self.error = error
        self._tell()

    def _hold_out(self, config: RunConfig) -> None:
        """Note which rows validate. Rows that training would skip later are not known yet."""
        usable = self._rows.usable()
        own = any(row.scanned.valid for row in usable)
        chosen = set() if own else {usable[i].number for i in held_out(len(usable), config)}
        for number in chosen ^ self._valid:
            row = self._rows.rows[number]
            self.summary.drop(row)
            row.valid = number in chosen
            self.summary.add(row)
        self._valid = chosen

    def _measure(self, config: RunConfig) -> None:
        rows = [row.scanned for row in self._rows.rows]
        self.measuring, self.measure_error = True, None

        def done(warnings: list[tuple[str, str, str]]) -> None:
            self.measuring = False
            self.warnings = warnings
            self._tell()

        def failed(error: TrainerError) -> None:
            self.measuring = False
            self.measure_error = error
            self._tell()

        body = lambda task: measure_all(task, config, rows)  # noqa: E731
        self._run("rows", body, done, self._on_measured, failed)
        self._tell_soon()

    def _on_measured(self, block: list[Measured]) -> None:
        for one in block:
            row = self._rows.rows[one.number]
            self.summary.drop(row)
            row.measured = one
            self.summary.add(row)
        self._tell_soon()

    def _look(self) -> None:
        row, config = self.row, self._config
        if row is None or row.example is None or config is None:
            return
        example = row.example

        def done(lens: LensRow) -> None:
            self.lens, self.lens_error = lens, lens.problem
            self.lens_changed.emit()

        def failed(error: TrainerError) -> None:
            self.lens, self.lens_error = None, str(error)
            self.lens_changed.emit()

        self._run("lens", lambda task: look(task, config, example), done, None, failed)

    def _search_again(self) -> None:
        if "search" in self._tasks:
            self._tasks["search"].cancel()
        if not self.search:
            self._on_found(None)
            return
        rows = [(row.number, row.example, row.problem) for row in self._rows.rows]
        text = self.search
        self._run("lens", lambda task: find(task, rows, text), self._on_found, None, None, "search")

    def _on_found(self, found: set[int] | None) -> None:
        self._found = found
        self.table.show(self._rows.rows, self.wanted, found)
        self._tell()

    def _run(self, line: str, body: Any, done: Any, part: Any, failed: Any, name: str = "") -> None:
        """Put a task in a line, in the place of the one before it."""
        name = name or line
        if name in self._tasks:
            self._tasks[name].cancel()
        self._tasks[name] = self._lines[line].run(body, done, part=part, failed=failed)

    def _tell_soon(self) -> None:
        if not self._refresh.isActive():
            self._refresh.start()

    def _tell(self) -> None:
        self._refresh.stop()
        self.table.touch()
        self.changed.emit()


def config_of(form: ConfigViewModel) -> RunConfig | None:
    """A run with the form's data and method; None while one of these options is wrong."""
    values = form.values
    names = [k for k in (*READ_BY, *MEASURED_BY) if k in values and form.why_idle(k) is None]
    if any(name in form.problems for name in names):
        return None
    try:
        return RunConfig(**{name: values[name] for name in names})
    except ValidationError:
        return None


def _differ(one: RunConfig, other: RunConfig, names: Sequence[str]) -> bool:
    return any(getattr(one, name) != getattr(other, name) for name in names)
