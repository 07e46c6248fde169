from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QLineEdit, QWidget

from app.viewmodels.config_vm import SPECS, ConfigViewModel
from app.views.config_panel import ConfigPanel
from app.views.field_widgets import (
    FieldControl,
    FlagControl,
    LinesControl,
    ListControl,
    SegmentsControl,
    StopsControl,
    TextControl,
)
from app.views.theme import Theme
from tests.app.config_examples import make_files, other_value, prepare, ready_form
from tests.app.form_parts import control_of, field_of, frame_of

pytestmark = pytest.mark.gui


@pytest.fixture(scope="module")
def shared(qapp) -> Iterator[tuple[ConfigViewModel, ConfigPanel]]:
    """One panel for the tests that go through all options, as building it takes a while."""
    vm = ready_form()
    panel = ConfigPanel(vm)
    panel.resize(380, 900)
    panel.show()
    panel.activateWindow()
    yield vm, panel
    panel.close()


def type_into(qtbot, edit: QLineEdit, text: str) -> None:
    edit.setFocus()
    edit.selectAll()
    qtbot.keyClick(edit, Qt.Key.Key_Delete)
    qtbot.keyClicks(edit, text)


def edit(qtbot, control: FieldControl, value: object) -> None:
    """Do with keyboard and mouse what a user would do."""
    if isinstance(control, StopsControl):
        qtbot.mouseClick(control.segments.button(None), Qt.MouseButton.LeftButton)
        type_into(qtbot, control.number.edit, str(value))
    elif isinstance(control, LinesControl):
        control.edit.setFocus()
        control.edit.selectAll()
        for n, line in enumerate(str(value).splitlines()):
            if n:
                qtbot.keyClick(control.edit, Qt.Key.Key_Return)
            qtbot.keyClicks(control.edit, line)
    elif isinstance(control, TextControl):
        type_into(qtbot, control.edit, str(value))
    elif isinstance(control, SegmentsControl):
        qtbot.mouseClick(control.segments.button(value), Qt.MouseButton.LeftButton)
    elif isinstance(control, ListControl):
        control.box.setFocus()
        for _ in range(control.box.findData(value)):
            qtbot.keyClick(control.box, Qt.Key.Key_Down)
    else:
        assert isinstance(control, FlagControl)
        qtbot.keyClick(control.box, Qt.Key.Key_Space)


@pytest.mark.parametrize("key", [key for key in SPECS if key != "method"])
def test_no_control_is_dead(qtbot, shared, key: str, tmp_path: Path) -> None:
    vm, panel = shared
    vm.load(ready_form().config())
    files = make_files(tmp_path)
    prepare(vm, key, files)
    control = control_of(panel, key)
    assert control.isVisible()
    assert control.isEnabled()
    before = vm.config()
    typed, expected = other_value(SPECS[key], files)
    edit(qtbot, control, typed)
    after = vm.config()
    assert after is not None, vm.problems
    assert getattr(after, key) == expected
    assert after != before


def test_the_form_shows_every_option_once(panel) -> None:
    for key in SPECS:
        homes = [section for section in panel.sections if section.reveal(key)]
        assert len(homes) == (0 if key == "method" else 1)
        assert key == "method" or homes[0].group == SPECS[key].option.group


def test_the_method_on_top_chooses_the_method(qtbot, vm, panel) -> None:
    qtbot.mouseClick(panel.method.button("dpo"), Qt.MouseButton.LeftButton)
    assert vm.config().method == "dpo"
    assert control_of(panel, "dpo_beta").isEnabled()
    assert not control_of(panel, "orpo_lambda").isEnabled()


def test_arrow_keys_move_between_segments(qtbot, vm, panel) -> None:
    panel.method.button("sft").setFocus()
    qtbot.keyClick(panel.method.button("sft"), Qt.Key.Key_Right)
    assert vm.values["method"] == "dpo"
    assert panel.method.button("dpo").hasFocus()
    qtbot.keyClick(panel.method.button("dpo"), Qt.Key.Key_Left)
    assert vm.values["method"] == "sft"


def test_a_learning_rate_is_typed_and_shown_in_scientific_form(qtbot, vm, panel) -> None:
    line = control_of(panel, "learning_rate").edit
    assert line.placeholderText() == "2e-4"
    type_into(qtbot, line, "0.00001")
    assert vm.config().learning_rate == 1e-5
    qtbot.keyClick(line, Qt.Key.Key_Return)
    assert line.text() == "1e-5"


def test_typing_is_not_interrupted_but_a_pause_shows_the_problem(qtbot, vm, panel) -> None:
    frame = frame_of(panel, "learning_rate")
    type_into(qtbot, frame.control.edit, "1e-")
    assert frame.control.edit.text() == "1e-"
    assert not frame.error.isVisible()
    qtbot.waitUntil(frame.error.isVisible, timeout=3000)
    assert frame.error.text().startswith("Must be a number")
    assert frame.control.edit.property("invalid") is True
    qtbot.keyClicks(frame.control.edit, "5")
    assert not frame.error.isVisible()
    assert vm.config().learning_rate == 1e-5


def test_leaving_a_bad_field_shows_the_problem_at_once(qtbot, panel) -> None:
    frame = frame_of(panel, "batch_size")
    type_into(qtbot, frame.control.edit, "some")
    panel.search.setFocus()
    assert frame.error.isVisible()


def test_the_line_below_leads_to_the_first_problem(qtbot, vm, panel) -> None:
    assert panel.status.text() == "Ready"
    assert not panel.show_problem.isVisible()
    vm.set_value("grad_clip", "x")
    assert panel.status.text().startswith("Gradient clip: must be a number")
    for section in panel.sections:
        section.header.chevron.setChecked(False)
    qtbot.mouseClick(panel.show_problem, Qt.MouseButton.LeftButton)
    line = control_of(panel, "grad_clip").edit
    assert line.hasFocus()
    qtbot.waitUntil(lambda: not line.visibleRegion().isEmpty())


def test_a_disabled_field_says_why(vm, panel) -> None:
    frame = frame_of(panel, "orpo_lambda")
    assert not frame.control.isEnabled()
    assert "Only used when method is orpo" in frame.toolTip()
    assert "Only used when method is orpo" in frame.control.edit.accessibleDescription()
    vm.set_value("method", "orpo")
    assert frame.control.isEnabled()
    assert "Only used" not in frame.toolTip()


def test_reset_appears_only_beside_what_was_changed(qtbot, vm, panel) -> None:
    frame = frame_of(panel, "rank")
    assert not frame.reset.isVisible()
    vm.set_value("rank", "8")
    assert frame.reset.isVisible()
    qtbot.mouseClick(frame.reset, Qt.MouseButton.LeftButton)
    assert vm.values["rank"] == 16
    assert frame.control.edit.text() == "16"
    assert not frame.reset.isVisible()


def test_alpha_is_linked_in_the_form(qtbot, vm, panel) -> None:
    row = field_of(panel, "rank")
    type_into(qtbot, row.alpha.control.edit, "8")
    assert vm.config().scale == 0.5
    assert control_of(panel, "scale").edit.text() == "0.5"
    type_into(qtbot, control_of(panel, "rank").edit, "4")
    assert row.alpha.control.edit.text() == "2"
    assert "keeps the scale" in row.alpha.toolTip()


def test_steps_and_epochs_are_one_choice(qtbot, vm, panel) -> None:
    field = field_of(panel, "iters")
    type_into(qtbot, field.control.edit, "60")
    qtbot.mouseClick(field.control.by.button("epochs"), Qt.MouseButton.LeftButton)
    assert (vm.config().iters, vm.config().epochs) == (None, 1.0)
    qtbot.mouseClick(field.control.by.button("iters"), Qt.MouseButton.LeftButton)
    assert (vm.config().iters, vm.config().epochs) == (60, None)
    assert field.control.edit.text() == "60"


def test_segment_size_is_auto_off_or_a_number(qtbot, vm, panel) -> None:
    control = control_of(panel, "segment_size")
    if SPECS["segment_size"].choices:
        assert control.segments.button(None) is None
    else:
        qtbot.mouseClick(control.segments.button(None), Qt.MouseButton.LeftButton)
        assert vm.config().segment_size == 1
        assert control.number.isVisible()
    qtbot.mouseClick(control.segments.button(0), Qt.MouseButton.LeftButton)
    assert vm.config().segment_size == 0
    assert not control.number.isVisible()
    qtbot.mouseClick(control.segments.button("auto"), Qt.MouseButton.LeftButton)
    assert vm.config().segment_size == "auto"


def test_arrow_keys_step_a_number(qtbot, vm, panel) -> None:
    line = control_of(panel, "rank").edit
    line.setFocus()
    qtbot.keyClick(line, Qt.Key.Key_Up)
    assert (vm.values["rank"], line.text()) == (17, "17")
    qtbot.keyClick(line, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    assert (vm.values["rank"], line.text()) == (7, "7")


def wheel(widget: QWidget) -> None:
    at = QPointF(widget.rect().center())
    event = QWheelEvent(
        at, widget.mapToGlobal(at), QPoint(), QPoint(0, -120), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(widget, event)


@pytest.mark.parametrize("key", [key for key in SPECS if key != "method"])
def test_the_wheel_over_a_field_changes_no_value(shared, key: str, tmp_path: Path) -> None:
    vm, panel = shared
    vm.load(ready_form().config())
    prepare(vm, key, make_files(tmp_path))
    panel.search.setFocus()
    before = vm.values
    for widget in control_of(panel, key).findChildren(QWidget):
        if widget.isVisible():
            wheel(widget)
    assert vm.values == before


def test_a_folded_section_sums_itself_up(panel, vm) -> None:
    lora = next(section for section in panel.sections if section.group == "LoRA")
    assert not lora.header.note.isVisible()
    lora.header.chevron.setChecked(False)
    assert lora.header.note.isVisible()
    assert lora.header.note.text() == "rank 16, alpha 32, all layers"
    assert not control_of_hidden(lora, "rank").isVisible()


def control_of_hidden(section, key: str) -> FieldControl:
    return section.simple.field_of(key).fields[0].control


def test_advanced_options_are_folded_and_count_what_changed(panel, vm) -> None:
    schedule = next(section for section in panel.sections if section.group == "Schedule")
    assert not schedule.advanced.isVisible()
    vm.set_value("seed", "7")
    assert schedule.more.note.text() == "1 changed"
    schedule.more.chevron.setChecked(True)
    assert schedule.advanced.isVisible()


def test_search_shows_what_matches_even_if_folded(panel) -> None:
    panel.search.setText("seed")
    shown = [section.group for section in panel.sections if section.isVisible()]
    assert shown == ["Schedule"]
    schedule = next(section for section in panel.sections if section.group == "Schedule")
    assert schedule.advanced.field_of("seed").isVisible()
    assert not schedule.simple.isVisible()
    panel.search.setText("no such thing at all")
    assert not any(section.isVisible() for section in panel.sections)
    panel.search.clear()
    assert all(section.isVisible() for section in panel.sections)
    assert not schedule.advanced.isVisible()


def test_while_a_run_is_on_the_form_is_the_next_run(panel, vm) -> None:
    vm.set_running(True)
    assert control_of(panel, "rank").isEnabled()
    assert panel.status.text() == "Ready; edits are for the next run"
    vm.set_running(False)
    assert panel.status.text() == "Ready"


def test_undo_is_an_action_of_the_panel(panel, vm) -> None:
    vm.set_value("rank", "8")
    assert panel.undo_action.isEnabled()
    panel.undo_action.trigger()
    assert control_of(panel, "rank").edit.text() == "16"
    panel.redo_action.trigger()
    assert control_of(panel, "rank").edit.text() == "8"


def test_every_field_has_a_name_and_a_description_to_be_spoken(panel) -> None:
    for key in SPECS:
        if key == "method":
            continue
        control = control_of(panel, key)
        target = control.focusProxy()
        name = target.accessibleName() or getattr(target, "text", lambda: "")()
        assert name, key
        assert target.accessibleDescription(), key


@pytest.mark.parametrize("width", [340, 380, 420, 700])
def test_nothing_is_cut_off_at_any_width(qapp, panel, width: int) -> None:
    Theme(qapp, "light")
    for section in panel.sections:
        section.more.chevron.setChecked(True)
    panel.resize(width, 900)
    QApplication.processEvents()
    right = panel.width()
    for key in SPECS:
        if key != "method":
            control = control_of(panel, key)
            edge = control.mapTo(panel, control.rect().topRight()).x()
            assert edge <= right - 8, key
            assert control.width() >= control.minimumSizeHint().width(), key
