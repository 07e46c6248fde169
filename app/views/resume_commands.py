"""Runs that go on: asked for on the page of runs, or offered at the start after an interruption."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.reading.runs import RunRecord
from app.settings import Settings, SettingsStore
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.going_on import config_to_go_on, interrupted_notice
from app.viewmodels.runs_vm import RunsViewModel
from app.viewmodels.session import Session
from app.views.commands import WindowCommands
from app.views.main_window import MainWindow
from app.views.runs_page import RunsPage
from trainer_core.errors import TrainerError


class ResumeCommands(QObject):
    """Lets runs of one window go on."""

    def __init__(
        self,
        window: MainWindow,
        session: Session,
        runs: RunsViewModel,
        form: ConfigViewModel,
        settings: Settings,
        store: SettingsStore,
        commands: WindowCommands,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._session = session
        self._runs = runs
        self._form = form
        self._settings = settings
        self._store = store
        self._fell = settings.running  # the app ended with this run
        settings.running = ""
        self._commands = commands
        self._offered: RunRecord | None = None
        window.panels.notice.asked.connect(self._on_notice_asked)
        session.run.changed.connect(self._on_run_changed)
        for page in window.panels.others.values():
            if isinstance(page, RunsPage):
                page.continue_asked.connect(self.go_on)

    def look_for_interrupted(self) -> None:
        """Offer to go on with the newest run if it was interrupted, once for each interruption."""
        self._runs.read(self._on_runs_read)

    def go_on(self, record: RunRecord, steps: int | None = None, *, isolated: bool = False) -> None:
        """Start a run where its last checkpoint left it, or put it in the line."""
        try:
            config = config_to_go_on(record, steps, isolated=isolated)
            self._session.start_or_queue(config)
        except TrainerError as error:
            self._commands.show_error(error)
        else:
            self._window.pages.show_page("train")

    def _on_runs_read(self, records: list[RunRecord]) -> None:
        newest = next(iter(records), None)
        if newest is None or newest.state != "interrupted" or self._session.busy:
            return
        key = f"{newest.folder} {newest.changed:.0f}"
        if self._session.notices.notice is None and self._settings.offer_once(key):
            self._offered = newest
            with_the_app = self._fell == str(newest.folder)
            notice = interrupted_notice(newest, with_the_app=with_the_app)
            self._session.notices.show(notice)

    def _on_notice_asked(self, key: str) -> None:
        if key == "go_runs":
            self._window.pages.show_page("runs")
        elif key == "continue_run" and self._offered is not None:
            self.go_on(self._offered)
        elif key == "isolate_run" and self._offered is not None:
            self._form.set_value("isolation", "process")  # from now on
            self.go_on(self._offered, isolated=True)

    def _on_run_changed(self) -> None:
        """Leave a mark for the next start, in case that this one ends with the run."""
        run = self._session.run
        inside = run.active and not self._session.isolated
        running = str(run.run_folder) if inside and run.run_folder is not None else ""
        if running != self._settings.running:
            self._settings.running = running
            self._store.save(self._settings)
