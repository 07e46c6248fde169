"""Every run there is: the list, notes, curves, differences, and what to do with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError
from PySide6.QtCore import QFile, QObject, QTimer, Signal

from app.reading.background import Background
from app.reading.runs import RunNotes, RunRecord, read_run, scan_runs, write_notes
from app.settings import Settings
from app.viewmodels.config_diff import SettingRow, differing
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.run_curves import METRICS, Metric, curve_of, told_by
from app.viewmodels.run_table import RunTable
from app.viewmodels.series import Floats
from trainer_core.config import RunConfig
from trainer_core.errors import TrainerError
from trainer_core.events import Event
from trainer_core.runfolder import default_runs_folder

POLL_MS = 2_000
MOST_OVERLAID = 8

_ROWS_BY = ("data", "valid_data", "columns", "prompt_format", "method")
"""Options that decide which rows there are."""

MoveAway = Callable[[str], bool]


def to_bin(path: str) -> bool:
    """Move a folder to the system's bin; False if it has none for this disk."""
    moved = QFile.moveToTrash(path)
    return moved[0] if isinstance(moved, tuple) else moved


class RunsViewModel(QObject):
    """All runs and the ones that are selected.

    Attributes:
        table: runs on show.
        records: all runs, the newest first; None until they were read once.
        selected: runs whose curves and settings are on show.

    Signals:
        changed: list or selection.
        curves_changed: other curves, or more points.
        failed(TrainerError): something that was asked for did not work.
    """

    changed = Signal()
    curves_changed = Signal()
    failed = Signal(object)

    def __init__(
        self,
        form: ConfigViewModel,
        settings: Settings,
        parent: QObject | None = None,
        *,
        move_away: MoveAway = to_bin,
    ) -> None:
        super().__init__(parent)
        self._form = form
        self._settings = settings
        self._move_away = move_away
        self.table = RunTable(self)
        self.records: list[RunRecord] | None = None
        self.search = ""
        self._wanted: Metric = METRICS[0]
        self._chosen: list[Path] = []
        self._events: dict[Path, list[Event]] = {}
        self._read_at: dict[Path, float] = {}
        self._line = Background("runs", self)
        self._poll = QTimer(self, interval=POLL_MS)
        self._poll.timeout.connect(self.look)

    @property
    def selected(self) -> list[RunRecord]:
        """The runs that are selected and still there, in the order of the list."""
        return [r for r in self.records or () if r.folder in self._chosen]

    @property
    def differences(self) -> list[SettingRow]:
        """What tells the selected runs apart; of one, what it changed from the defaults."""
        chosen = self.overlaid
        return differing([record.config for record in chosen]) if chosen else []

    @property
    def overlaid(self) -> list[RunRecord]:
        """The selected runs that are compared: the first few."""
        return self.selected[:MOST_OVERLAID]

    @property
    def metric(self) -> Metric:
        """What the curves are of: what was asked for, or the first there is."""
        metrics = self.metrics
        return metrics[0] if metrics and self._wanted not in metrics else self._wanted

    @property
    def metrics(self) -> list[Metric]:
        """What the selected runs have curves of."""
        told: set[str] = set()
        for record in self.overlaid:
            told |= told_by(self._events.get(record.folder, ()))
        return [metric for metric in METRICS if metric.key in told]

    def wake(self) -> None:
        """The page is on show: follow the folders from now on."""
        self.look()
        self._poll.start()

    def sleep(self) -> None:
        """The page is hidden."""
        self._poll.stop()

    def close(self) -> None:
        """Give everything up and wait for the thread."""
        self._poll.stop()
        self._line.close()

    def look(self) -> None:
        """See what has become of the runs, unless that is being done."""
        if not self._line.busy:
            self.read(lambda _: None)

    def read(self, then: Callable[[list[RunRecord]], None]) -> None:
        """Read all runs, and hand them on."""
        known = {record.folder: record for record in self.records or ()}
        parents = self.parents()

        def done(records: list[RunRecord]) -> None:
            self._on_scanned(records)
            then(records)

        self._line.run(lambda task: scan_runs(task, parents, known), done)

    def parents(self) -> list[Path]:
        """Folders that runs went to."""
        named = [self._form.values.get("output"), *self._settings.run_folders]
        folders = [Path(str(name)).expanduser() for name in named if name]
        return list(dict.fromkeys([default_runs_folder(), *folders]))

    def note_folder(self, folder: Path) -> None:
        """Remember where a run went, so that it is found again."""
        name = str(folder)
        if folder != default_runs_folder() and name not in self._settings.run_folders:
            self._settings.run_folders.append(name)

    def set_search(self, words: str) -> None:
        """Show the runs that mention these words."""
        self.search = words
        self.table.show(self.records or [], words)

    def select(self, folders: Sequence[Path]) -> None:
        """Show the curves and settings of these runs."""
        if list(folders) != self._chosen:
            self._chosen = list(folders)
            self._read_events()
            self.changed.emit()
            self.curves_changed.emit()

    def set_metric(self, metric: Metric) -> None:
        """Show curves of something else."""
        self._wanted = metric
        self.curves_changed.emit()

    def curve(self, record: RunRecord) -> tuple[Floats, Floats]:
        """Steps [n] and values [n] of a run; empty until they were read."""
        return curve_of(self._events.get(record.folder, ()), self.metric)

    def set_notes(self, record: RunRecord, notes: RunNotes) -> None:
        """Keep what was written about a run."""
        if notes == record.notes:
            return
        try:
            write_notes(record.folder, notes)
        except TrainerError as error:
            self.failed.emit(error)
            return
        changed = replace(record, notes=notes)
        self._take([changed if r.folder == record.folder else r for r in self.records or ()])

    def remove(self, records: Sequence[RunRecord]) -> None:
        """Move run folders to the bin. One that is going on stays."""
        left = list(self.records or ())
        for record in records:
            if record.state == "running":
                what = f"{record.title} is still running"
                self.failed.emit(TrainerError(what, "", "Stop it first"))
            elif self._move_away(str(record.folder)):
                left = [r for r in left if r.folder != record.folder]
            else:
                why = "the system has no bin for this disk"
                hint = "Delete its folder by hand"
                self.failed.emit(
                    TrainerError(f"{record.folder} cannot be moved to the bin", why, hint)
                )
        self._take(left)

    def use_data(self, record: RunRecord) -> bool:
        """Fill the form with a run's settings, unless it names the same rows already.

        Returns:
            Whether the form had to change.
        """
        config = self.config_of(record)
        if config is None or all(
            getattr(config, name) == self._form.values[name] for name in _ROWS_BY
        ):
            return False
        return self.use(record)

    def use(self, record: RunRecord) -> bool:
        """Fill the form with a run's settings.

        Returns:
            Whether they could be taken.
        """
        config = self.config_of(record)
        if config is None:
            return False
        self._form.load(config.model_copy(update={"run_name": None}))
        return True

    def fork(self, record: RunRecord, adapter: Path) -> bool:
        """Fill the form with a run's settings, to go on from one of its adapters.

        Returns:
            Whether they could be taken.
        """
        config = self.config_of(record)
        if config is None:
            return False
        # What the adapter itself says comes from the adapter.
        told = {"warm_start": str(adapter), "run_name": None}
        own = {
            name: RunConfig.model_fields[name].default
            for name in ("rank", "scale", "fine_tune_type", "target_modules", "num_layers")
        }
        self._form.load(config.model_copy(update={**own, **told}))
        return True

    def config_of(self, record: RunRecord) -> RunConfig | None:
        """A run's settings, or None, told as `failed`, if they do not fit this version."""
        known = {k: v for k, v in record.config.items() if k in RunConfig.model_fields}
        try:
            return RunConfig(**known)
        except ValidationError as error:
            first = error.errors()[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            what = f"The settings of {record.title} do not fit this version"
            self.failed.emit(TrainerError(what, why))
            return None

    def _on_scanned(self, records: list[RunRecord]) -> None:
        self._take(records)
        self._read_events()

    def _take(self, records: list[RunRecord]) -> None:
        if records != self.records:
            self.records = records
            self.table.show(records, self.search)
            self.changed.emit()

    def _read_events(self) -> None:
        """Read the curves of the selected runs that grew since."""
        for record in self.overlaid:
            if self._read_at.get(record.folder) != record.changed:
                self._read_at[record.folder] = record.changed
                self._line.run(
                    lambda task, folder=record.folder: (folder, read_run(task, folder)),
                    self._on_events,
                    failed=self.failed.emit,
                )

    def _on_events(self, read: tuple[Path, list[Event]]) -> None:
        folder, events = read
        self._events[folder] = events
        self.curves_changed.emit()
