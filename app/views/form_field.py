"""Fields of the form: frames tied to the view-model, for one option or some that go together."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget
from typing_extensions import override

from app.viewmodels.config_vm import SPECS, ConfigViewModel, LengthBy
from app.viewmodels.field_spec import FieldSpec, Kind, choice_label
from app.viewmodels.field_text import show_value
from app.viewmodels.path_fields import PATH_FIELDS
from app.views.field_paths import PathControl
from app.views.field_widgets import (
    FieldControl,
    FlagControl,
    LinesControl,
    ListControl,
    NumberControl,
    SegmentsControl,
    StopsControl,
    TextControl,
)
from app.views.form_frame import ErrorLabel, FieldFrame
from app.views.segmented import SegmentedControl
from app.views.theme import set_role

_TYPING_PAUSE_MS = 700
_SEGMENTS_AT_MOST = 4
_LETTERS_AT_MOST = 22  # that many fit side by side at the form's least width


class FormField(FieldFrame):
    """One option. `wide` fields take the whole width of the form, the others half of it."""

    def __init__(self, vm: ConfigViewModel, key: str, parent: QWidget | None = None) -> None:
        self.key, self._spec, self._vm = key, SPECS[key], vm
        control, self.wide = make_control(self._spec, vm)
        super().__init__(self._spec.label, control, parent)
        if isinstance(control, FlagControl):
            self.label.setText("")
            self.label.setMinimumHeight(16)
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(_TYPING_PAUSE_MS)
        self._pause.timeout.connect(self._show_problem)
        control.edited.connect(lambda value: vm.set_value(key, value))
        control.stepped.connect(lambda steps: vm.step(key, steps))
        control.finished.connect(self.refresh)
        self.reset_wanted.connect(lambda: vm.reset(key))
        vm.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what the view-model says."""
        vm, key = self._vm, self.key
        value = vm.values[key]
        self.control.set_usable(vm.choices(key))
        self.control.set_surroundings(vm.placeholder(key), vm.unit(key))
        self.control.show_text(value, show_value(value))
        self.show_usable(vm.why_idle(key) is None, vm.differs(key))
        self.show_help(vm.tool_tip(key), vm.spoken_help(key))
        if self.control.is_being_typed() and key in vm.problems:
            self._pause.start()  # 1e- is on its way to 1e-5: no need to cry out yet
        else:
            self._show_problem()

    def _show_problem(self) -> None:
        self._pause.stop()
        self.show_error(self._vm.problems.get(self.key, ""))

    def take_focus(self, key: str) -> None:
        """Put the cursor into the field."""
        self.control.setFocus()


class AlphaField(FieldFrame):
    """Alpha, which is scale x rank: editing it changes the scale."""

    def __init__(self, vm: ConfigViewModel, parent: QWidget | None = None) -> None:
        super().__init__("Alpha", NumberControl("Alpha"), parent)
        self._vm = vm
        self.control.edited.connect(vm.set_alpha)
        self.control.stepped.connect(vm.step_alpha)
        self.control.finished.connect(self.refresh)
        vm.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what the view-model says."""
        vm = self._vm
        self.control.show_text(vm.alpha, show_value(vm.alpha))
        self.show_usable(vm.why_idle("scale") is None, resettable=False)
        self.show_help(vm.tool_tip("scale"), vm.spoken_help("scale"))
        self.control.set_invalid(isinstance(vm.alpha, str))


class StrengthRow(QWidget):
    """Rank x scale = alpha, in one line; what is wrong with them stands below the three."""

    wide = True

    def __init__(self, vm: ConfigViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.fields = [_RowField(vm, "rank", self), _RowField(vm, "scale", self)]
        self.alpha = AlphaField(vm, self)
        self.error = ErrorLabel(self)
        row = QHBoxLayout()
        row.setSpacing(6)
        signs = ("", "\N{MULTIPLICATION SIGN}", "=")
        for sign, field in zip(signs, (*self.fields, self.alpha), strict=True):
            if sign:
                row.addLayout(_sign(sign, field))
            row.addWidget(field, 1, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(row)
        column.addWidget(self.error)
        for field in self.fields:
            field.problem_shown.connect(self._show_problems)
        self._show_problems()

    def take_focus(self, key: str) -> None:
        """Put the cursor into the field of rank or scale."""
        next(field for field in self.fields if field.key == key).take_focus(key)

    def _show_problems(self) -> None:
        self.error.show_problem("; ".join(field.problem for field in self.fields if field.problem))


class _RowField(FormField):
    """A field that leaves the words about its problem to its row."""

    problem_shown = Signal()

    def __init__(self, vm: ConfigViewModel, key: str, parent: QWidget | None = None) -> None:
        self.problem = ""
        super().__init__(vm, key, parent)

    @override
    def show_error(self, text: str) -> None:
        self.problem = f"{SPECS[self.key].label} {text}" if text else ""
        self.control.set_invalid(bool(text))
        self.problem_shown.emit()


class LengthField(FieldFrame):
    """The length of the run: steps or epochs, one of them."""

    wide = True

    def __init__(self, vm: ConfigViewModel, parent: QWidget | None = None) -> None:
        self._vm = vm
        control = _LengthControl()
        super().__init__("Length", control, parent)
        self._control = control
        control.by.chosen.connect(vm.set_length_by)
        control.edited.connect(lambda value: vm.set_value(vm.length_by, value))
        control.stepped.connect(lambda steps: vm.step(vm.length_by, steps))
        control.finished.connect(self.refresh)
        self.reset_wanted.connect(self._reset)
        vm.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what the view-model says."""
        vm, key = self._vm, self._vm.length_by
        self._control.by.set_value(key)
        self._control.set_surroundings(vm.placeholder(key), "")
        self._control.show_text(vm.values[key], show_value(vm.values[key]))
        self.show_usable(True, key == "epochs" or vm.differs("iters"))
        self.show_help(vm.tool_tip(key), vm.spoken_help(key))
        self.show_error(vm.problems.get(key, ""))

    def take_focus(self, key: str) -> None:
        """Put the cursor into the number."""
        self.control.setFocus()

    def _reset(self) -> None:
        self._vm.set_length_by("iters")
        self._vm.reset("iters")


class _LengthControl(NumberControl):
    def __init__(self) -> None:
        super().__init__("Length")
        choices: dict[LengthBy, str] = {
            "iters": SPECS["iters"].label,
            "epochs": SPECS["epochs"].label,
        }
        self.by = SegmentedControl("Length in", choices)
        self.row.insertWidget(0, self.by, 1)


FormCell = FormField | StrengthRow | LengthField
"""What stands in the form for an option or for options that go together."""


def make_control(spec: FieldSpec, vm: ConfigViewModel) -> tuple[FieldControl, bool]:
    """The control for an option, and whether it needs the whole width of the form."""
    name = spec.label
    if spec.key in PATH_FIELDS:
        return PathControl(name, PATH_FIELDS[spec.key], lambda: vm.suggestions(spec.key)), True
    if spec.key == "num_layers":
        return StopsControl(name, {-1: "All"}, "Last", "8"), True
    if spec.kind is Kind.CHOICE:
        labels = {value: choice_label(value) for value in spec.choices}
        letters = sum(map(len, labels.values()))
        if len(labels) <= _SEGMENTS_AT_MOST and letters <= _LETTERS_AT_MOST:
            return SegmentsControl(name, labels), len(labels) > 2 or letters > 12
        return ListControl(name, labels), False
    if spec.kind is Kind.AUTO_WHOLE:
        stops = {"auto": "Auto", 0: "Off"}
        return StopsControl(name, stops, None if spec.choices else "Set", "1"), True
    if spec.kind is Kind.FLAG:
        return FlagControl(name), False
    if spec.kind in (Kind.WHOLE, Kind.REAL):
        return NumberControl(name), False
    if spec.kind is Kind.LINES:
        return LinesControl(name), True
    return TextControl(name), spec.kind is not Kind.REALS


def _sign(text: str, beside: FieldFrame) -> QVBoxLayout:
    """A sign at the height of the frame's control, below the row of its label."""
    label = QLabel(text)
    label.setFixedHeight(beside.control.sizeHint().height())
    set_role(label, "muted")
    column = QVBoxLayout()
    column.addSpacing(beside.head.sizeHint().height() + 4)
    column.addWidget(label)
    column.addStretch(1)
    return column
