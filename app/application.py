"""The composition root: the only place that creates and wires the parts of the app."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import cast

import shiboken6
from PySide6.QtCore import QObject
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication, QWidget

from app.awake import Awake
from app.crash import FaultReporter
from app.paths import AppPaths, resources_folder
from app.settings import SettingsStore
from app.unix_signals import UnixSignals
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.data_vm import DataViewModel
from app.viewmodels.documents_vm import DocumentsViewModel
from app.viewmodels.fit_vm import FitViewModel
from app.viewmodels.judged_vm import JudgedRowsViewModel
from app.viewmodels.models_vm import ModelsViewModel
from app.viewmodels.notice_vm import Notice, error_notice
from app.viewmodels.row_edits import RowEdits
from app.viewmodels.runs_vm import RunsViewModel
from app.viewmodels.session import Session
from app.viewmodels.tour_vm import Place, TourViewModel
from app.viewmodels.try_vm import TryViewModel
from app.views.actions import make_actions
from app.views.commands import WindowCommands
from app.views.config_panel import ConfigPanel
from app.views.data_page import DataPage
from app.views.fit_dialog import FitDialog
from app.views.fit_meter import FitMeter
from app.views.log_panel import LogPanel
from app.views.main_window import MainWindow, Panels
from app.views.models_page import ModelsPage
from app.views.notice_bar import NoticeBar
from app.views.page_commands import PageCommands
from app.views.plots_panel import PlotsPanel
from app.views.progress_panel import ProgressPanel
from app.views.resume_commands import ResumeCommands
from app.views.runs_page import RunsPage
from app.views.theme import Theme, ThemeMode
from app.views.tour import Tour
from app.views.try_page import TryPage
from trainer_core.errors import TrainerError

SWITCH_INTERVAL_S = 0.001
"""How long the engine thread may hold the interpreter while the window waits for it.

Python's own 5 ms add up to visible jerks when a frame needs the interpreter several times.
"""

log = logging.getLogger(__name__)


def make_qt_application(arguments: list[str]) -> QApplication:
    """Qt's application object, or the one that is there already."""
    existing = QApplication.instance()
    app = existing if isinstance(existing, QApplication) else QApplication(arguments)
    app.setApplicationName("burnish")
    app.setApplicationDisplayName("Burnish")
    app.setDesktopFileName("burnish")
    app.setWindowIcon(QIcon(str(resources_folder() / "icons" / "app.svg")))
    return app


class Application(QObject):
    """The running app: settings, engine, view-models, window.

    Args:
        qt: Qt's application object.
        paths: where settings and log go.
        session: the engine's side; a new one by default.
    """

    def __init__(self, qt: QApplication, paths: AppPaths, session: Session | None = None) -> None:
        super().__init__()
        self._switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.store = SettingsStore(paths.settings_file)
        self.settings = self.store.load()
        mode = self.settings.theme if self.settings.theme in ("light", "dark") else "system"
        self.theme = Theme(qt, cast(ThemeMode, mode), self)
        self.faults = FaultReporter(self)
        self.session = session or Session()
        self.session.setParent(self)
        self.session.curves.set_smoothing(self.settings.smoothing)
        self.form = ConfigViewModel(self)
        sample = resources_folder() / "sample" / "sample.yaml"
        self.documents = DocumentsViewModel(self.form, self.settings, sample, self)
        self.data = DataViewModel(self.form, RowEdits(paths.row_changes), self)
        self.runs = RunsViewModel(self.form, self.settings, self)
        self.judged = JudgedRowsViewModel(self.runs, self)
        self.models = ModelsViewModel(self.form, self.settings, self)
        self.trial = TryViewModel(self.session, self.runs, self.form, self)
        self.fit = FitViewModel(self.session, self.form, self.data, self)
        self.window = self._make_window()
        self.commands = WindowCommands(
            self.window, self.session, self.form, self.documents, self.settings, self.theme, paths
        )
        self.awake = Awake()
        self.pages = PageCommands(
            self.window, self.session, self.runs, self.data, self.commands, self.awake
        )
        self.tour = TourViewModel(self)
        self._show_tour()
        self.resuming = ResumeCommands(
            *(self.window, self.session, self.runs, self.form, self.settings, self.store),
            self.commands,
        )
        self.faults.reported.connect(self._on_fault_reported)
        self.theme.changed.connect(self._paint_actions)
        self._paint_actions()
        self._restore()

    def open(self, *, warm_up: bool = True) -> None:
        """Show the window, start the engine thread, and let it import the engine."""
        self.faults.install()
        self.window.show()
        self.session.open(warm_up=warm_up, model=str(self.form.values.get("model") or ""))

    def welcome(self) -> None:
        """Show the tour at the very first start; offer to go on with what was interrupted."""
        if not self.settings.tour_seen:
            self.settings.tour_seen = True
            self.tour.begin()
        self.resuming.look_for_interrupted()

    def shut_down(self) -> None:
        """Save the settings and end the engine thread; blocks until it is gone."""
        self.settings.smoothing = self.session.curves.smoothing
        self.documents.keep()
        self.settings.queue = self.session.queue.stored()
        self.window.remember(self.settings)
        self.store.save(self.settings)
        self.window.hide()
        self.awake.stop()
        self.data.close()
        self.runs.close()
        self.judged.close()
        self.models.close()
        self.fit.close()
        self.session.close()
        self.session.wait()
        self.faults.uninstall()
        sys.setswitchinterval(self._switch_interval)
        # Python would take the window apart in any order, and from any thread.
        shiboken6.delete(self.window)
        shiboken6.delete(self)

    def _make_window(self) -> MainWindow:
        session = self.session
        panels = Panels(
            form=ConfigPanel(self.form, None),
            plots=PlotsPanel(
                *(session.curves, session.progress, session.health, session.samples), self.theme
            ),
            progress=ProgressPanel(session.progress),
            log=LogPanel(session.log, self.theme),
            notice=NoticeBar(session.notices, self.theme),
            others={
                "model": ModelsPage(self.models),
                "data": DataPage(self.data, self.theme),
                "try": TryPage(self.trial, self.theme),
                "runs": RunsPage(self.runs, self.judged, session.queue, self.theme),
            },
        )
        meter = FitMeter(self.fit, self.theme)
        panels.form.set_meter(meter)
        window = MainWindow(make_actions(self), panels)
        self.fit_dialog = FitDialog(self.fit, self.theme, window)
        meter.details_asked.connect(self.fit_dialog.show)
        panels.notice.asked.connect(self._on_notice_asked)
        return window

    def _show_tour(self) -> None:
        window, table = self.window, self.window.actions_table
        places: dict[Place, QWidget] = {
            "form": window.panels.form,
            "start": window.tool_button(table.start),
            "pages": window.pages.tabs,
            "export": window.tool_button(table.export),
        }
        Tour(self.tour, window, places, self.theme)
        table.tour.triggered.connect(self.tour.begin)

    def _restore(self) -> None:
        self.window.restore(self.settings)
        self.window.actions_table.show_log.setChecked(self.settings.log_open)
        self.session.queue.restore(self.settings.queue)
        try:
            self.documents.restore()
        except TrainerError as error:
            log.warning("sample: %s", error)
            self.session.notices.show(error_notice(error.what, error.why, error.try_this))

    def _paint_actions(self) -> None:
        self.window.actions_table.paint(self.theme.palette)

    def _on_notice_asked(self, key: str) -> None:
        if key == "fit":
            self.fit_dialog.show()

    def _on_fault_reported(self, text: str) -> None:
        self.session.notices.show(
            Notice(
                "error",
                "Something went wrong in Burnish itself",
                text,
                ("copy_diagnostics", "open_log_file"),
            )
        )


def main(arguments: list[str], paths: AppPaths | None = None) -> int:
    """Run the app until its window closes.

    Args:
        arguments: the command line; a file named on it is opened.
        paths: where settings and log go; the user's own folders by default.

    Returns:
        The exit code of the process.
    """
    paths = paths or AppPaths.of_user()
    qt = make_qt_application(arguments)
    application = Application(qt, paths)
    signals = UnixSignals(application)
    signals.received.connect(application.commands.stop_and_close)
    application.open()
    application.welcome()
    for name in arguments[1:]:
        if Path(name).is_file():
            application.commands.open_config(Path(name))
    code = qt.exec()
    signals.close()
    application.shut_down()
    return code
