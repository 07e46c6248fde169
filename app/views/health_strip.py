"""What is worth attention in the run, above the plots: a sentence and a button each."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.viewmodels.health import Finding
from app.viewmodels.health_vm import HealthViewModel
from app.views.theme import set_role

MOST_SHOWN = 2


class HealthStrip(QFrame):
    """The newest findings; takes no room while there are none.

    Signals:
        asked(str): the action of a finding.
    """

    asked = Signal(str)

    def __init__(self, vm: HealthViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "notice")
        self.setProperty("level", "warning")
        self.setAccessibleName("Worth a look")
        self._vm = vm
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(12, 6, 8, 6)
        self._column.setSpacing(4)
        vm.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the findings as they are now."""
        while (item := self._column.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for finding in self._vm.findings[-MOST_SHOWN:]:
            self._column.addWidget(self._line(finding))
        self.setVisible(bool(self._vm.findings))

    def _line(self, finding: Finding) -> QWidget:
        line = QWidget()
        row = QHBoxLayout(line)
        row.setContentsMargins(0, 0, 0, 0)
        where = f"Step {finding.step:,}: " if finding.step else ""
        label = QLabel(where + finding.text)
        label.setWordWrap(True)
        row.addWidget(label, 1)
        if finding.action:
            button = QPushButton(finding.button)
            button.setAutoDefault(False)
            button.clicked.connect(lambda: self.asked.emit(finding.action))
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)
        away = QPushButton("\N{MULTIPLICATION SIGN}")
        away.setAccessibleName("Put away")
        away.setToolTip("Put away")
        away.setAutoDefault(False)
        set_role(away, "quiet")
        away.clicked.connect(lambda: self._vm.dismiss(finding.key))
        row.addWidget(away, 0, Qt.AlignmentFlag.AlignVCenter)
        return line
