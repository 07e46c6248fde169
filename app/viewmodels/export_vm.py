"""The export of an adapter: asked for, at work, proven or failed."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.viewmodels.progress_vm import STAGES
from app.viewmodels.wording import count, number
from trainer_core.events import Event, Stage
from trainer_core.export.report import ExportReport


class ExportState(Enum):
    """The life of an export."""

    IDLE = "idle"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class ExportViewModel(QObject):
    """What the export dialog shows.

    Attributes:
        state: see `ExportState`.
        source: the run that is exported.
        folder: where to.
        message: what is going on, or what went wrong.
        figures: label and value of what the proof measured.
        command: the line that tries the exported adapter with mlx-lm.

    Signals:
        changed: any of them.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = ExportState.IDLE
        self.source: Path | None = None
        self.folder: Path | None = None
        self.message = ""
        self.command = ""
        self.figures: list[tuple[str, str]] = []
        self._dirty = False

    def begin(self, source: Path, folder: Path) -> None:
        """Export was pressed and a folder chosen."""
        self.state = ExportState.RUNNING
        self.source = source
        self.folder = folder
        self.message = "Waiting for the engine"
        self.figures = []
        self.command = ""
        self.changed.emit()

    def take(self, event: Event) -> None:
        """Note what the engine is doing; `flush` tells the view."""
        if isinstance(event, Stage):
            self.message = event.message or STAGES.get(event.stage, event.stage)
            self._dirty = True

    def flush(self) -> None:
        """Tell the view once about everything taken since the last time."""
        if self._dirty:
            self._dirty = False
            self.changed.emit()

    def succeed(self, report: ExportReport) -> None:
        """The export is written and proven."""
        self.state = ExportState.DONE
        self.folder = report.folder
        self.message = (
            "mlx-lm loaded the exported adapter and it answers as the trained one does, "
            f"on {count(len(report.prompts), 'prompt')}."
        )
        self.figures = [
            ("Folder", str(report.folder)),
            (
                "Largest logit difference",
                f"{number(report.logits_difference)} (largest logit {number(report.logits_scale)})",
            ),
            ("Same likeliest token", f"{report.same_choices:.1%} of positions"),
        ]
        self.command = report.command
        self.changed.emit()

    def fail(self, text: str) -> None:
        """The export did not work, or did not prove itself."""
        self.state = ExportState.FAILED
        self.message = text
        self.changed.emit()
