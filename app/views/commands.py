"""What happens when a command is chosen: actions meet view-models and dialogs."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QGuiApplication

from app.diagnostics import diagnostics, installed
from app.paths import AppPaths
from app.settings import Settings
from app.viewmodels.command_line import command_of
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.documents_vm import DocumentsViewModel
from app.viewmodels.notice_vm import error_notice, imported_notice
from app.viewmodels.plot_table import Page
from app.viewmodels.presets import Preset, presets
from app.viewmodels.run_vm import RunState
from app.viewmodels.session import Session
from app.views import dialogs
from app.views.actions import Actions
from app.views.export_dialog import ExportDialog, open_folder
from app.views.main_window import MainWindow
from app.views.theme import Theme, ThemeMode
from trainer_core.errors import ConfigError, TrainerError

_SAID = 50
"""Lines of the log panel that diagnostics have."""


class WindowCommands(QObject):
    """Answers to the actions of one window."""

    def __init__(
        self,
        window: MainWindow,
        session: Session,
        form: ConfigViewModel,
        documents: DocumentsViewModel,
        settings: Settings,
        theme: Theme,
        paths: AppPaths,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._session = session
        self._form = form
        self._documents = documents
        self._settings = settings
        self._theme = theme
        self._paths = paths
        self._closing = False
        self._export_dialog = ExportDialog(session.export, theme, window)
        self._connect(window.actions_table)
        window.may_close = self.may_close
        window.open_recent = self.open_config
        window.choose_preset = self.choose_preset
        window.set_presets(presets())
        self._on_run_changed()
        self._on_documents_changed()

    def start(self) -> None:
        """Start, or say what is wrong with the form."""
        self._documents.keep()
        self._session.start_form(self._form)
        self._window.pages.show_page("train")

    def export_to(self, folder: Path, source: Path | None = None) -> None:
        """Export a run's adapter, by default the last one's, and follow it in the dialog."""
        self._settings.last_export_folder = str(folder.parent)
        try:
            self._session.export_adapter(folder, source)
        except TrainerError as error:
            self._show(error)
        else:
            self._export_dialog.show()

    def copy_command(self) -> None:
        """Put the command of the form's run on the clipboard, or say what is wrong with it."""
        config = self._form.config()
        if config is None:
            self._show(ConfigError("There is no command yet", self._form.status, "Mend it first"))
            return
        QGuiApplication.clipboard().setText(command_of(config))
        self._session.log.say("Copied the command of this run")

    def copy_diagnostics(self) -> None:
        """Put what a report of a fault needs on the clipboard."""
        said = [f"{line.time} {line.text}" for line in self._session.log.lines[-_SAID:]]
        text = diagnostics(self._paths.log_file, self._session.run.device, said)
        QGuiApplication.clipboard().setText(text)
        self._session.log.say("Copied the diagnostics, without secrets and names")

    def open_config(self, path: Path) -> None:
        """Fill the form from a file, or say why not."""
        try:
            warnings = self._documents.open(path)
        except TrainerError as error:
            self._show(error)
            return
        for warning in warnings:
            self._session.log.say(" - ".join(filter(None, (warning.message, warning.try_this))))
        if warnings:
            self._session.notices.show(imported_notice(path.name, warnings))

    def choose_preset(self, preset: Preset) -> None:
        """Give the form the preset's settings; what it trains on what stays."""
        self._form.apply(preset)
        self._session.log.say(f"{preset.name}: {preset.description}")

    def save_config(self, path: Path) -> None:
        """Write the form to a file, or say why not."""
        try:
            self._documents.save(path)
        except TrainerError as error:
            self._show(error)

    def may_close(self) -> bool:
        """Whether the window may close now. If not, it closes by itself when the engine ends."""
        if not self._session.busy:
            return True
        if self._closing:
            self._session.stop_now()
        elif self._session.run.active:
            dialogs.ask_to_stop(self._window, self.stop_and_close)
        else:
            self._closing = True
            self._session.log.say("Closing as soon as the export has ended")
        return False

    def stop_and_close(self) -> None:
        """Close as soon as the run has stopped; asked again, without waiting for the step."""
        if not self._session.busy:
            self._window.close()
        elif self._closing:
            self._session.stop_now()
        else:
            self._closing = True
            self._session.stop()

    def perform(self, key: str) -> None:
        """Carry out an action of a notice."""
        table = self._window.actions_table
        match key:
            case "show_log":
                self._window.pages.show_page("train")
                self._window.panels.log.set_open(True)
            case "open_log_file":
                table.open_log_file.trigger()
            case "copy_diagnostics":
                self.copy_diagnostics()
            case "export":
                table.export.trigger()
            case "open_run":
                table.open_run.trigger()

    def _connect(self, table: Actions) -> None:
        session, window = self._session, self._window
        table.start.triggered.connect(self.start)
        table.stop.triggered.connect(session.stop)
        table.pause.triggered.connect(session.pause_or_go_on)
        table.export.triggered.connect(self._on_export_chosen)
        table.open_run.triggered.connect(lambda: open_folder(session.run.run_folder))
        table.copy_command.triggered.connect(self.copy_command)
        table.new_sample.triggered.connect(self._on_sample_chosen)
        table.open_config.triggered.connect(
            lambda: dialogs.ask_for_config(window, self._folder(), self.open_config)
        )
        table.save_config.triggered.connect(
            lambda: dialogs.ask_where_to_save(
                window, self._folder() / f"{self._documents.name}.yaml", self.save_config
            )
        )
        table.quit.triggered.connect(window.close)
        table.show_log.toggled.connect(window.panels.log.set_open)
        table.show_log.triggered.connect(lambda: window.pages.show_page("train"))
        for key in window.pages.keys:
            table.page(key).triggered.connect(lambda _=False, k=key: window.pages.show_page(k))
        table.page_training.triggered.connect(lambda: self._show_curves("training"))
        table.page_diagnostics.triggered.connect(lambda: self._show_curves("diagnostics"))
        table.open_log_file.triggered.connect(lambda: open_folder(self._paths.log))
        table.copy_diagnostics.triggered.connect(self.copy_diagnostics)
        table.about.triggered.connect(lambda: dialogs.show_about(window, about_lines()))
        for mode in ("system", "light", "dark"):
            action = getattr(table, f"theme_{mode}")
            action.setChecked(self._theme.mode == mode)
            action.triggered.connect(
                lambda _=False, m=mode: self._on_theme_chosen(cast(ThemeMode, m))
            )
        window.panels.plots.failed.connect(self._show)
        window.panels.notice.asked.connect(self.perform)
        session.run.changed.connect(self._on_run_changed)
        session.export.changed.connect(self._on_run_changed)
        session.idle.connect(self._on_engine_idle)
        session.queue.changed.connect(self._on_run_changed)
        self._documents.changed.connect(self._on_documents_changed)

    def _show_curves(self, page: Page) -> None:
        self._window.pages.show_page("train")
        self._window.panels.plots.show_page(page)

    def _show(self, error: TrainerError) -> None:
        self._session.log.say(str(error), "error")
        self._session.notices.show(error_notice(error.what, error.why, error.try_this))

    def _folder(self) -> Path:
        last = self._settings.last_file
        return Path(last).parent if last else Path.home()

    def ask_to_export(self, run: Path) -> None:
        """Ask where a run's adapter is to go, and export it."""
        folder = Path(self._settings.last_export_folder or Path.home())
        dialogs.ask_where_to_export(
            self._window, folder / f"{run.name}-adapter", lambda to: self.export_to(to, run)
        )

    def show_error(self, error: TrainerError) -> None:
        """Say what went wrong, above the page and in the log."""
        self._show(error)

    def _on_export_chosen(self) -> None:
        if (run := self._session.run.finished_run) is not None:
            self.ask_to_export(run)

    def _on_sample_chosen(self) -> None:
        try:
            self._documents.open_sample()
        except TrainerError as error:
            self._show(error)

    def _on_theme_chosen(self, mode: ThemeMode) -> None:
        self._settings.theme = mode
        self._theme.set_mode(mode)

    def _on_run_changed(self) -> None:
        run, busy, table = self._session.run, self._session.busy, self._window.actions_table
        table.start.setText("Add to &queue" if busy else "&Start")
        table.stop.setEnabled(run.active)
        waits = run.state in (RunState.PAUSING, RunState.PAUSED)
        table.pause.setEnabled(run.active and run.state is not RunState.STOPPING)
        table.pause.setText("Go on" if waits else "Pause")
        table.stop.setText("Stop now" if run.state is RunState.STOPPING else "Stop")
        table.export.setEnabled(run.finished_run is not None and not busy)
        table.open_run.setEnabled(run.run_folder is not None)
        self._form.set_running(run.active)
        waiting = len(self._session.queue.runs)
        more = f"  \N{MIDDLE DOT}  {waiting:,} waiting" if waiting else ""
        self._window.set_run_text(run.run_name + more, str(run.run_folder or ""))

    def _on_documents_changed(self) -> None:
        name = self._documents.name
        self._window.setWindowTitle(f"{name} \N{EN DASH} Burnish")
        self._window.set_recent(self._documents.recent)
        what = "the sample" if name == "sample" else name
        self._window.panels.plots.set_idle_words(
            f"Press Start to train {what}", "Curves appear here."
        )

    def _on_engine_idle(self) -> None:
        if self._closing:
            QTimer.singleShot(0, self, self._window.close)


def about_lines() -> list[str]:
    """Version and what it stands on."""
    lines = ["Local fine-tuning of language models: SFT, DPO and ORPO.", ""]
    for name in ("burnish", "mlx", "mlx-lm", "PySide6_Essentials", "pyqtgraph"):
        lines.append(f"{name} {installed(name)}")
    return lines
