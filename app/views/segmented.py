"""A row of joined buttons of which one is on: all choices in view, one click each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QButtonGroup, QFrame, QHBoxLayout, QPushButton, QSizePolicy, QWidget
from typing_extensions import override

from app.views.theme import set_role


class SegmentedControl(QFrame):
    """Choices side by side. Left and right move between them, Tab reaches and leaves the row.

    Signals:
        chosen(value): the user took another choice.
    """

    chosen = Signal(object)

    def __init__(
        self, name: str, choices: Mapping[Any, str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        set_role(self, "segments")
        self.setAccessibleName(name)
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        self._buttons: dict[Any, _Segment] = {}
        row = QHBoxLayout(self)
        row.setContentsMargins(2, 2, 2, 2)
        row.setSpacing(2)
        for value, label in choices.items():
            button = _Segment(label, self)
            button.setAccessibleName(f"{name}: {label}")
            button.clicked.connect(lambda _checked, value=value: self.chosen.emit(value))
            self._group.addButton(button)
            self._buttons[value] = button
            row.addWidget(button)

    def button(self, value: Any) -> QPushButton | None:
        """The button of a choice."""
        return self._buttons.get(value)

    def value(self) -> Any:
        """The choice that is on, or None."""
        return next((value for value, button in self._buttons.items() if button.isChecked()), None)

    def set_value(self, value: Any) -> None:
        """Turn a choice on without a signal; one that is not there leaves none on."""
        button = self._buttons.get(value)
        self._group.setExclusive(button is not None)
        for other in self._buttons.values():
            other.setChecked(other is button)
        self.setFocusProxy(button or next(iter(self._buttons.values())))

    def set_usable(self, values: tuple[Any, ...]) -> None:
        """Show only the choices that can be taken now."""
        for value, button in self._buttons.items():
            button.setVisible(value in values)

    def step(self, steps: int) -> None:
        """Choose a neighbour of the choice that is on."""
        usable = [value for value, button in self._buttons.items() if not button.isHidden()]
        if self.value() in usable:
            place = usable.index(self.value()) + steps
            if 0 <= place < len(usable):
                button = self._buttons[usable[place]]
                button.setFocus(Qt.FocusReason.TabFocusReason)
                button.click()


class _Segment(QPushButton):
    def __init__(self, label: str, row: SegmentedControl) -> None:
        super().__init__(label, row)
        self._row = row
        self.setCheckable(True)
        self.setAutoDefault(False)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(0)
        set_role(self, "segment")

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if steps is None:
            super().keyPressEvent(event)
        else:
            self._row.step(steps)
