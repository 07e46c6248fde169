"""The configuration of a run as a form, made from the options of RunConfig."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.viewmodels.config_vm import SPECS, ConfigViewModel
from app.viewmodels.field_spec import choice_label
from app.views.form_section import FormSection
from app.views.segmented import SegmentedControl
from app.views.theme import set_role, set_state
from trainer_core.option import GROUPS

_MARGIN = 16


class ConfigPanel(QFrame):
    """Method on top, a section for each group, and a line that says whether a run can start."""

    def __init__(self, vm: ConfigViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        set_role(self, "panel")
        self.setMinimumWidth(340)
        self.setAccessibleName("Configuration")
        self._form = QWidget()
        self.sections = [
            FormSection(vm, group, keys, self._form)
            for group in GROUPS
            if (keys := _keys_of(group))
        ]
        self.method = SegmentedControl(
            SPECS["method"].label, {value: choice_label(value) for value in SPECS["method"].choices}
        )
        self.search = QLineEdit()
        self.undo_action = self._action("Undo Edit", QKeySequence.StandardKey.Undo)
        self.redo_action = self._action("Redo Edit", QKeySequence.StandardKey.Redo)
        self.undo_action.triggered.connect(vm.undo)
        self.redo_action.triggered.connect(vm.redo)
        self._scroll = QScrollArea()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._make_top())
        column.addWidget(_line())
        column.addWidget(self._make_form(), 1)
        column.addWidget(_line())
        column.addWidget(self._make_bottom())
        vm.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what the view-model says."""
        vm = self._vm
        self.method.set_value(vm.values["method"])
        self.method.setToolTip(vm.tool_tip("method"))
        self._note.setText(vm.method_note)
        ready = vm.first_problem is None
        self.status.setText(vm.status)
        set_role(self.status, "success" if ready else "error")
        self.show_problem.setVisible(not ready)
        self.undo_action.setEnabled(vm.can_undo)
        self.redo_action.setEnabled(vm.can_redo)

    def set_meter(self, meter: QWidget) -> None:
        """Put the fit meter above the line that says whether a run can start."""
        self._bottom.insertWidget(0, meter)

    def show_option(self, key: str) -> None:
        """Bring an option's field into view and give it the focus."""
        self.search.clear()
        if key == "method":
            self.method.setFocus()
        field = next((field for s in self.sections if (field := s.reveal(key))), None)
        if field is not None:
            field.take_focus(key)
            # What was just opened has its place only after the layout has run.
            QTimer.singleShot(0, field, partial(self._scroll.ensureWidgetVisible, field, 0, 48))

    def _make_top(self) -> QWidget:
        self._note = QLabel()
        self._note.setWordWrap(True)
        set_role(self._note, "small")
        set_state(self.method, "large", True)
        self.method.chosen.connect(lambda method: self._vm.set_value("method", method))
        self.search.setPlaceholderText("Search options")
        self.search.setAccessibleName("Search options")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._on_search_changed)
        top = QWidget()
        column = QVBoxLayout(top)
        column.setContentsMargins(_MARGIN, 12, _MARGIN, 12)
        column.setSpacing(8)
        for widget in (self.method, self._note, self.search):
            column.addWidget(widget)
        return top

    def _make_form(self) -> QScrollArea:
        self._column = column = QVBoxLayout(self._form)
        column.setContentsMargins(_MARGIN, 4, _MARGIN, 16)
        column.setSpacing(0)
        for section in self.sections:
            column.addWidget(section)
        self.sections[0].line.hide()
        self._nothing = QLabel("No option matches.")
        set_role(self._nothing, "muted")
        self._nothing.hide()
        column.addWidget(self._nothing)
        column.addStretch(1)
        self._scroll.setWidget(self._form)
        self._scroll.setWidgetResizable(True)
        self._scroll.verticalScrollBar().rangeChanged.connect(self._on_scroll_range_changed)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        return self._scroll

    def _make_bottom(self) -> QWidget:
        self.status = QLabel()
        self.status.setWordWrap(True)
        self.status.setAccessibleName("Whether a run can start")
        self.show_problem = QPushButton("Show")
        self.show_problem.setAutoDefault(False)
        set_role(self.show_problem, "link")
        self.show_problem.clicked.connect(self._on_show_problem_clicked)
        bottom = QWidget()
        self._bottom = QVBoxLayout(bottom)
        self._bottom.setContentsMargins(_MARGIN, 8, _MARGIN, 8)
        self._bottom.setSpacing(8)
        row = QHBoxLayout()
        row.addWidget(self.status, 1)
        row.addWidget(self.show_problem, 0, Qt.AlignmentFlag.AlignTop)
        self._bottom.addLayout(row)
        return bottom

    def _action(self, text: str, key: QKeySequence.StandardKey) -> QAction:
        action = QAction(text, self)
        action.setShortcut(QKeySequence(key))
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.addAction(action)
        return action

    def _on_scroll_range_changed(self, _least: int, most: int) -> None:
        """Keep the form's right edge where that of the search field is."""
        bar = self._scroll.verticalScrollBar().sizeHint().width() if most else 0
        self._column.setContentsMargins(_MARGIN, 4, _MARGIN - bar, 16)

    def _on_search_changed(self, text: str) -> None:
        for section in self.sections:
            section.show_matching(text.strip())
        shown = [section for section in self.sections if not section.isHidden()]
        for section in shown:
            section.line.setVisible(section is not shown[0])
        self._nothing.setVisible(not shown)

    def _on_show_problem_clicked(self) -> None:
        if key := self._vm.first_problem:
            self.show_option(key)


def _keys_of(group: str) -> list[str]:
    return [key for key, spec in SPECS.items() if spec.option.group == group and key != "method"]


def _line() -> QFrame:
    line = QFrame()
    set_role(line, "line")
    return line
