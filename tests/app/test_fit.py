"""The fit meter: the same figures as the engine's own plan, followed, measured and applied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.reading.background import Task
from app.reading.fit import fit
from app.reading.guess import LengthGuess
from app.reading.rows import Measured
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.data_vm import DataViewModel
from app.viewmodels.fit_vm import FitViewModel
from app.viewmodels.row_edits import RowEdits
from app.viewmodels.session import Session
from app.views.fit_dialog import FitDialog, change_text
from app.views.fit_meter import FitMeter
from app.views.theme import Theme
from trainer_core.backend import Machine
from trainer_core.config import RunConfig
from trainer_core.errors import ModelError
from trainer_core.memory import Lengths, estimate
from trainer_core.plan import make_plan

pytestmark = pytest.mark.gui

WAIT_MS = 60_000


def task() -> Task:
    return Task(lambda _: None, lambda _: None, lambda _: None, None, None)


def config(golden: Path, **more: object) -> RunConfig:
    values = {
        "model": str(golden / "llama"),
        "data": str(golden / "llama" / "preference.jsonl"),
        "method": "orpo",
        "prompt_format": "raw",
        **more,
    }
    return RunConfig(**values)  # type: ignore[arg-type]


def test_the_figures_are_those_of_the_plan(golden: Path) -> None:
    machine = Machine("cpu", 8 * 10**9)
    wanted = make_plan(config(golden, max_seq_length=512), golden / "llama", None, machine)
    found = fit(task(), config(golden, max_seq_length=512), machine, [])
    needs = estimate(golden / "llama", wanted.config)
    assert found.config == wanted.config
    assert found.parts == needs.parts(wanted.config.weights)
    assert list(found.parts.values()) == sorted(found.parts.values(), reverse=True)
    assert found.total == sum(found.parts.values())
    assert found.fits
    assert found.rows == "assumed"


def test_real_rows_make_the_estimate_smaller_than_the_limit(golden: Path) -> None:
    machine = Machine("cpu", 8 * 10**9)
    short = [Measured(0, (40, 60), 100, 50, prompt=20), Measured(1, (50, 30), 80, 50, prompt=20)]
    assumed = fit(task(), config(golden), machine, [])
    known = fit(task(), config(golden), machine, short)
    assert known.rows == "counted"
    assert known.total < assumed.total / 2
    left_out = [Measured(0, (4000, 6000), 100, 50, problem="no answer is left"), *short]
    assert fit(task(), config(golden), machine, left_out).total == known.total
    cut = [Measured(0, (4000, 6000), 100, 50, prompt=3000, cut=True)]
    settled = make_plan(config(golden), golden / "llama", None, machine).config
    as_cut = estimate(golden / "llama", settled, [Lengths(settled.max_seq_length, 8)], "cpu")
    assert fit(task(), config(golden), machine, cut).total == as_cut.total(settled.weights)


def test_rows_that_nobody_has_counted_are_guessed_by_their_characters(
    golden: Path, tmp_path: Path
) -> None:
    machine, guess = Machine("cpu", 8 * 10**9), LengthGuess()
    data = tmp_path / "pairs.jsonl"
    row = {"prompt": "p" * 100, "chosen": "c" * 300, "rejected": "r" * 200}
    data.write_text(json.dumps(row) + "\n", "utf-8")
    wanted = config(golden, data=str(data), valid_fraction=0)
    found = fit(task(), wanted, machine, [], None, guess)
    # 400 characters at two to a token, a quarter of them of the prompt.
    assert found.rows == "guessed"
    needs = estimate(golden / "llama", found.config, [Lengths(200, 50)], "cpu")
    assert found.total == needs.total(found.config.weights)

    data.write_text(json.dumps({**row, "chosen": "c" * 900}) + "\n", "utf-8")
    longer = fit(task(), wanted, machine, [], None, guess)
    needs = estimate(golden / "llama", longer.config, [Lengths(500, 50)], "cpu")
    assert longer.total == needs.total(longer.config.weights)

    data.write_text("{", "utf-8")
    assert fit(task(), wanted, machine, [], None, guess).rows == "assumed"
    assert fit(task(), wanted, machine, [], None, guess).rows == "assumed"
    data.unlink()
    assert fit(task(), wanted, machine, [], None, guess).rows == "assumed"


def test_advice_makes_a_run_fit(golden: Path) -> None:
    large = config(golden, max_seq_length=4096, segment_size=0, head="full", attention="blocked")
    need = fit(task(), large, Machine("cpu", 10**12), []).total
    small = Machine("cpu", int(need * 0.6))
    found = fit(task(), large, small, [])
    assert not found.fits
    assert found.advice[-1].total <= found.room
    change: dict[str, object] = {}
    for one in found.advice:
        change |= one.change
    assert fit(task(), large.model_copy(update=change), small, []).fits


def test_no_model_no_figures(golden: Path, dirs: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no model"):
        fit(task(), config(golden, model=str(tmp_path / "gone")), Machine("cpu", 10**9), [])
    with pytest.raises(ModelError, match="made by the first run"):
        fit(task(), config(golden, model="sample"), Machine("cpu", 10**9), [])


class Parts:
    """The meter with everything it follows."""

    def __init__(self, qtbot: QtBot, qapp: QApplication, golden: Path, tmp_path: Path) -> None:
        self.session = Session()
        self.session.open(warm_up=False)
        self.form = ConfigViewModel()
        self.form.take(
            {
                "model": str(golden / "llama"),
                "data": str(golden / "llama" / "preference.jsonl"),
                "method": "orpo",
                "prompt_format": "raw",
            }
        )
        self.data = DataViewModel(self.form, RowEdits(tmp_path / "changes"))
        self.vm = FitViewModel(self.session, self.form, self.data)
        theme = Theme(qapp, "light")
        self.meter = FitMeter(self.vm, theme)
        self.dialog = FitDialog(self.vm, theme)
        for widget in (self.meter, self.dialog):
            qtbot.addWidget(widget)
            widget.show()

    def settle(self, qtbot: QtBot) -> None:
        qtbot.waitUntil(
            lambda: not self.vm._settle.isActive() and not self.vm._line.busy, timeout=WAIT_MS
        )


@pytest.fixture
def parts(
    qtbot: QtBot, qapp: QApplication, golden: Path, tmp_path: Path, dirs: Path
) -> Iterator[Parts]:
    made = Parts(qtbot, qapp, golden, tmp_path)
    made.settle(qtbot)
    yield made
    made.vm.close()
    made.data.close()
    made.session.close()
    made.session.wait()
    qapp.setStyleSheet("")


def test_the_meter_follows_the_form(qtbot: QtBot, parts: Parts) -> None:
    before = parts.vm.total
    assert before > 0
    assert "free" in parts.meter.words.text()
    parts.form.set_value("batch_size", "16")
    parts.settle(qtbot)
    assert parts.vm.total > before
    parts.form.set_value("rank", "nonsense")
    parts.settle(qtbot)
    assert parts.vm.fit is None
    assert parts.meter.words.text() == "known once the form is complete"
    assert not parts.meter.more.isEnabled()
    parts.form.undo()
    parts.settle(qtbot)
    parts.form.set_value("model", "/no/such/folder/here")
    parts.settle(qtbot)
    assert "there is no model" in parts.meter.words.text().lower() or parts.form.problems


def test_what_does_not_fit_is_made_to_fit(qtbot: QtBot, parts: Parts) -> None:
    parts.form.take({"batch_size": "256", "segment_size": "0", "head": "full"})
    parts.settle(qtbot)
    parts.vm._free = int(parts.vm.total * 0.5)
    parts.vm._machine = lambda: Machine("cpu", parts.vm._free or 0)  # type: ignore[method-assign]
    parts.vm.look()
    parts.settle(qtbot)
    assert not parts.vm.fits
    assert parts.meter.more.text() == "Make it fit"
    assert parts.vm.fit is not None
    last = parts.vm.fit.advice[-1]
    qtbot.mouseClick(parts.dialog.applied[-1], Qt.MouseButton.LeftButton)
    parts.settle(qtbot)
    assert parts.vm.fits
    assert change_text(last)
    assert all(parts.form.values[key] == value for key, value in last.change.items())
    parts.form.undo()  # all of it was one edit
    assert parts.form.values["head"] == "full"


def test_two_steps_are_measured_and_forgotten_with_the_next_edit(
    qtbot: QtBot, parts: Parts
) -> None:
    parts.form.take({"rank": "4", "max_seq_length": "128"})
    parts.settle(qtbot)
    qtbot.mouseClick(parts.dialog.measure, Qt.MouseButton.LeftButton)
    assert parts.dialog.measure.text() == "Stop measuring"
    qtbot.waitUntil(lambda: not parts.vm.measuring, timeout=WAIT_MS)
    parts.settle(qtbot)
    assert parts.vm.measure_error == ""
    assert parts.vm.measured is not None
    peak, seconds = parts.vm.measured
    assert parts.vm.total == peak
    assert seconds > 0
    assert "Measured in two steps" in parts.dialog.notes.text()
    parts.form.set_value("rank", "8")
    parts.settle(qtbot)
    assert parts.vm.measured is None


def test_a_measurement_that_fails_says_why(qtbot: QtBot, parts: Parts, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"prompt": "a", "chosen": "b"}\n')
    parts.form.set_value("data", str(bad))
    parts.settle(qtbot)
    parts.vm.measure()
    qtbot.waitUntil(lambda: not parts.vm.measuring, timeout=WAIT_MS)
    assert parts.vm.measured is None
    assert "rejected" in parts.dialog.problem.text()
