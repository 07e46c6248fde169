"""The mask lens: one row exactly as the model will see it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.viewmodels.data_rows import DataRow
from app.viewmodels.wording import count, sentence_case
from app.views.palette import SPACE, Palette, mixed
from app.views.theme import Theme, set_role
from app.views.token_text import TokenText
from trainer_core.data.lens import LensRow


class MaskLens(QFrame):
    """A row's tokens with their fates; of a pair the prompt once and the answers side by side.

    Signals:
        leave_out_asked(bool): leave the row out, or take it in again.
        edit_asked: give the row other values.
        restore_asked: undo its change.
    """

    leave_out_asked = Signal(bool)
    edit_asked = Signal()
    restore_asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "card")
        self._theme = theme
        self.title = QLabel()
        set_role(self.title, "heading")
        self.note = QLabel()
        self.note.setWordWrap(True)
        self.legend = QLabel()
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        set_role(self.legend, "small")
        self.leave_out = _button("Leave out", "Do not use this row. The file stays as it is.")
        self.edit = _button("Edit\N{HORIZONTAL ELLIPSIS}", "Use other text for this row")
        self.restore = _button("Undo the change", "Use the row as the file has it")
        self.leave_out.clicked.connect(self._on_leave_out_clicked)
        self.edit.clicked.connect(self.edit_asked)
        self.restore.clicked.connect(self.restore_asked)
        palette = theme.palette
        self.prompt = TokenText("Tokens of the row", palette)
        self.chosen = TokenText("Tokens of the preferred answer", palette)
        self.rejected = TokenText("Tokens of the rejected answer", palette)
        self._headings = {name: QLabel() for name in ("prompt", "chosen", "rejected")}
        self._left_out = False
        self._blank = QLabel("Choose a row to see it as the model will.")
        set_role(self._blank, "muted")
        self._blank.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._lay_out()
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()
        self.show_row(None, None, "")

    def show_row(self, row: DataRow | None, lens: LensRow | None, error: str) -> None:
        """Show a row; without `lens` its text, and why there are no tokens."""
        self._stack.setCurrentIndex(0 if row is None else 1)
        for button in (self.leave_out, self.edit, self.restore):
            button.setVisible(row is not None and row.scanned.row is not None)
        if row is None:
            self.title.setText("")
            self.note.hide()
            return
        self._left_out = row.scanned.left_out
        self.leave_out.setText("Use again" if self._left_out else "Leave out")
        self.edit.setEnabled(not self._left_out)
        self.restore.setVisible(row.scanned.replaced)
        source = row.scanned.source
        name = source.file.replace("\\", "/").rsplit("/", 1)[-1]
        parts = [f"Row {row.number + 1:,}", f"{name}:{source.line}"]
        parts += [row.state] if row.state != "trained" else []
        self.title.setText("  \N{MIDDLE DOT}  ".join(parts))
        self._show_note(row, lens, error)
        self._show_tokens(row, lens)

    def _show_note(self, row: DataRow, lens: LensRow | None, error: str) -> None:
        said = [row.problem or error, row.hint if row.problem else ""]
        if lens is not None and not lens.problem and lens.lengths != lens.kept:
            lost = sum(lens.lengths) - sum(lens.kept)
            said.append(f"{count(lost, 'token')} of {sum(lens.lengths):,} cut off")
        text = " ".join(sentence_case(part.rstrip(".")) + "." for part in said if part)
        set_role(self.note, "error" if row.problem or error else "warning")
        self.note.setText(text)
        self.note.setVisible(bool(text))

    def _show_tokens(self, row: DataRow, lens: LensRow | None) -> None:
        pair = lens.is_pair if lens else bool(row.rejected)
        self._answers.setVisible(pair)
        if lens is None or not lens.prompt:
            for box, text in (
                (self.prompt, row.prompt if pair else f"{row.prompt}\n\n{row.answer}".strip()),
                (self.chosen, row.answer),
                (self.rejected, row.rejected),
            ):
                box.show_tokens(())
                box.setPlainText(text)
            for label in self._headings.values():
                label.setText("")
            self._name_panes(pair, ("", "", ""))
            return
        self.prompt.show_tokens(lens.prompt)
        self.chosen.show_tokens(lens.chosen)
        self.rejected.show_tokens(lens.rejected)
        numbers = [count(sum(len(t.ids) for t in part), "token") for part in
                   (lens.prompt, lens.chosen, lens.rejected)]  # fmt: skip
        self._name_panes(pair, numbers)

    def _name_panes(self, pair: bool, numbers: tuple[str, str, str] | list[str]) -> None:
        names = ("Prompt, shared" if pair else "Row", "Chosen", "Rejected")
        for label, name, tokens in zip(self._headings.values(), names, numbers, strict=True):
            label.setText("  \N{MIDDLE DOT}  ".join(part for part in (name, tokens) if part))

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.title)
        head.addStretch(1)
        for button in (self.restore, self.edit, self.leave_out):
            head.addWidget(button)
        self._answers = QSplitter(Qt.Orientation.Horizontal)
        self._answers.setChildrenCollapsible(False)
        self._answers.addWidget(self._pane("chosen", self.chosen))
        self._answers.addWidget(self._pane("rejected", self.rejected))
        panes = QSplitter(Qt.Orientation.Vertical)
        panes.setChildrenCollapsible(False)
        panes.addWidget(self._pane("prompt", self.prompt))
        panes.addWidget(self._answers)
        panes.setStretchFactor(0, 1)
        panes.setStretchFactor(1, 2)
        full = QWidget()
        column = QVBoxLayout(full)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACE // 2)
        column.addLayout(head)
        column.addWidget(self.note)
        column.addWidget(panes, 1)
        column.addWidget(self.legend)
        self._stack = QStackedWidget()
        self._stack.addWidget(self._blank)
        self._stack.addWidget(full)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 9, 12, 9)
        layout.addWidget(self._stack)

    def _pane(self, name: str, box: TokenText) -> QWidget:
        label = self._headings[name]
        set_role(label, "small")
        pane = QWidget()
        column = QVBoxLayout(pane)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(label)
        column.addWidget(box, 1)
        box.setMinimumHeight(44)
        return pane

    def _on_leave_out_clicked(self) -> None:
        self.leave_out_asked.emit(not self._left_out)

    def _on_theme_changed(self) -> None:
        palette = self._theme.palette
        for box in (self.prompt, self.chosen, self.rejected):
            box.paint_with(palette)
        self.legend.setText(_legend(palette))


def _button(text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tip)
    button.setAutoDefault(False)
    return button


def _legend(palette: Palette) -> str:
    def swatch(colour: str, name: str, style: str = "") -> str:
        return f"<span style='background:{colour};{style}'>&nbsp;{name}&nbsp;</span>"

    return "&nbsp;&nbsp; ".join(
        (
            swatch(mixed(palette.curve_valid, palette.raised, 0.3), "trained"),
            swatch(mixed(palette.muted, palette.raised, 0.10), "read"),
            swatch(
                mixed(palette.danger, palette.raised, 0.14),
                "cut off",
                "text-decoration:line-through",
            ),
            f"<span style='color:{palette.accent}'><i>special token</i></span>",
        )
    )
