"""How long the window stands still while the real app trains.

    python -m tests.bench.event_loop_gap [--config F] [--set KEY=VALUE] [--no-warm-up] [--trace F]

Starts the app without a screen, presses Start, and reports the gaps between two turns of a 2 ms
timer in the GUI thread until the run has finished, with the stage in which they fell. Exits with 1
if p99 is 33 ms or more or any gap is over 200 ms. `--trace` writes all threads' stacks during gaps
over 60 ms.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QObject, Qt, QTimer

from app.application import Application, make_qt_application
from app.paths import AppPaths
from app.training.messages import JobDone, JobFailed
from trainer_core.events import Finished, Stage, Step

TIMER_MS = 2
TRACE_S = 0.06
P99_LIMIT_S = 0.033
LARGEST_LIMIT_S = 0.2


@dataclass
class Gaps:
    """Gaps in seconds, each with the stage in which it ended."""

    seconds: list[float] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)

    def report(self) -> tuple[float, float]:
        """Print the figures; returns p99 and the largest."""
        values = np.array(self.seconds)
        p50, p99 = np.percentile(values, [50, 99])
        print(
            f"{len(values)} turns in {values.sum():.1f} s: p50 {p50 * 1e3:.1f} ms, "
            f"p99 {p99 * 1e3:.1f} ms, largest {values.max() * 1e3:.0f} ms"
        )
        for stage in dict.fromkeys(self.stages):
            part = values[[s == stage for s in self.stages]]
            print(
                f"  {stage:<24} {part.sum():7.1f} s  p99 {np.percentile(part, 99) * 1e3:6.1f} ms"
                f"  largest {part.max() * 1e3:6.0f} ms"
            )
        print("largest gaps:")
        for i in np.argsort(values)[::-1][:8]:
            print(f"  {values[i] * 1e3:6.0f} ms  at {self.moments[i]:6.2f} s  in {self.stages[i]}")
        return float(p99), float(values.max())


class Watch(QObject):
    """Presses Start and watches until the run has ended."""

    def __init__(self, application: Application, warm_up: bool, trace: IO[str] | None) -> None:
        super().__init__()
        self.gaps = Gaps()
        self.outcome = ""
        self._application = application
        self._warm_up = warm_up
        self._trace = trace
        self._stage = "start"
        self._last = 0.0
        self._began = 0.0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(TIMER_MS)
        self._timer.timeout.connect(self._on_turn)
        application.session.drained.connect(self._on_drained)
        if not warm_up:
            QTimer.singleShot(0, self._start)

    def _start(self) -> None:
        self._warm_up = False
        self._began = self._last = time.perf_counter()
        self._timer.start()
        self._application.window.actions_table.start.trigger()
        if not self._application.session.run.active:
            self.outcome = self._application.form.status
            self._application.window.close()

    def _on_turn(self) -> None:
        now = time.perf_counter()
        self.gaps.seconds.append(now - self._last)
        self.gaps.stages.append(self._stage)
        self.gaps.moments.append(now - self._began)
        self._last = now
        if self._trace is not None:
            faulthandler.dump_traceback_later(TRACE_S, file=self._trace)

    def _on_drained(self, messages: list[object]) -> None:
        for message in messages:
            match message:
                case JobDone("warm-up") if self._warm_up:
                    QTimer.singleShot(300, self._start)
                case Stage():
                    self._stage = f"{message.stage}: {message.message}"[:24]
                case Step():
                    self._stage = "train: steps"
                case Finished():
                    self.outcome = message.reason
                case JobFailed():
                    self.outcome = f"{message.what}: {message.why}"
            over = isinstance(message, JobDone | JobFailed) and message.job == "train"
            if over or isinstance(message, JobFailed):
                self._timer.stop()
                faulthandler.cancel_dump_traceback_later()
                QTimer.singleShot(0, self._application.window.close)


def measure(
    *,
    config: Path | None,
    changes: Sequence[str],
    warm_up: bool = True,
    trace: IO[str] | None = None,
) -> tuple[Gaps, str]:
    """Run the app once; returns the gaps and how the run ended."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        qt = make_qt_application(["burnish"])
        application = Application(qt, AppPaths(home / "config", home / "log"))
        if config is not None:
            application.commands.open_config(config)
        for change in changes:
            key, _, text = change.partition("=")
            application.form.set_value(key, text)
        application.form.set_value("output", str(home / "runs"))
        watch = Watch(application, warm_up, trace)
        application.open()
        qt.exec()
        application.shut_down()
        return watch.gaps, watch.outcome


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, help="a configuration; the sample by default")
    parser.add_argument("--set", action="append", default=["iters=20"], metavar="KEY=VALUE")
    parser.add_argument("--no-warm-up", action="store_true", help="press Start at once")
    parser.add_argument("--trace", type=Path, help="file for stacks during long gaps")
    options = parser.parse_args(arguments)
    trace = options.trace.open("w") if options.trace else None
    gaps, outcome = measure(
        config=options.config, changes=options.set, warm_up=not options.no_warm_up, trace=trace
    )
    if outcome != "done":
        print(f"the run did not finish: {outcome}", file=sys.stderr)
        return 2
    p99, largest = gaps.report()
    return 0 if p99 < P99_LIMIT_S and largest <= LARGEST_LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
