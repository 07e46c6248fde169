"""The fit meter: what the form's run needs of this machine's memory, and what would need less."""

from __future__ import annotations

import sys

from PySide6.QtCore import QObject, QTimer, Signal

from app.reading.background import Background, Task
from app.reading.fit import Fit, fit
from app.reading.guess import LengthGuess
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.data_vm import DataViewModel
from app.viewmodels.session import Session
from app.viewmodels.wording import duration, gigabytes, number, sentence_case
from trainer_core.backend import Machine
from trainer_core.config import RunConfig
from trainer_core.errors import TrainerError
from trainer_core.memory import available_bytes
from trainer_core.memory.advice import Advice

SETTLE_MS = 200

PARTS = {
    "weights": "Weights",
    "optimiser": "Optimiser",
    "adapter": "Adapter",
    "gradients": "Gradients",
    "states": "States between segments",
    "layers": "Layers",
    "attention": "Attention scores",
    "head": "Head",
    "logits": "Logits",
    "update": "Update of the largest weight",
    "rest": "Everything else",
}


class FitViewModel(QObject):
    """Estimate and measurement of the form's run.

    Attributes:
        fit: the estimate; None while the form has problems, or if there is none.
        error: why there is none.
        measured: bytes at the peak and seconds a step, if two steps of this very run were taken.
        measuring: whether they are being taken.
        measure_error: why they could not be.

    Signals:
        changed: any of them.
    """

    changed = Signal()

    def __init__(
        self,
        session: Session,
        form: ConfigViewModel,
        data: DataViewModel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._form = form
        self._data = data
        self.fit: Fit | None = None
        self.error = ""
        self.measured: tuple[int, float] | None = None
        self.measuring = False
        self.measure_error = ""
        self._config: RunConfig | None = None
        self._free: int | None = None
        self._rows = 0
        self._guess = LengthGuess()
        self._task: Task | None = None
        self._line = Background("fit", self)
        self._settle = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle.timeout.connect(self.look)
        form.changed.connect(self._settle.start)
        data.changed.connect(self._on_data_changed)
        session.machine_known.connect(self._settle.start)
        session.run.changed.connect(self._settle.start)
        session.probed.connect(self._on_probed)
        self._settle.start()

    @property
    def total(self) -> int:
        """Bytes that the run needs: measured, or estimated."""
        if self.measured is not None:
            return self.measured[0]
        return self.fit.total if self.fit else 0

    @property
    def fits(self) -> bool:
        """Whether the run may be started with what is free."""
        return self.fit is None or self.total <= self.fit.room

    @property
    def summary(self) -> str:
        """The state of things in a few words."""
        if self.fit is None:
            return self.error
        about = "" if self.measured else "about "
        return f"{about}{gigabytes(self.total)} of {gigabytes(self.fit.available)} free"

    @property
    def notes(self) -> list[str]:
        """What the figures rest on, as sentences."""
        if self.fit is None:
            return []
        found: list[str] = []
        config = self.fit.config
        if self.measured is not None:
            seconds = self.measured[1]
            pace = duration(seconds) if seconds >= 60 else f"{number(seconds, digits=3)} s"
            found.append(f"Measured in two steps on the longest rows; {pace} a step.")
        elif self.fit.rows == "counted":
            found.append("Estimated from the longest of the real rows.")
        elif self.fit.rows == "guessed":
            found.append(
                "Estimated from the characters of the longest row, generously. "
                "Open the Data page to have its tokens counted."
            )
        else:
            found.append(
                f"Estimated for rows of {config.max_seq_length:,} tokens. "
                "Open the Data page to have the real rows counted."
            )
        size = config.segment_size
        found.append(
            f"Weights {config.weights}, head {config.head}, attention {config.attention}, "
            + ("the whole graph" if size == 0 else f"segments of {size}")
            + (", shared prompts" if config.prefix_sharing == "on" else "")
            + "."
        )
        if self._session.run.active:
            found.append("A run is going on; this is for when it has ended.")
        return found

    @property
    def can_measure(self) -> bool:
        """Whether two steps can be taken now."""
        return self._config is not None and not self.measuring and not self._session.busy

    def close(self) -> None:
        """Give everything up and wait for the thread."""
        self._settle.stop()
        self._line.close()

    def look(self) -> None:
        """Estimate the form's run."""
        config = self._form.config()
        if config != self._config:
            self.measured, self.measure_error = None, ""
        self._config = config
        if self._task is not None:
            self._task.cancel()
        if config is None:
            self.fit, self.error = None, "known once the form is complete"
            self.changed.emit()
            return
        machine, rows, measured = self._machine(), self._data.measured(config), self.measured
        self._rows = len(rows)
        peak = measured[0] if measured else None
        self._task = self._line.run(
            lambda task: fit(task, config, machine, rows, peak, self._guess),
            self._on_fit,
            failed=self._on_error,
        )

    def apply(self, advice: Advice) -> None:
        """Give the form a change, with those before it, on which it rests."""
        if self.fit is None or advice not in self.fit.advice:
            return
        change = {}
        for one in self.fit.advice[: self.fit.advice.index(advice) + 1]:
            change |= one.change
        self._form.take(change)

    def measure(self) -> None:
        """Take two real steps in the engine."""
        if self.can_measure and self._config is not None:
            self.measuring, self.measure_error = True, ""
            self._session.probe(self._config)
            self.changed.emit()

    def stop_measuring(self) -> None:
        """Give the measurement up."""
        self._session.stop_probe()

    def _machine(self) -> Machine:
        """What the run would be on; while another run is going on, with what was free before."""
        told = self._session.machine
        kind = told.kind if told else ("metal" if sys.platform == "darwin" else "cpu")
        if told is not None and kind == "cuda":
            return told
        if self._free is None or not (self._session.run.active or self.measuring):
            self._free = available_bytes()
        return Machine(kind, self._free)

    def _on_data_changed(self) -> None:
        config = self._config
        if config is not None and len(self._data.measured(config)) != self._rows:
            self._settle.start()

    def _on_fit(self, found: Fit) -> None:
        self.fit, self.error = found, ""
        self.changed.emit()

    def _on_error(self, error: TrainerError) -> None:
        self.fit, self.error = None, sentence_case(str(error))
        self.changed.emit()

    def _on_probed(self, result: object) -> None:
        self.measuring = False
        if isinstance(result, TrainerError):
            self.measure_error = sentence_case(str(result))
        elif isinstance(result, tuple):
            self.measured = result
            self._settle.start()
        self.changed.emit()
