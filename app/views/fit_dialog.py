"""The fit meter's details: memory by part, two real steps, and what would need less."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.viewmodels.field_text import show_value
from app.viewmodels.fit_vm import PARTS, FitViewModel
from app.viewmodels.wording import gigabytes, sentence_case
from app.views.fit_meter import FitBar, part_colour
from app.views.palette import SPACE
from app.views.theme import Theme, set_role
from trainer_core.config import options
from trainer_core.memory.advice import Advice

WIDTH = 600


class FitDialog(QDialog):
    """Follows the form while it is open."""

    def __init__(self, vm: FitViewModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self._theme = theme
        self.setWindowTitle("Memory")
        self.setMinimumWidth(WIDTH)
        self.title = QLabel()
        set_role(self.title, "title")
        self.notes = QLabel()
        self.notes.setWordWrap(True)
        set_role(self.notes, "muted")
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        set_role(self.problem, "error")
        self.bar = FitBar(vm, theme)
        self._parts = QGridLayout()
        self._parts.setHorizontalSpacing(SPACE)
        self._parts.setVerticalSpacing(4)
        self.advice_title = QLabel()
        set_role(self.advice_title, "heading")
        self._advice = QGridLayout()
        self._advice.setHorizontalSpacing(SPACE * 2)
        self._advice.setVerticalSpacing(6)
        self.applied: list[QPushButton] = []
        self.measure = QPushButton("Measure")
        self.measure.setToolTip("Load the model and take two steps on the longest rows")
        self.measure.clicked.connect(self._on_measure_clicked)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(self.measure, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 18, 20, 16)
        column.setSpacing(SPACE)
        for widget in (self.title, self.bar, self.notes):
            column.addWidget(widget)
        column.addLayout(self._parts)
        column.addSpacing(4)
        column.addWidget(self.advice_title)
        column.addLayout(self._advice)
        column.addWidget(self.problem)
        column.addStretch(1)
        column.addWidget(buttons)
        vm.changed.connect(self.refresh)
        theme.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the estimate as it is now."""
        vm = self._vm
        self.title.setText(sentence_case(vm.summary))
        self.notes.setText("\n".join(vm.notes))
        self.bar.refresh()
        self._show_parts()
        self._show_advice()
        self.problem.setText(vm.measure_error)
        self.problem.setVisible(bool(vm.measure_error))
        self.measure.setText("Stop measuring" if vm.measuring else "Measure")
        self.measure.setEnabled(vm.measuring or vm.can_measure)
        QTimer.singleShot(0, self, self._fit)

    def _show_parts(self) -> None:
        _clear(self._parts)
        found = self._vm.fit
        for row, (name, size) in enumerate(found.parts.items() if found else ()):
            sign = QLabel()
            sign.setFixedSize(10, 10)
            colour = part_colour(self._theme.palette, row).name()
            sign.setStyleSheet(f"background: {colour}; border-radius: 3px;")
            value = QLabel(gigabytes(size))
            self._parts.addWidget(sign, row, 0, Qt.AlignmentFlag.AlignVCenter)
            self._parts.addWidget(QLabel(PARTS[name]), row, 1)
            self._parts.addWidget(value, row, 2, Qt.AlignmentFlag.AlignRight)
        self._parts.setColumnStretch(1, 1)

    def _show_advice(self) -> None:
        _clear(self._advice)
        self.applied = []
        found = self._vm.fit
        advice = found.advice if found else ()
        self.advice_title.setVisible(bool(advice))
        self.advice_title.setText(
            "What would need less, the least harmful first"
            if self._vm.fits
            else "To make it fit, the least harmful first"
        )
        before = self._vm.total
        for row, one in enumerate(advice):
            self._advice.addWidget(_change(one), row, 0)
            arrow = "\N{RIGHTWARDS ARROW}"
            step = QLabel(f"{gigabytes(before)} {arrow} {gigabytes(one.total)}")
            self._advice.addWidget(step, row, 1, Qt.AlignmentFlag.AlignRight)
            button = QPushButton("Apply" if row == 0 else "Apply to here")
            button.setAutoDefault(False)
            button.clicked.connect(lambda _=False, chosen=one: self._vm.apply(chosen))
            self.applied.append(button)
            self._advice.addWidget(button, row, 2, Qt.AlignmentFlag.AlignVCenter)
            before = one.total
        self._advice.setColumnStretch(0, 1)

    def _on_measure_clicked(self) -> None:
        if self._vm.measuring:
            self._vm.stop_measuring()
        else:
            self._vm.measure()

    def _fit(self) -> None:
        """As high as the words need at this width."""
        layout = self.layout()
        if layout is not None and self.isVisible():
            layout.activate()
            self.resize(self.width(), layout.totalHeightForWidth(self.width()))


def change_text(advice: Advice) -> str:
    """A change in the form's words: `Segment size 2`."""
    labels = options()
    return ", ".join(f"{labels[key].label} {show_value(v)}" for key, v in advice.change.items())


def _change(advice: Advice) -> QWidget:
    """A change, and below it what it costs."""
    what, cost = QLabel(change_text(advice)), QLabel(advice.cost[:1].upper() + advice.cost[1:])
    set_role(cost, "small")
    for label in (what, cost):
        label.setWordWrap(True)
    box = QWidget()
    column = QVBoxLayout(box)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    column.addWidget(what)
    column.addWidget(cost)
    return box


def _clear(grid: QGridLayout) -> None:
    while (item := grid.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.deleteLater()
