"""Which column of a file is what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QVBoxLayout,
    QWidget,
)

from app.views.theme import set_role

NOT_THERE = "\N{EN DASH}"
_PAIRS = ("prompt", "chosen", "rejected", "system")
_ANSWERS = ("prompt", "completion", "messages", "text", "input", "system")
_MEANS = {
    "prompt": "Prompt",
    "completion": "Answer",
    "chosen": "Preferred answer",
    "rejected": "Rejected answer",
    "messages": "Whole conversation",
    "text": "Plain text",
    "input": "More context for the prompt",
    "system": "System prompt",
}


class ColumnsDialog(QDialog):
    """A choice of a file's columns for each part of a row.

    Signals:
        chosen(object): our names -> the file's, or None if the file's own names are ours.
    """

    chosen = Signal(object)

    def __init__(
        self,
        columns: Sequence[str],
        mapping: Mapping[str, str],
        *,
        pairs: bool,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Columns")
        self.setMinimumWidth(420)
        self.boxes: dict[str, QComboBox] = {}
        wanted = list(_PAIRS if pairs else _ANSWERS)
        wanted += [name for name in mapping if name not in wanted]
        form = QFormLayout()
        for name in wanted:
            box = QComboBox()
            box.addItems([NOT_THERE, *columns])
            box.setCurrentText(mapping.get(name) or (name if name in columns else NOT_THERE))
            box.setAccessibleName(_MEANS.get(name, name))
            form.addRow(_MEANS.get(name, name), box)
            self.boxes[name] = box
        note = QLabel("Columns that are not chosen here keep their own names.")
        set_role(note, "small")
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.accepted.connect(self._on_accepted)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        layout.addWidget(note)
        layout.addWidget(buttons)

    def _on_accepted(self) -> None:
        made = {
            name: box.currentText()
            for name, box in self.boxes.items()
            if box.currentText() not in (NOT_THERE, name)
        }
        # Alpaca's `input` belongs to `instruction`.
        if "input" in made and "prompt" in made:
            made["instruction"] = made.pop("prompt")
        self.chosen.emit(made or None)
        self.accept()
