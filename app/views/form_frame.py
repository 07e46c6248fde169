"""The frame of a field: label, help, reset, the control, and what is wrong with it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QEnterEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolTip, QVBoxLayout, QWidget
from typing_extensions import override

from app.views.field_widgets import FieldControl
from app.views.form_glyphs import GlyphButton
from app.views.theme import set_role


class ErrorLabel(QLabel):
    """What is wrong, below the field; takes no room while nothing is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWordWrap(True)
        set_role(self, "error")
        self.hide()

    def show_problem(self, text: str) -> None:
        """Show a clause as a sentence, or nothing."""
        self.setText(f"{text[0].upper()}{text[1:]}." if text else "")
        self.setVisible(bool(text))


class FieldFrame(QWidget):
    """Puts a label row above a control and an error below it. Knows nothing of options.

    Signals:
        reset_wanted: the user wants the default back.
    """

    reset_wanted = Signal()

    def __init__(self, label: str, control: FieldControl, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.control = control
        self.label = QLabel(label)
        self.label.setBuddy(control)
        set_role(self.label, "field")
        self.help = GlyphButton("help", f"Help on {label}")
        self.help.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.help.clicked.connect(self._show_help)
        self.reset = GlyphButton("reset", f"Reset {label} to its default")
        self.reset.clicked.connect(self.reset_wanted)
        self.error = ErrorLabel(self)
        for button in (self.help, self.reset):
            policy = button.sizePolicy()
            policy.setRetainSizeWhenHidden(True)
            button.setSizePolicy(policy)
        self.help.hide()
        self.reset.hide()
        self.head = QHBoxLayout()
        self.head.setSpacing(4)
        self.head.addWidget(self.label)
        self.head.addWidget(self.help)
        self.head.addStretch(1)
        self.head.addWidget(self.reset)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(self.head)
        column.addWidget(control)
        column.addWidget(self.error)
        column.addStretch(1)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)

    def show_help(self, text: str, spoken: str) -> None:
        """The tool tip of everything in the frame, and its plain form for a screen reader."""
        self.setToolTip(text)
        (self.control.focusProxy() or self.control).setAccessibleDescription(spoken)

    def show_error(self, text: str) -> None:
        """What is wrong, or an empty string."""
        self.error.show_problem(text)
        self.control.set_invalid(bool(text))

    def show_usable(self, usable: bool, resettable: bool) -> None:
        """Whether the field has an effect, and whether it differs from its default."""
        self.control.setEnabled(usable)
        self.label.setEnabled(usable)
        self.reset.setVisible(usable and resettable)

    @override
    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.help.show()

    @override
    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.help.hide()

    def _show_help(self) -> None:
        QToolTip.showText(
            self.help.mapToGlobal(self.help.rect().bottomLeft()), self.toolTip(), self
        )
