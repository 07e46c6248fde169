"""The controls of the form, one class per kind of value, behind one small interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)
from typing_extensions import override

from app.views.field_edits import NumberEdit
from app.views.segmented import SegmentedControl
from app.views.theme import set_state


class FieldControl(QWidget):
    """What a field of the form looks like to its owner.

    Signals:
        edited(value): the user changed it; text or a value.
        stepped(n): the user asked for n steps up.
        finished: the user left it, so its text may be tidied.
    """

    edited = Signal(object)
    stepped = Signal(int)
    finished = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.row = QHBoxLayout(self)
        self.row.setContentsMargins(0, 0, 0, 0)
        self.row.setSpacing(8)
        self._busy = False

    def show_text(self, value: Any, text: str) -> None:
        """Show a value, given also as text; not while the user's own edit is on its way."""
        if not self._busy:
            self._show(value, text)

    def set_surroundings(self, placeholder: str, unit: str) -> None:
        """What an empty field stands for, and what follows the value."""

    def set_usable(self, choices: tuple[Any, ...]) -> None:
        """The values that can be chosen now."""

    def set_invalid(self, invalid: bool) -> None:
        """Mark the value as wrong."""

    def is_being_typed(self) -> bool:
        """Whether the user is in the middle of a text."""
        return False

    def _show(self, value: Any, text: str) -> None:
        raise NotImplementedError

    def _take(self, value: Any) -> None:
        self._busy = True
        self.edited.emit(value)
        self._busy = False


class TextControl(FieldControl):
    """One line of text."""

    def __init__(
        self, name: str, edit: QLineEdit | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.edit = edit or QLineEdit()
        self.edit.setAccessibleName(name)
        self.edit.textEdited.connect(self._take)
        self.edit.editingFinished.connect(self.finished)
        self.row.addWidget(self.edit, 1)
        self.setFocusProxy(self.edit)

    @override
    def set_surroundings(self, placeholder: str, unit: str) -> None:
        self.edit.setPlaceholderText(placeholder)

    @override
    def set_invalid(self, invalid: bool) -> None:
        set_state(self.edit, "invalid", invalid)

    @override
    def is_being_typed(self) -> bool:
        return self.edit.hasFocus() and self.edit.isModified()

    @override
    def _show(self, value: Any, text: str) -> None:
        if self.edit.text() != text:
            self.edit.setText(text)


class LinesControl(FieldControl):
    """Texts, one a line."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.edit = QPlainTextEdit()
        self.edit.setAccessibleName(name)
        self.edit.setTabChangesFocus(True)
        self.edit.setFixedHeight(4 * self.edit.fontMetrics().lineSpacing() + 12)
        self.edit.textChanged.connect(self._on_changed)
        self.row.addWidget(self.edit, 1)
        self.setFocusProxy(self.edit)

    @override
    def set_surroundings(self, placeholder: str, unit: str) -> None:
        self.edit.setPlaceholderText(placeholder or "One a line")

    @override
    def set_invalid(self, invalid: bool) -> None:
        set_state(self.edit, "invalid", invalid)

    @override
    def is_being_typed(self) -> bool:
        return self.edit.hasFocus()

    @override
    def _show(self, value: Any, text: str) -> None:
        shown = "\n".join(value) if isinstance(value, list) else text
        if self.edit.toPlainText() != shown:
            with QSignalBlocker(self.edit):
                self.edit.setPlainText(shown)

    def _on_changed(self) -> None:
        self._take(self.edit.toPlainText())


class NumberControl(TextControl):
    """A number as text, with its unit."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._number = NumberEdit()
        super().__init__(name, self._number, parent)
        self._number.stepped.connect(self.stepped)

    @override
    def set_surroundings(self, placeholder: str, unit: str) -> None:
        super().set_surroundings(placeholder, unit)
        self._number.set_unit(unit)


class SegmentsControl(FieldControl):
    """A few choices in view."""

    def __init__(
        self, name: str, choices: Mapping[Any, str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.segments = SegmentedControl(name, choices)
        self.segments.chosen.connect(self._take)
        self.row.addWidget(self.segments, 1)
        self.setFocusProxy(self.segments)

    @override
    def set_usable(self, choices: tuple[Any, ...]) -> None:
        self.segments.set_usable(choices)

    @override
    def _show(self, value: Any, text: str) -> None:
        self.segments.set_value(value)


class ListControl(FieldControl):
    """Many choices in a list that drops down."""

    def __init__(
        self, name: str, choices: Mapping[Any, str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._labels = dict(choices)
        self.box = CalmComboBox()
        self.box.setAccessibleName(name)
        self.box.activated.connect(lambda index: self._take(self.box.itemData(index)))
        self.row.addWidget(self.box, 1)
        self.setFocusProxy(self.box)
        self.set_usable(tuple(choices))

    @override
    def set_usable(self, choices: tuple[Any, ...]) -> None:
        if [self.box.itemData(i) for i in range(self.box.count())] != list(choices):
            self.box.clear()
            for value in choices:
                self.box.addItem(self._labels[value], value)

    @override
    def _show(self, value: Any, text: str) -> None:
        self.box.setCurrentIndex(self.box.findData(value))


class FlagControl(FieldControl):
    """Yes or no, with the field's name beside the box."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.box = QCheckBox(name)
        self.box.clicked.connect(self._take)
        self.row.addWidget(self.box, 1)
        self.setFocusProxy(self.box)

    @override
    def _show(self, value: Any, text: str) -> None:
        self.box.setChecked(bool(value))


class StopsControl(FieldControl):
    """Named stops, such as Auto and Off, and a number for everything else."""

    def __init__(
        self,
        name: str,
        stops: Mapping[Any, str],
        other: str | None,
        first: str,
        parent: QWidget | None = None,
    ) -> None:
        """`other` labels the choice of a number, if there is one; `first` is what it starts at."""
        super().__init__(parent)
        self._stops, self._number = dict(stops), first
        self.segments = SegmentedControl(name, self._stops | ({None: other} if other else {}))
        self.number = NumberControl(name)
        self.number.setMaximumWidth(120)
        self.segments.chosen.connect(self._choose)
        self.number.edited.connect(self._take)
        self.number.stepped.connect(self.stepped)
        self.number.finished.connect(self.finished)
        self.row.addWidget(self.segments, 1)
        self.row.addWidget(self.number)
        self.setFocusProxy(self.segments)

    @override
    def set_surroundings(self, placeholder: str, unit: str) -> None:
        self.number.set_surroundings("", unit)

    @override
    def set_invalid(self, invalid: bool) -> None:
        self.number.set_invalid(invalid)

    @override
    def is_being_typed(self) -> bool:
        return self.number.is_being_typed()

    def _choose(self, stop: Any) -> None:
        self.edited.emit(self._number if stop is None else stop)

    @override
    def _show(self, value: Any, text: str) -> None:
        at_stop = value in self._stops
        self.segments.set_value(value if at_stop else None)
        self.number.setVisible(not at_stop)
        if not at_stop:
            self._number = text
            self.number.show_text(value, text)


class CalmComboBox(QComboBox):
    """A combo box that leaves the wheel to the form unless it has the focus."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    @override
    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()
