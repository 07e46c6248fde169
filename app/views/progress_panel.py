"""The strip under the plots: what is going on, how far, how fast, how long."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QVBoxLayout, QWidget

from app.viewmodels.progress_vm import ProgressViewModel
from app.views.palette import SPACE
from app.views.theme import set_state

TICKS = 1000


class ProgressPanel(QWidget):
    """Bar and figures of the run."""

    def __init__(self, vm: ProgressViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self._brief = False
        self._headline = QLabel()
        self._headline.setProperty("role", "heading")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName("Progress of the run")
        self._figures: dict[str, tuple[QLabel, QLabel]] = {}
        top = QHBoxLayout()
        top.setSpacing(6)
        top.addWidget(self._headline)
        top.addStretch(1)
        for key, name in (
            ("steps", "Step"),
            ("eta", "Time left"),
            ("speed", "Speed"),
            ("memory", "Peak memory"),
        ):
            label, value = QLabel(name), QLabel()
            label.setProperty("role", "small")
            value.setProperty("role", "value")
            top.addSpacing(14)
            top.addWidget(label)
            top.addWidget(value)
            self._figures[key] = (label, value)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE * 3 // 2, SPACE, SPACE * 3 // 2, SPACE + 2)
        layout.setSpacing(SPACE - 2)
        layout.addLayout(top)
        layout.addWidget(self._bar)
        vm.changed.connect(self.refresh)
        self.refresh()

    def set_brief(self, brief: bool) -> None:
        """Take no room while nothing is going on."""
        self._brief = brief
        self.refresh()

    def refresh(self) -> None:
        """Show the view-model as it is now."""
        vm = self._vm
        self.setVisible(vm.busy or not self._brief)
        self._headline.setText(vm.headline)
        if vm.busy and vm.fraction is None:
            self._bar.setRange(0, 0)
        else:
            self._bar.setRange(0, TICKS)
            self._bar.setValue(round((vm.fraction or 0.0) * TICKS))
        set_state(self._bar, "level", vm.level)
        texts = {
            "steps": vm.steps_text,
            "eta": vm.eta_text,
            "speed": vm.speed_text,
            "memory": vm.memory_text,
        }
        for key, (label, value) in self._figures.items():
            value.setText(texts[key])
            label.setVisible(bool(texts[key]))
            value.setVisible(bool(texts[key]))
