"""What is worth a person's attention in the run on show."""

from __future__ import annotations

import psutil
from PySide6.QtCore import QObject, Signal

from app.viewmodels.curves_vm import CurvesViewModel
from app.viewmodels.health import Finding, Health
from trainer_core.events import Event, Started


class HealthViewModel(QObject):
    """Findings of the run on show, the newest last. Marks them on the curves.

    Signals:
        changed: another finding, or one was put away.
    """

    changed = Signal()

    def __init__(self, curves: CurvesViewModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._curves = curves
        self._rules = Health()
        self._dirty = False
        self.findings: list[Finding] = []

    def take(self, event: Event) -> None:
        """Note an event; `flush` tells the view."""
        if isinstance(event, Started):
            self._rules = Health(_memory_of(event.device))
            self._dirty |= bool(self.findings)
            self.findings = []
        for finding in self._rules.take(event):
            self.findings.append(finding)
            if finding.step:
                self._curves.mark(finding.step, finding.text)
            self._dirty = True

    def flush(self) -> None:
        """Tell the view once about everything taken since the last time."""
        if self._dirty:
            self._dirty = False
            self.changed.emit()

    def dismiss(self, key: str) -> None:
        """Put a finding away; it does not come again in this run."""
        self.findings = [finding for finding in self.findings if finding.key != key]
        self.changed.emit()


def _memory_of(device: str) -> int | None:
    """Bytes that a run may fill: the machine's, unless a graphics card has its own."""
    own = any(name in device for name in ("NVIDIA", "CUDA", "GPU 0"))
    return None if own else int(psutil.virtual_memory().total)
