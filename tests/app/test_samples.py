"""The strip under the curves: what the model says to fixed prompts, scrubbed by the cursor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.viewmodels.curves_vm import CurvesViewModel
from app.viewmodels.samples_vm import SamplesViewModel
from app.views.sample_strip import SampleStrip
from tests.app.run_events import started, step
from trainer_core.events import Event, Sample, Started

pytestmark = pytest.mark.gui


@pytest.fixture
def strip(qtbot: QtBot) -> SampleStrip:
    curves = CurvesViewModel()
    vm = SamplesViewModel(curves, curves)
    strip = SampleStrip(vm)
    qtbot.addWidget(strip)
    strip.show()
    return strip


def begin(*prompts: str) -> Started:
    event = started(Path("run"))
    return replace(event, config={**event.config, "sample_prompts": list(prompts) or None})


def tell(strip: SampleStrip, *events: Event) -> None:
    vm = strip._vm
    for event in events:
        vm._curves.take(event)
        vm.take(event)
    vm._curves.flush()
    vm.flush()


def test_a_run_without_prompts_has_no_strip(strip: SampleStrip) -> None:
    tell(strip, begin())
    assert not strip.isVisible()


def test_the_cursor_scrubs_the_answers(strip: SampleStrip) -> None:
    tell(strip, begin("Why?", "Who?"))
    assert strip.isVisible()
    assert strip.where.text() == "not answered yet"
    answers = {0: "zero", 10: "ten", 20: "twenty"}
    tell(strip, *(Sample(at, "Why?", text) for at, text in answers.items()))
    assert (strip.answer.toPlainText(), strip.where.text()) == ("twenty", "after step 20")
    curves = strip._vm._curves
    for at, text in ((0.0, "zero"), (9.4, "zero"), (10.0, "ten"), (19.0, "ten"), (31.0, "twenty")):
        curves.set_hover(at)
        assert strip.answer.toPlainText() == text, at
    curves.set_hover(None)
    assert strip.answer.toPlainText() == "twenty"


def test_arrows_move_the_cursor_of_the_curves(qtbot: QtBot, strip: SampleStrip) -> None:
    tell(strip, begin("Why?"), *(Sample(at, "Why?", f"at {at}") for at in (0, 10, 20)))
    assert not strip.after.isEnabled()
    qtbot.mouseClick(strip.before, Qt.MouseButton.LeftButton)
    assert strip._vm._curves.hover_step == 10
    assert strip.answer.toPlainText() == "at 10"
    qtbot.mouseClick(strip.before, Qt.MouseButton.LeftButton)
    assert not strip.before.isEnabled()
    qtbot.mouseClick(strip.after, Qt.MouseButton.LeftButton)
    assert strip.answer.toPlainText() == "at 10"


def test_what_a_resumed_run_will_answer_again_is_forgotten() -> None:
    vm = SamplesViewModel(CurvesViewModel())
    config = {"sample_prompts": ["a"]}
    first = Started(run="r", config=config, device="d", versions={})
    vm.take(first)
    for number in (0, 5, 10):
        vm.take(Sample(number, "a", f"answer {number}"))
    vm.take(replace(first, session=2, resumed_from=5))
    assert vm.steps == [0, 5]
    vm.take(replace(first, session=3, resumed_from=0))
    assert vm.steps == []


def test_prompts_are_chosen_and_others_answers_are_left_out(
    qtbot: QtBot, strip: SampleStrip
) -> None:
    tell(
        strip,
        begin("Why?", "Who?"),
        Sample(0, "Why?", "because"),
        Sample(0, "Who?", "Ada"),
        Sample(0, "Why?", "the base model", base=True),
        Sample(0, "How?", "asked by hand"),
        step(1),
    )
    assert strip.answer.toPlainText() == "because"
    strip.prompt.setFocus()
    qtbot.keyClick(strip.prompt, Qt.Key.Key_Down)
    assert strip.answer.toPlainText() == "Ada"
    tell(strip, begin("New?"))
    assert strip.prompt.count() == 1
    assert strip.answer.toPlainText() == ""
