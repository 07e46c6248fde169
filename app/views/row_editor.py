"""Other text for one row: a field for each of its columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLabel,
    QPlainTextEdit,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.views.theme import set_role, set_state

FIRST_SIZE = QSize(640, 520)


class RowEditor(QDialog):
    """Edits a row's columns. What is not text is written as JSON.

    Signals:
        saved(dict): the new values.
    """

    saved = Signal(dict)

    def __init__(self, title: str, values: Mapping[str, Any], parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.resize(FIRST_SIZE)
        self._values = values
        self.fields: dict[str, QPlainTextEdit] = {}
        self.error = QLabel()
        self.error.setWordWrap(True)
        set_role(self.error, "error")
        self.error.hide()
        form = QWidget()
        column = QVBoxLayout(form)
        column.setContentsMargins(0, 0, 8, 0)
        for name, value in values.items():
            label = QLabel(name)
            set_role(label, "field")
            field = QPlainTextEdit(_as_text(value))
            field.setAccessibleName(name)
            field.setTabChangesFocus(True)
            label.setBuddy(field)
            column.addWidget(label)
            column.addWidget(field, 1)
            self.fields[name] = field
        scroll = QScrollArea()
        scroll.setWidget(form)
        scroll.setWidgetResizable(True)
        note = QLabel("The file stays as it is; the change is kept beside the configuration.")
        set_role(note, "small")
        self.buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel
        )
        self.buttons.accepted.connect(self._on_save)
        self.buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(scroll, 1)
        layout.addWidget(self.error)
        layout.addWidget(note)
        layout.addWidget(self.buttons)

    def _on_save(self) -> None:
        made: dict[str, Any] = {}
        for name, field in self.fields.items():
            try:
                made[name] = self._value(name)
            except (ValueError, RecursionError) as error:
                self.error.setText(f"{name} is not valid JSON: {error}.")
                self.error.show()
                set_state(field, "invalid", True)
                field.setFocus()
                return
            set_state(field, "invalid", False)
        self.saved.emit(made)
        self.accept()

    def _value(self, name: str) -> Any:
        text, before = self.fields[name].toPlainText(), self._values[name]
        # Qt writes every end of line its own way, so what was not touched stays.
        if text == _as_text(before).replace("\r\n", "\n").replace("\r", "\n"):
            return before
        return text if isinstance(before, str) else json.loads(text)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
