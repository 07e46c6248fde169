"""One group of the form: a header that folds it, fields in two columns, advanced ones apart."""

from __future__ import annotations

from itertools import pairwise

from PySide6.QtCore import Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget
from typing_extensions import override

from app.viewmodels.config_vm import SPECS, ConfigViewModel
from app.views.field_elided import ElidedLabel
from app.views.form_field import FormCell, FormField, LengthField, StrengthRow
from app.views.form_glyphs import GlyphButton
from app.views.theme import set_role

_Cell = tuple[list[str], FormCell, bool]
"""Options, the field that holds them, and whether it takes a row of its own."""

_TOGETHER = {"rank": StrengthRow, "iters": LengthField}
_WITHIN = {"scale": "rank", "epochs": "iters"}


class FieldGrid(QWidget):
    """Fields in two columns; wide ones take a row of their own."""

    def __init__(self, vm: ConfigViewModel, keys: list[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self._cells: list[_Cell] = []
        for key in keys:
            field = _TOGETHER[key](vm, self) if key in _TOGETHER else FormField(vm, key, self)
            members = [key, *(other for other, host in _WITHIN.items() if host == key)]
            self._cells.append((members, field, field.wide))
        self._cells = _packed(self._cells)
        for (_, before, _), (_, after, _) in pairwise(self._cells):
            QWidget.setTabOrder(before, after)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(0)
        self._grid.setVerticalSpacing(12)
        self._grid.setColumnStretch(0, 1)
        self._grid.setColumnMinimumWidth(1, 12)  # unlike spacing, also there when column 2 is empty
        self._grid.setColumnStretch(2, 1)
        self.show_matching("")

    def show_matching(self, query: str) -> bool:
        """Lay out the fields that match, and say whether there are any."""
        row = column = 0
        for keys, field, wide in self._cells:
            self._grid.removeWidget(field)
            shown = any(self._vm.matches(key, query) for key in keys)
            field.setVisible(shown)
            if not shown:
                continue
            if column and wide:
                row, column = row + 1, 0
            span = 3 if wide else 1
            self._grid.addWidget(field, row, 2 * column, 1, span, Qt.AlignmentFlag.AlignTop)
            row, column = (row + 1, 0) if wide or column else (row, 1)
        return any(not field.isHidden() for _, field, _ in self._cells)

    def field_of(self, key: str) -> FormCell | None:
        """The field that holds an option, or None."""
        return next((field for keys, field, _ in self._cells if key in keys), None)


class FoldHeader(QFrame):
    """A line that opens and closes what is below it, with a note at its right end while closed."""

    def __init__(self, title: str, role: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.chevron = GlyphButton("right", title)
        self.chevron.setCheckable(True)
        self.chevron.setToolTip("")
        self.title = QLabel(title)
        set_role(self.title, role)
        self.note = ElidedLabel()
        set_role(self.note, "small")
        row = QHBoxLayout(self)
        margin = 6 if role == "heading" else 0
        row.setContentsMargins(0, margin, 0, margin)
        row.setSpacing(6)
        row.addWidget(self.chevron)
        row.addWidget(self.title)
        row.addSpacing(6)
        row.addWidget(self.note, 1)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.chevron.toggled.connect(self._on_chevron_toggled)

    @override
    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self.rect().contains(event.position().toPoint()):
            self.chevron.toggle()

    def _on_chevron_toggled(self, is_open: bool) -> None:
        self.chevron.set_glyph("down" if is_open else "right")


class FormSection(QWidget):
    """A group of options."""

    def __init__(
        self, vm: ConfigViewModel, group: str, keys: list[str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._vm, self.group, self._query = vm, group, ""
        self._keys = keys
        self._advanced_keys = [key for key in keys if _is_advanced(key)]
        self.header = FoldHeader(group, "heading")
        self.simple = FieldGrid(
            vm, [key for key in keys if not _is_advanced(key) and key not in _WITHIN]
        )
        self.more = FoldHeader("Advanced", "small")
        self.advanced = FieldGrid(vm, [key for key in self._advanced_keys if key not in _WITHIN])
        self._body = QWidget()
        body = QVBoxLayout(self._body)
        body.setContentsMargins(0, 2, 0, 12)
        body.setSpacing(12)
        for widget in (self.simple, self.more, self.advanced):
            body.addWidget(widget)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self.line = QFrame()
        set_role(self.line, "line")
        column.addWidget(self.line)
        column.addWidget(self.header)
        column.addWidget(self._body)
        self.header.chevron.toggled.connect(self._arrange)
        self.more.chevron.toggled.connect(self._arrange)
        vm.changed.connect(self._on_vm_changed)
        self.header.chevron.setChecked(True)
        self._on_vm_changed()

    def show_matching(self, query: str) -> None:
        """Show only what matches; an empty query shows everything."""
        self._query = query
        self._arrange()

    def reveal(self, key: str) -> FormCell | None:
        """Open what hides an option's field, and return the field if it is in this group."""
        field = self.simple.field_of(key)
        if field is None and (field := self.advanced.field_of(key)):
            self.more.chevron.setChecked(True)
        if field is not None:
            self.header.chevron.setChecked(True)
        return field

    def _arrange(self) -> None:
        searching = bool(self._query)
        simple = self.simple.show_matching(self._query)
        advanced = self.advanced.show_matching(self._query)
        self.setVisible(simple or advanced)
        self.header.chevron.setEnabled(not searching)
        self._body.setVisible(searching or self.header.chevron.isChecked())
        self.header.note.setVisible(not searching and not self.header.chevron.isChecked())
        self.simple.setVisible(simple)
        self.more.setVisible(advanced and not searching)
        self.advanced.setVisible(advanced and (searching or self.more.chevron.isChecked()))

    def _on_vm_changed(self) -> None:
        problems = self._vm.problems
        wrong = [key for key in self._keys if key in problems]
        set_role(self.header.note, "error" if wrong else "small")
        self.header.note.setText(self._vm.summary(self.group))
        hidden = [key for key in self._advanced_keys if key not in _WITHIN]
        changed = sum(self._vm.differs(key) for key in hidden)
        in_trouble = any(key in problems for key in hidden)
        set_role(self.more.note, "error" if in_trouble else "small")
        self.more.note.setText(f"{changed} changed" if changed else "")


def _packed(cells: list[_Cell]) -> list[_Cell]:
    """The cells in an order in which later narrow ones fill the holes before wide ones."""
    left, packed, column = list(cells), [], 0
    while left:
        narrow = next((cell for cell in left if not cell[2]), None)
        cell = narrow if column and narrow else left[0]
        left.remove(cell)
        packed.append(cell)
        column = 0 if cell[2] else 1 - column
    return packed


def _is_advanced(key: str) -> bool:
    return SPECS[_WITHIN.get(key, key)].option.advanced
