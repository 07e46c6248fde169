"""The runs that wait, above the list of runs; takes no room while none does."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.viewmodels.queue_vm import QueuedRun, QueueViewModel
from app.viewmodels.wording import count
from app.views.field_elided import ElidedLabel
from app.views.theme import set_role


class QueueStrip(QFrame):
    """One line for each waiting run.

    Signals:
        go_on_asked: take runs again.
    """

    go_on_asked = Signal()

    def __init__(self, vm: QueueViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "card")
        self._vm = vm
        self.heading = QLabel()
        set_role(self.heading, "heading")
        self.go_on = QPushButton("Start the queue")
        self.go_on.setAutoDefault(False)
        self.go_on.clicked.connect(self.go_on_asked)
        head = QHBoxLayout()
        head.addWidget(self.heading)
        head.addStretch(1)
        head.addWidget(self.go_on)
        self._lines = QVBoxLayout()
        self._lines.setSpacing(2)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 9, 12, 9)
        layout.addLayout(head)
        layout.addLayout(self._lines)
        vm.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the line as it is now."""
        while (item := self._lines.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for place, run in enumerate(self._vm.runs):
            self._lines.addWidget(self._line(place, run))
        n = len(self._vm.runs)
        held = ", held" if self._vm.held else ""
        self.heading.setText(f"{count(n, 'run')} waiting{held}")
        self.go_on.setVisible(self._vm.held)
        self.setVisible(n > 0)

    def _line(self, place: int, run: QueuedRun) -> QWidget:
        line = QWidget()
        row = QHBoxLayout(line)
        row.setContentsMargins(0, 0, 0, 0)
        label = ElidedLabel(f"{place + 1}. {run.title}")
        row.addWidget(label, 1)
        sooner = QPushButton("Sooner")
        sooner.setEnabled(place > 0)
        sooner.clicked.connect(lambda: self._vm.sooner(run.number))
        remove = QPushButton("Remove")
        remove.clicked.connect(lambda: self._vm.remove(run.number))
        for button in (sooner, remove):
            button.setAutoDefault(False)
            button.setAccessibleName(f"{button.text()}: {run.title}")
            set_role(button, "quiet")
            row.addWidget(button)
        return line
