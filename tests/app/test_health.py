"""What is said of a run, and when: each rule at its threshold, with its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.viewmodels.curves_vm import CurvesViewModel
from app.viewmodels.health import Finding, Health
from app.viewmodels.health_vm import HealthViewModel
from app.views.health_strip import HealthStrip
from tests.app.run_events import started, step, validation
from trainer_core.events import Data, Event, Warned

RUN = Path("/runs/one")


def findings(events: Iterable[Event], memory: int | None = None) -> list[Finding]:
    rules = Health(memory)
    return [finding for event in events for finding in rules.take(event)]


def keys(events: Iterable[Event]) -> list[str]:
    return [finding.key for finding in findings(events)]


def test_validation_that_rises_three_times_in_a_row() -> None:
    events = [
        validation(n * 10, loss=loss) for n, loss in enumerate((2.0, 1.5, 1.6, 1.7, 1.8, 1.9))
    ]
    (found,) = findings(events)
    assert (found.key, found.step, found.action) == ("rising", 40, "stop")
    assert "1.8 now, 1.5 at step 10" in found.text


@pytest.mark.parametrize(
    "losses", [(2.0, 2.1, 2.1, 1.9, 2.0, 2.1), (2.0, 2.01, 2.01, 2.01), (2.0,)]
)
def test_validation_that_does_not(losses: tuple[float, ...]) -> None:
    assert keys(validation(n, loss=loss) for n, loss in enumerate(losses)) == []


@pytest.mark.parametrize("bad", [{"loss": math.nan}, {"grad_norm": math.inf}])
def test_a_step_that_is_not_a_number(bad: dict[str, float]) -> None:
    (found,) = findings([step(1), step(2, **bad), step(3, **bad)])
    assert (found.key, found.step) == ("nonfinite", 2)


def test_a_step_that_the_engine_left_out() -> None:
    said = Warned("nonfinite", "the loss of step 2 is not a finite number; the step was skipped")
    (found,) = findings([step(1), said])
    assert (found.key, found.step) == ("nonfinite", 2)
    assert found.text.startswith("The loss of step 2 is not a finite number")


def test_a_loss_that_grows_away() -> None:
    calm = [step(n, loss=2.0) for n in range(1, 21)]
    assert keys(calm) == []
    wild = [step(n, loss=3.0, accuracy=0.9) for n in range(21, 31)]
    (found,) = findings([*calm, *wild])
    assert (found.key, found.step) == ("diverging", 30)
    assert "1.5 times" in found.text
    assert "1.00e-4" in found.text or "0.0001" in found.text


def test_accuracy_at_chance_after_fifty_steps() -> None:
    even = [step(n, accuracy=float(n % 2)) for n in range(1, 50)]
    assert keys(even) == []
    (found,) = findings([*even, step(50, accuracy=0.0)])
    assert found.key == "chance"
    assert "50% over the last 50 steps" in found.text
    assert keys(step(n, accuracy=0.7) for n in range(1, 80)) == []


def test_both_answers_becoming_less_likely() -> None:
    def run(chosen: float, rejected: float) -> list[Event]:
        before: list[Event] = [
            step(n, logps_chosen=-10.0, logps_rejected=-20.0, accuracy=1.0) for n in range(1, 11)
        ]
        return before + [
            step(n, logps_chosen=chosen, logps_rejected=rejected, accuracy=1.0)
            for n in range(11, 31)
        ]

    (found,) = findings(run(-13.0, -40.0))
    assert found.key == "less_likely"
    assert "from -10 to -13" in found.text
    assert keys(run(-10.0, -40.0)) == []
    assert keys(run(-13.0, -20.0)) == []
    assert keys(run(-11.5, -40.0)) == []


def test_memory_near_the_limit() -> None:
    assert findings([step(1)], memory=2_000_000_000) == []
    (found,) = findings([step(1), step(2)], memory=1_300_000_000)
    assert (found.key, found.action) == ("memory", "segment_size")
    assert "1.24 GB of this machine's 1.30 GB" in found.text


def test_most_rows_cut() -> None:
    assert keys([Data(100, 100, 0, 50, 1, 1, 1)]) == []
    (found,) = findings([Data(100, 100, 0, 51, 1, 1, 1)])
    assert found.text.startswith("51 of 100 rows are cut")
    assert keys([Data(0, 0, 0, 0, 0, 0, 0)]) == []


@pytest.fixture
def strip(qtbot: QtBot) -> Iterator[tuple[HealthStrip, HealthViewModel, CurvesViewModel]]:
    holder = QWidget()
    qtbot.addWidget(holder)
    curves = CurvesViewModel(holder)
    health = HealthViewModel(curves, holder)
    made = HealthStrip(health)
    QVBoxLayout(holder).addWidget(made)
    holder.show()
    yield made, health, curves
    holder.close()


@pytest.mark.gui
def test_findings_are_shown_marked_and_put_away(
    qtbot: QtBot, strip: tuple[HealthStrip, HealthViewModel, CurvesViewModel]
) -> None:
    made, health, curves = strip
    health.take(started(RUN))
    health.flush()
    assert made.isHidden()
    health.take(step(7, loss=math.nan))
    health.flush()
    assert made.isVisible()
    assert made.findChild(QLabel).text().startswith("Step 7: The loss was not")  # type: ignore[union-attr]
    assert list(curves.alerts) == [7]
    show, away = made.findChildren(QPushButton)
    with qtbot.waitSignal(made.asked) as asked:
        qtbot.mouseClick(show, Qt.MouseButton.LeftButton)
    assert asked.args == ["learning_rate"]
    qtbot.mouseClick(away, Qt.MouseButton.LeftButton)
    assert made.isHidden()
    health.take(step(8, loss=math.nan))
    health.flush()
    assert made.isHidden()
    health.take(started(RUN))
    health.take(step(1, loss=math.nan))
    health.flush()
    assert not made.isHidden()
