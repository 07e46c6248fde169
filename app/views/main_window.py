"""The window: puts the panels in their places and remembers where they were. It decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QByteArray, QSize, Qt
from PySide6.QtGui import QAction, QCloseEvent
from PySide6.QtWidgets import (
    QLabel,
    QMainWindow,
    QMenu,
    QSizePolicy,
    QSplitter,
    QToolBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.settings import Settings
from app.viewmodels.presets import Preset
from app.views.actions import Actions
from app.views.config_panel import ConfigPanel
from app.views.log_panel import LogPanel
from app.views.notice_bar import NoticeBar
from app.views.pages import Pages
from app.views.plots_panel import PlotsPanel
from app.views.progress_panel import ProgressPanel

FIRST_SIZE = QSize(1280, 800)
FORM_WIDTH = 360
LOG_HEIGHT = 132


@dataclass(frozen=True, slots=True)
class Panels:
    """What the window is made of. `others` are the pages besides the curves, under their keys."""

    form: ConfigPanel
    plots: PlotsPanel
    progress: ProgressPanel
    log: LogPanel
    notice: NoticeBar
    others: Mapping[str, QWidget] = field(default_factory=dict)


class MainWindow(QMainWindow):
    """Tool bar, form, pages, progress, log.

    Attributes:
        pages: the curves and what else stands in their place.
        may_close: asked when the window is to close; False keeps it open.
        open_recent: called with the chosen file of the Recent menu.
        choose_preset: called with the chosen entry of the Presets menu.
    """

    def __init__(self, actions: Actions, panels: Panels) -> None:
        super().__init__()
        self.actions_table = actions
        self.panels = panels
        self.may_close: Callable[[], bool] = lambda: True
        self.open_recent: Callable[[Path], None] = lambda _: None
        self.choose_preset: Callable[[Preset], None] = lambda _: None
        self.setObjectName("main")
        self._recent = QMenu("Open &recent", self)
        self._presets = QMenu("&Presets", self)
        self._presets.setToolTipsVisible(True)
        self._run_name = QLabel()
        self._run_name.setProperty("role", "small")
        self.pages = Pages({"train": panels.plots, **panels.others}, panels.notice)
        self._columns = QSplitter(Qt.Orientation.Horizontal)
        self._rows = QSplitter(Qt.Orientation.Vertical)
        self._build_tool_bar()
        self._build_menus()
        self._build_centre()
        panels.log.folded.connect(self._on_log_folded)
        self.pages.turned.connect(self._on_page_turned)
        self.resize(FIRST_SIZE)

    def set_recent(self, paths: list[Path]) -> None:
        """Fill the Recent menu."""
        self._recent.clear()
        for path in paths:
            action = self._recent.addAction(path.name)
            action.setToolTip(str(path))
            action.triggered.connect(lambda _=False, chosen=path: self.open_recent(chosen))
        self._recent.setEnabled(bool(paths))

    def set_presets(self, presets: list[Preset]) -> None:
        """Fill the Presets menu."""
        for preset in presets:
            action = self._presets.addAction(preset.name)
            action.setToolTip(preset.description)
            action.triggered.connect(lambda _=False, chosen=preset: self.choose_preset(chosen))

    def set_run_text(self, text: str, tip: str = "") -> None:
        """What stands at the right end of the tool bar."""
        self._run_name.setText(text)
        self._run_name.setToolTip(tip)

    def tool_button(self, action: QAction) -> QWidget:
        """Where a command stands in the tool bar."""
        return self._tools.widgetForAction(action)

    def restore(self, settings: Settings) -> None:
        """Put everything where it was."""
        if settings.geometry:
            self.restoreGeometry(_bytes(settings.geometry))
        for name, splitter in self._splitters().items():
            if name in settings.splitters:
                splitter.restoreState(_bytes(settings.splitters[name]))
        self.panels.log.set_open(settings.log_open)

    def remember(self, settings: Settings) -> None:
        """Note where everything is."""
        settings.geometry = _text(self.saveGeometry())
        settings.splitters = {
            name: _text(splitter.saveState()) for name, splitter in self._splitters().items()
        }
        settings.log_open = self.panels.log.is_open

    def closeEvent(self, event: QCloseEvent) -> None:
        """Called by Qt."""
        if self.may_close():
            event.accept()
        else:
            event.ignore()

    def _splitters(self) -> dict[str, QSplitter]:
        return {"columns": self._columns, "rows": self._rows}

    def _build_tool_bar(self) -> None:
        table = self.actions_table
        bar = self._tools = QToolBar("Main")
        bar.setObjectName("tools")
        bar.setMovable(False)
        bar.setIconSize(QSize(18, 18))
        bar.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        bar.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        bar.addActions([table.start, table.pause, table.stop])
        bar.addSeparator()
        bar.addActions([table.export, table.open_run])
        spacer = QWidget()
        spacer.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        bar.addWidget(spacer)
        bar.addWidget(self._run_name)
        start = bar.widgetForAction(table.start)
        if isinstance(start, QToolButton):
            start.setProperty("role", "primary")
        self.addToolBar(bar)

    def _build_menus(self) -> None:
        table = self.actions_table
        menus: dict[str, list[QAction | QMenu | None]] = {
            "&File": [
                table.new_sample,
                self._presets,
                table.open_config,
                self._recent,
                table.save_config,
                None,
                table.quit,
            ],
            "&Run": [
                table.start,
                table.pause,
                table.stop,
                None,
                table.export,
                table.open_run,
                None,
                table.copy_command,
            ],
            "&View": [
                *self._page_actions(),
                None,
                table.page_training,
                table.page_diagnostics,
                None,
                self._theme_menu(),
                table.show_log,
            ],
            "&Help": [
                table.tour,
                None,
                table.open_log_file,
                table.copy_diagnostics,
                None,
                table.about,
            ],
        }
        for title, entries in menus.items():
            menu = self.menuBar().addMenu(title)
            menu.setToolTipsVisible(True)
            for entry in entries:
                if entry is None:
                    menu.addSeparator()
                elif isinstance(entry, QMenu):
                    menu.addMenu(entry)
                else:
                    menu.addAction(entry)

    def _page_actions(self) -> list[QAction]:
        """The commands that turn to the pages that there are."""
        return [self.actions_table.page(key) for key in self.pages.keys]

    def _theme_menu(self) -> QMenu:
        table = self.actions_table
        menu = QMenu("&Theme", self)
        menu.addActions([table.theme_system, table.theme_light, table.theme_dark])
        return menu

    def _build_centre(self) -> None:
        panels = self.panels
        upper = QWidget()
        upper_layout = QVBoxLayout(upper)
        upper_layout.setContentsMargins(0, 0, 0, 0)
        upper_layout.setSpacing(0)
        upper_layout.addWidget(self.pages, 1)
        upper_layout.addWidget(panels.progress)
        self._rows.addWidget(upper)
        self._rows.addWidget(panels.log)
        self._rows.setStretchFactor(0, 1)
        self._rows.setStretchFactor(1, 0)
        self._rows.setCollapsible(0, False)
        self._rows.setCollapsible(1, False)
        self._rows.setSizes([FIRST_SIZE.height() - LOG_HEIGHT - 80, LOG_HEIGHT])
        panels.form.setMinimumWidth(300)
        self._columns.addWidget(panels.form)
        self._columns.addWidget(self._rows)
        self._columns.setStretchFactor(0, 0)
        self._columns.setStretchFactor(1, 1)
        self._columns.setCollapsible(0, False)
        self._columns.setCollapsible(1, False)
        self._columns.setSizes([FORM_WIDTH, FIRST_SIZE.width() - FORM_WIDTH])
        self.setCentralWidget(self._columns)
        self._columns.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setFocus()

    def _on_page_turned(self, key: str) -> None:
        """The log belongs to the curves; other pages need its room."""
        self.panels.log.setVisible(key == "train")
        self.panels.progress.set_brief(key != "train")

    def _on_log_folded(self, folded: bool) -> None:
        self.actions_table.show_log.setChecked(not folded)


def _bytes(text: str) -> QByteArray:
    return QByteArray.fromBase64(text.encode("ascii", "replace"))


def _text(data: QByteArray) -> str:
    return bytes(data.toBase64().data()).decode("ascii")
