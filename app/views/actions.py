"""Every command of the window in one table: text, key, icon."""

from __future__ import annotations

from dataclasses import dataclass, fields

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QActionGroup, QKeySequence

from app.views.icons import icon
from app.views.palette import Palette

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True)
class _Entry:
    text: str
    tip: str = ""
    key: str = ""
    icon: str = ""


_TABLE = {
    "start": _Entry("&Start", "Train with the configuration on the left", "Ctrl+R", "start"),
    "stop": _Entry(
        "S&top",
        "End after the step in hand and save the adapter; pressed again, at once",
        "Ctrl+.",
        "stop",
    ),
    "pause": _Entry(
        "&Pause",
        "Wait after the step in hand and give the memory back; pressed again, go on exactly there",
        "Ctrl+P",
        "pause",
    ),
    "export": _Entry(
        f"&Export adapter{ELLIPSIS}",
        "Write the adapter as mlx-lm reads it, and prove it",
        "Ctrl+E",
        "export",
    ),
    "open_run": _Entry("Open &run folder", "Show the files of the run", "Ctrl+Shift+R", "folder"),
    "copy_command": _Entry(
        "&Copy command", "Copy the command that makes this run without the window", "Ctrl+Shift+C"
    ),
    "new_sample": _Entry("&New from sample", "Fill the form with the sample project", "Ctrl+N"),
    "open_config": _Entry(f"&Open config{ELLIPSIS}", "Fill the form from a YAML file", "Ctrl+O"),
    "save_config": _Entry(
        f"Save config &as{ELLIPSIS}", "Write the form to a YAML file", "Ctrl+Shift+S"
    ),
    "quit": _Entry("&Quit", "Close Burnish", "Ctrl+Q"),
    "theme_system": _Entry("&System", "Light or dark as the system"),
    "theme_light": _Entry("&Light"),
    "theme_dark": _Entry("&Dark"),
    "show_log": _Entry("&Log", "Show or hide the log", "Ctrl+L"),
    "go_model": _Entry("&Model", key="Ctrl+1"),
    "go_data": _Entry("D&ata", key="Ctrl+2"),
    "go_train": _Entry("T&rain", key="Ctrl+3"),
    "go_try": _Entry("Tr&y", key="Ctrl+4"),
    "go_runs": _Entry("R&uns", key="Ctrl+5"),
    "page_training": _Entry("&Training curves", key="Alt+1"),
    "page_diagnostics": _Entry("&Diagnostic curves", key="Alt+2"),
    "tour": _Entry("&Tour", "Show what is where"),
    "open_log_file": _Entry("Open &log folder", "Technical details of what went wrong"),
    "copy_diagnostics": _Entry(
        "Copy &diagnostics", "Versions, machine and log for a report, without secrets and names"
    ),
    "about": _Entry("&About Burnish"),
}

CHECKABLE = ("theme_system", "theme_light", "theme_dark", "show_log")


@dataclass(frozen=True, slots=True)
class Actions:
    """The window's commands."""

    start: QAction
    stop: QAction
    pause: QAction
    export: QAction
    open_run: QAction
    copy_command: QAction
    new_sample: QAction
    open_config: QAction
    save_config: QAction
    quit: QAction
    theme_system: QAction
    theme_light: QAction
    theme_dark: QAction
    show_log: QAction
    go_model: QAction
    go_data: QAction
    go_train: QAction
    go_try: QAction
    go_runs: QAction
    page_training: QAction
    page_diagnostics: QAction
    tour: QAction
    open_log_file: QAction
    copy_diagnostics: QAction
    about: QAction

    def page(self, key: str) -> QAction:
        """The command that turns to a page."""
        return getattr(self, f"go_{key}")

    def paint(self, palette: Palette) -> None:
        """Give the tool bar's icons the colours of the palette."""
        for name in ("stop", "pause", "export", "open_run"):
            getattr(self, name).setIcon(icon(_TABLE[name].icon, palette.text, palette.faint))
        self.start.setIcon(icon("start", palette.on_accent, palette.faint))


def make_actions(parent: QObject) -> Actions:
    """All commands, without icons and not yet connected."""
    made: dict[str, QAction] = {}
    for field in fields(Actions):
        entry = _TABLE[field.name]
        action = QAction(entry.text, parent)
        action.setObjectName(field.name)
        keys = QKeySequence(entry.key)
        action.setShortcut(keys)
        if entry.tip:
            shown = keys.toString(QKeySequence.SequenceFormat.NativeText)
            action.setToolTip(f"{entry.tip} ({shown})" if shown else entry.tip)
        action.setCheckable(field.name in CHECKABLE)
        made[field.name] = action
    themes = QActionGroup(parent)
    for name in ("theme_system", "theme_light", "theme_dark"):
        themes.addAction(made[name])
    made["quit"].setMenuRole(QAction.MenuRole.QuitRole)
    made["about"].setMenuRole(QAction.MenuRole.AboutRole)
    return Actions(**made)
