"""Light and dark for the whole app: follows the system unless the user says otherwise.

Panels do not set colours; they give their widgets a `role` and the style sheet does the rest:

- QLabel: `title`, `heading`, `muted`, `small`, `error`, `warning`, `success`, `mono`, `value`
- QFrame: `card` (raised, rounded), `panel`, `line` (a 1 px separator)
- QPushButton: `primary`, `danger`, `quiet` (no frame)
- QToolButton: `section` (header of a folding group)
- QLineEdit, QSpinBox, QComboBox and the like: property `invalid` true puts a red frame around them

Only what paints for itself (curves, icons) asks `Theme.palette` and listens to `changed`.
"""

from __future__ import annotations

from string import Template
from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory, QWidget

from app.paths import resources_folder
from app.views.palette import DARK, LIGHT, Palette

ThemeMode = Literal["system", "light", "dark"]


class Theme(QObject):
    """The palette in force, and its application to the whole app.

    Signals:
        changed: the palette is another one; repaint what you paint yourself.
    """

    changed = Signal()

    def __init__(
        self, app: QApplication, mode: ThemeMode = "system", parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._app = app
        self._mode: ThemeMode = mode
        self.palette = LIGHT
        style = QStyleFactory.create("Fusion")
        app.setStyle(style)
        app.styleHints().colorSchemeChanged.connect(self._on_scheme_changed)
        self.set_mode(mode)

    @property
    def mode(self) -> ThemeMode:
        """What the user chose."""
        return self._mode

    def set_mode(self, mode: ThemeMode) -> None:
        """Follow the system, or force light or dark."""
        self._mode = mode
        scheme = {
            "system": Qt.ColorScheme.Unknown,
            "light": Qt.ColorScheme.Light,
            "dark": Qt.ColorScheme.Dark,
        }[mode]
        self._app.styleHints().setColorScheme(scheme)
        self._apply()

    def _on_scheme_changed(self) -> None:
        if self._mode == "system":
            self._apply()

    def _apply(self) -> None:
        dark = self._mode == "dark" or (
            self._mode == "system" and self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
        )
        self.palette = DARK if dark else LIGHT
        self._app.setPalette(qt_palette(self.palette))
        self._app.setStyleSheet(style_sheet(self.palette))
        self.changed.emit()


def qt_palette(palette: Palette) -> QPalette:
    """Qt's own palette, for what the style sheet does not reach."""
    roles = {
        QPalette.ColorRole.Window: palette.window,
        QPalette.ColorRole.WindowText: palette.text,
        QPalette.ColorRole.Base: palette.raised,
        QPalette.ColorRole.AlternateBase: palette.panel,
        QPalette.ColorRole.Text: palette.text,
        QPalette.ColorRole.PlaceholderText: palette.faint,
        QPalette.ColorRole.Button: palette.raised,
        QPalette.ColorRole.ButtonText: palette.text,
        QPalette.ColorRole.BrightText: palette.danger,
        QPalette.ColorRole.ToolTipBase: palette.raised,
        QPalette.ColorRole.ToolTipText: palette.text,
        QPalette.ColorRole.Highlight: palette.selection,
        QPalette.ColorRole.HighlightedText: palette.text,
        QPalette.ColorRole.Link: palette.accent,
        QPalette.ColorRole.Mid: palette.border,
        QPalette.ColorRole.Light: palette.panel,
        QPalette.ColorRole.Dark: palette.border_strong,
        QPalette.ColorRole.Accent: palette.accent,
    }
    result = QPalette()
    for role, colour in roles.items():
        result.setColor(role, QColor(colour))
    for role in (
        QPalette.ColorRole.WindowText,
        QPalette.ColorRole.Text,
        QPalette.ColorRole.ButtonText,
    ):
        result.setColor(QPalette.ColorGroup.Disabled, role, QColor(palette.faint))
    return result


def style_sheet(palette: Palette) -> str:
    """`resources/styles/burnish.qss` with this palette's colours put in."""
    source = (resources_folder() / "styles" / "burnish.qss").read_text(encoding="utf-8")
    icons = (resources_folder() / "icons").as_posix()
    return Template(source).substitute(palette.colours(), icons=icons, scheme=palette.name)


def set_role(widget: QWidget, role: str) -> None:
    """Give a widget its role, also after it was shown."""
    set_state(widget, "role", role)


def set_state(widget: QWidget, name: str, value: object) -> None:
    """Set a property that the style sheet selects on, and restyle the widget."""
    if widget.property(name) == value:
        return
    widget.setProperty(name, value)
    widget.style().unpolish(widget)
    widget.style().polish(widget)
