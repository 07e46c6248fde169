"""The tour on the window: everything but the place that is told of is dimmed, beside it a card."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QKeySequence, QPainter, QPainterPath, QPaintEvent, QPen, QShortcut
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget
from typing_extensions import override

from app.viewmodels.tour_vm import Place, TourViewModel
from app.views.palette import SPACE
from app.views.theme import Theme, set_role

CARD_WIDTH = 340
_RADIUS = 8.0
_DIM = 150


class Tour(QWidget):
    """Covers the window without taking its clicks, and follows its size.

    Args:
        vm: which step is on show.
        window: what is told of.
        places: the widgets of the steps.
        theme: for the colours.
    """

    def __init__(
        self,
        vm: TourViewModel,
        window: QWidget,
        places: Mapping[Place, QWidget],
        theme: Theme,
    ) -> None:
        super().__init__(window)
        self._vm = vm
        self._window = window
        self._places = places
        self._theme = theme
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.card = TourCard(vm, window)
        self.hide()
        window.installEventFilter(self)
        vm.changed.connect(self.refresh)

    def refresh(self) -> None:
        """Show the view-model as it is now."""
        step = self._vm.step
        self.setVisible(step is not None)
        self.card.setVisible(step is not None)
        if step is None:
            return
        self.card.refresh()
        self._lay_out()
        self.raise_()
        self.card.raise_()
        self.card.forward.setFocus()

    @override
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self._vm.step is not None:
            self._lay_out()
        return super().eventFilter(watched, event)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        hole = self._hole()
        if hole is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        whole, spared = QPainterPath(), QPainterPath()
        whole.addRect(QRectF(self.rect()))
        spared.addRoundedRect(QRectF(hole), _RADIUS, _RADIUS)
        painter.fillPath(whole.subtracted(spared), QColor(0, 0, 0, _DIM))
        painter.setPen(QPen(QColor(self._theme.palette.accent), 2.0))
        painter.drawPath(spared)

    def _hole(self) -> QRect | None:
        """The place that is told of, in the window, with a little room around it."""
        step = self._vm.step
        if step is None:
            return None
        widget = self._places[step.place]
        corner = widget.mapTo(self._window, QPoint(0, 0))
        room = QRect(corner, widget.size()).adjusted(-4, -4, 4, 4)
        return room.intersected(self._window.rect().adjusted(2, 2, -2, -2))

    def _lay_out(self) -> None:
        self.setGeometry(self._window.rect())
        hole = self._hole()
        if hole is None:
            return
        self.card.adjustSize()
        self.card.move(place_beside(hole, self.card.rect(), self._window.rect()))
        self.update()


def place_beside(hole: QRect, card: QRect, window: QRect) -> QPoint:
    """The corner of a card beside a place: right, below, left or above, where it fits first."""
    gap = 2 * SPACE
    ways = (
        QPoint(hole.right() + gap, hole.top() + gap),
        QPoint(hole.left(), hole.bottom() + gap),
        QPoint(hole.left() - gap - card.width(), hole.top()),
        QPoint(hole.left(), hole.top() - gap - card.height()),
    )
    inside = window.adjusted(SPACE, SPACE, -SPACE, -SPACE)
    fits = (at for at in ways if inside.contains(QRect(at, card.size())))
    return next(fits, window.center() - card.center())


class TourCard(QFrame):
    """Title, text and buttons of a step."""

    def __init__(self, vm: TourViewModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._vm = vm
        set_role(self, "tour")
        self.setFixedWidth(CARD_WIDTH)
        self.setAccessibleName("Tour")
        self._title = QLabel()
        set_role(self._title, "heading")
        self._text = QLabel()
        self._text.setWordWrap(True)
        self._count = QLabel()
        set_role(self._count, "small")
        self.skip = QPushButton("Skip")
        self.backward = QPushButton("Back")
        self.forward = QPushButton("Next")
        set_role(self.forward, "primary")
        buttons = QHBoxLayout()
        buttons.addWidget(self._count)
        buttons.addStretch(1)
        for button in (self.skip, self.backward, self.forward):
            buttons.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 14, 16, 12)
        column.setSpacing(SPACE)
        column.addWidget(self._title)
        column.addWidget(self._text)
        column.addLayout(buttons)
        self.skip.clicked.connect(vm.end)
        self.backward.clicked.connect(vm.back)
        self.forward.clicked.connect(vm.next)
        escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        escape.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        escape.activated.connect(vm.end)
        for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            enter = QShortcut(QKeySequence(key), self.forward)
            enter.setContext(Qt.ShortcutContext.WidgetShortcut)
            enter.activated.connect(vm.next)
        self.hide()

    def refresh(self) -> None:
        """Show the step as it is now."""
        step = self._vm.step
        if step is None:
            return
        self._title.setText(step.title)
        self._text.setText(step.text)
        self._count.setText(self._vm.count_text)
        self.backward.setVisible(not self._vm.is_first)
        self.skip.setVisible(not self._vm.is_last)
        self.forward.setText("Done" if self._vm.is_last else "Next")
