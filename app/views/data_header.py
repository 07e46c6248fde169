"""The head of the data page: which file, how many rows and tokens, and what stands out."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.viewmodels.data_rows import RowFilter
from app.viewmodels.data_vm import DataViewModel
from app.viewmodels.path_fields import PATH_FIELDS
from app.viewmodels.wording import count, sentence_case
from app.views.field_elided import ElidedLabel
from app.views.length_bars import LengthBars
from app.views.theme import Theme, set_role
from trainer_core.column_names import as_option

MOST_FINDINGS = 4


class DataHeader(QFrame):
    """Counts, lengths and findings. A finding shows its rows when pressed.

    Signals:
        opened(Path): another file or folder was chosen.
        columns_asked: choose which column is what.
        proposal_taken: take the proposed mapping.
        again_asked: read anew.
        filter_asked(RowFilter): show the rows of a finding.
    """

    opened = Signal(Path)
    columns_asked = Signal()
    proposal_taken = Signal()
    again_asked = Signal()
    filter_asked = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "card")
        self.name = ElidedLabel()
        set_role(self.name, "heading")
        self.counts = QLabel()
        self.counts.setWordWrap(True)
        set_role(self.counts, "muted")
        self.bars = LengthBars(theme)
        self.buttons = {
            "open": QPushButton("Open file\N{HORIZONTAL ELLIPSIS}"),
            "columns": QPushButton("Columns\N{HORIZONTAL ELLIPSIS}"),
            "again": QPushButton("Read again"),
        }
        self.proposal = QPushButton()
        set_role(self.proposal, "link")
        self.findings = [QPushButton() for _ in range(MOST_FINDINGS)]
        self._targets: list[RowFilter | None] = [None] * MOST_FINDINGS
        self._lay_out()
        self.buttons["open"].clicked.connect(self._on_open_clicked)
        self.buttons["columns"].clicked.connect(self.columns_asked)
        self.buttons["again"].clicked.connect(self.again_asked)
        self.proposal.clicked.connect(self.proposal_taken)

    def show_data(self, vm: DataViewModel) -> None:
        """Show what is known of the data."""
        summary = vm.summary
        self.name.setText(vm.source)
        self.name.setToolTip(vm.source)
        self.counts.setText(_counts(vm))
        self.bars.show_lengths(summary.lengths, vm.limit)
        for name, button in self.buttons.items():
            button.setEnabled(name != "columns" or bool(vm.columns))
        self.proposal.setVisible(vm.proposal is not None)
        if vm.proposal is not None:
            self.proposal.setText(f"Read the columns as {as_option(vm.proposal)}")
        found = summary.sentences(vm.limit)
        found += [(sentence_case(message), None) for _, message, _ in vm.warnings]
        if vm.measure_error is not None:
            found.insert(0, (str(vm.measure_error), None))
        for place, button in enumerate(self.findings):
            button.setVisible(place < len(found))
            if place < len(found):
                text, self._targets[place] = found[place]
                button.setText(text)
                button.setEnabled(self._targets[place] is not None)
                set_role(button, "finding")

    def _lay_out(self) -> None:
        top = QHBoxLayout()
        top.addWidget(self.name, 1)
        for button in self.buttons.values():
            button.setAutoDefault(False)
            top.addWidget(button)
        left = QVBoxLayout()
        left.setSpacing(2)
        left.addWidget(self.counts)
        left.addWidget(self.proposal)
        for place, button in enumerate(self.findings):
            button.setAutoDefault(False)
            button.clicked.connect(lambda _=False, at=place: self._on_finding(at))
            left.addWidget(button)
        left.addStretch(1)
        body = QHBoxLayout()
        body.setSpacing(16)
        body.addLayout(left, 1)
        body.addWidget(self.bars, 0, Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 9, 12, 9)
        layout.setSpacing(6)
        layout.addLayout(top)
        layout.addLayout(body)

    def _on_finding(self, place: int) -> None:
        if (wanted := self._targets[place]) is not None:
            self.filter_asked.emit(wanted)

    def _on_open_clicked(self) -> None:
        path, _ = QFileDialog.getOpenFileName(
            self, "Open rows", self.name.toolTip(), PATH_FIELDS["data"].patterns
        )
        if path:
            self.opened.emit(Path(path))


def _counts(vm: DataViewModel) -> str:
    summary = vm.summary
    rows = f"{count(summary.rows, 'row')} so far" if vm.reading else count(summary.rows, "row")
    parts = [rows]
    if not vm.reading and summary.rows:
        held = summary.filters[RowFilter.VALIDATION]
        parts.append(f"{summary.trained:,} trained, {held:,} for validation")
    if summary.measured:
        share = f" ({summary.supervised / max(summary.tokens, 1):.0%} of them trained)"
        parts.append(f"{summary.tokens:,} tokens an epoch{share}, longest {summary.longest:,}")
    if vm.measuring:
        parts.append(f"counting tokens, {summary.measured:,} rows done")
    if left := summary.filters[RowFilter.CHANGED]:
        parts.append(f"{left:,} changed or left out")
    return "  \N{MIDDLE DOT}  ".join(parts)
