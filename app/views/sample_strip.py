"""The answers to the prompts of every validation, under the curves; the cursor scrubs them."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout

from app.viewmodels.samples_vm import SamplesViewModel
from app.views.field_widgets import CalmComboBox
from app.views.theme import set_role

LINES = 3


class SampleStrip(QFrame):
    """A prompt, the step, and the answer after it. Takes no room for a run without prompts."""

    def __init__(self, vm: SamplesViewModel) -> None:
        super().__init__()
        set_role(self, "card")
        self.setAccessibleName("Answers at every validation")
        self._vm = vm
        self.prompt = CalmComboBox()
        self.prompt.setAccessibleName("Prompt")
        self.prompt.setMinimumWidth(220)
        self.prompt.activated.connect(lambda i: vm.choose(self.prompt.itemText(i)))
        self.before = _arrow("\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}", "The answer before")
        self.after = _arrow("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}", "The answer after")
        self.before.clicked.connect(lambda: vm.move(-1))
        self.after.clicked.connect(lambda: vm.move(1))
        self.where = QLabel()
        set_role(self.where, "small")
        self.answer = QPlainTextEdit()
        self.answer.setReadOnly(True)
        self.answer.setAccessibleName("Answer")
        self.answer.setTabChangesFocus(True)
        self.answer.setFrameShape(QFrame.Shape.NoFrame)
        self.answer.setFixedHeight(LINES * self.answer.fontMetrics().lineSpacing() + 14)
        set_role(self.answer, "log")
        head = QHBoxLayout()
        head.addWidget(self.prompt, 1)
        head.addStretch(1)
        for widget in (self.where, self.before, self.after):
            head.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 6, 8, 6)
        column.setSpacing(4)
        column.addLayout(head)
        column.addWidget(self.answer)
        vm.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the answer at the cursor."""
        vm = self._vm
        self.setVisible(bool(vm.prompts))
        with QSignalBlocker(self.prompt):
            if [self.prompt.itemText(i) for i in range(self.prompt.count())] != vm.prompts:
                self.prompt.clear()
                self.prompt.addItems(vm.prompts)
            self.prompt.setCurrentText(vm.chosen)
        steps, step = vm.steps, vm.step
        self.where.setText("not answered yet" if step is None else f"after step {step:,}")
        self.before.setEnabled(step is not None and step > steps[0])
        self.after.setEnabled(step is not None and step < steps[-1])
        if self.answer.toPlainText() != vm.text:
            self.answer.setPlainText(vm.text)


def _arrow(text: str, name: str) -> QPushButton:
    button = QPushButton(text)
    button.setAccessibleName(name)
    button.setToolTip(name)
    button.setAutoDefault(False)
    set_role(button, "quiet")
    return button
