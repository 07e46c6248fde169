"""What the pages besides the curves ask of the rest of the window."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from app.awake import Awake
from app.reading.runs import RunRecord
from app.viewmodels.data_rows import RowFilter
from app.viewmodels.data_vm import DataViewModel
from app.viewmodels.notice_vm import Notice
from app.viewmodels.runs_vm import RunsViewModel
from app.viewmodels.session import Session
from app.views.commands import WindowCommands
from app.views.main_window import MainWindow
from app.views.runs_page import RunsPage
from trainer_core.data.types import Source


class PageCommands(QObject):
    """Answers to the wishes of the pages of one window."""

    def __init__(
        self,
        window: MainWindow,
        session: Session,
        runs: RunsViewModel,
        data: DataViewModel,
        commands: WindowCommands,
        awake: Awake,
    ) -> None:
        super().__init__(window)
        self._session = session
        self._runs = runs
        self._data = data
        self._awake = awake
        self._was_active = False
        self._window = window
        window.panels.plots.health.asked.connect(self._on_health_asked)
        runs.failed.connect(commands.show_error)
        session.run.changed.connect(self._on_run_changed)
        for page in window.panels.others.values():
            if isinstance(page, RunsPage):
                page.used.connect(self._on_settings_used)
                page.export_asked.connect(commands.ask_to_export)
                page.queue.go_on_asked.connect(self._on_go_on)
                page.details.judged.asked.connect(self._on_rows_asked)

    def _on_settings_used(self, title: str) -> None:
        text = "Look through them on the left, then press Start. Edit > Undo brings the form back."
        self._session.notices.show(Notice("info", f"The form has the settings of {title}", text))

    def _on_rows_asked(self, record: RunRecord, sources: list[Source]) -> None:
        if self._runs.use_data(record):
            self._on_settings_used(record.title)
        self._window.pages.show_page("data")
        self._data.seek(sources)

    def _on_health_asked(self, action: str) -> None:
        match action:
            case "stop":
                self._session.stop()
            case "show_cut_rows":
                self._window.pages.show_page("data")
                self._data.set_filter(RowFilter.CUT)
            case option:
                self._window.panels.form.show_option(option)

    def _on_go_on(self) -> None:
        self._session.queue.go_on()
        self._session.start_next()

    def _on_run_changed(self) -> None:
        run = self._session.run
        if run.active:
            self._awake.start()
        else:
            self._awake.stop()
        if self._was_active and not run.active:
            # Only tells where the window is not the one in use.
            QApplication.alert(self._window)
        self._was_active = run.active
        folder: Path | None = self._session.run.run_folder
        if folder is not None:
            self._runs.note_folder(folder.parent)
