"""A question and its answers, the base model's beside the adapter's."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.viewmodels.exchanges import Exchange, Side
from app.views.theme import set_role


class ExchangeCard(QFrame):
    """One exchange; `refresh` shows what has come since.

    Signals:
        again_asked(str): put the question once more.
    """

    again_asked = Signal(str)

    def __init__(self, exchange: Exchange, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "card")
        self.exchange = exchange
        self.prompt = _text(exchange.prompt)
        set_role(self.prompt, "heading")
        self.again = QPushButton("Ask again")
        self.again.setAutoDefault(False)
        set_role(self.again, "quiet")
        self.again.clicked.connect(lambda: self.again_asked.emit(exchange.prompt))
        how = QLabel(exchange.how)
        set_role(how, "small")
        self.note = QLabel()
        self.note.setWordWrap(True)
        head = QHBoxLayout()
        head.addWidget(self.prompt, 1)
        head.addWidget(self.again, 0, Qt.AlignmentFlag.AlignTop)
        answers = QHBoxLayout()
        answers.setSpacing(18)
        self.sides: list[tuple[Side, AnswerColumn]] = []
        if exchange.base is not None:
            self._add_side(answers, exchange.base, "Base model")
        self._add_side(answers, exchange.tuned, "With adapter" if exchange.base else "Model")
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 14, 12)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(how)
        column.addLayout(answers)
        column.addWidget(self.note)
        self.refresh()

    def refresh(self) -> None:
        """Show the exchange as it is now."""
        exchange = self.exchange
        for side, column in self.sides:
            column.show_side(side)
        alike = "Both say the same." if exchange.over and exchange.alike else ""
        self.note.setText(exchange.note or alike)
        self.note.setVisible(bool(self.note.text()))
        set_role(self.note, "error" if exchange.failed else "small")
        self.again.setVisible(exchange.over)

    def _add_side(self, row: QHBoxLayout, side: Side, title: str) -> None:
        column = AnswerColumn(title)
        self.sides.append((side, column))
        row.addWidget(column, 1)


class AnswerColumn(QWidget):
    """Title, answer and figures of one side."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        name = QLabel(title)
        set_role(name, "field")
        self.text = _text("")
        self.text.setAccessibleName(title)
        self.figures = QLabel()
        set_role(self.figures, "small")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(3)
        column.addWidget(name)
        column.addWidget(self.text)
        column.addWidget(self.figures)
        column.addStretch(1)

    def show_side(self, side: Side) -> None:
        """Show an answer, or as much of it as there is."""
        empty = "(no text)" if side.whole else ""
        text = side.text or empty
        if self.text.text() != text:
            self.text.setText(text)
        self.figures.setText(side.figures)


def _text(text: str) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse
        | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    return label
