"""The playground: ask the base model and the adapter side by side."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QStackedWidget, QVBoxLayout, QWidget
from typing_extensions import override

from app.viewmodels.exchanges import Exchange
from app.viewmodels.try_vm import TryViewModel
from app.views.ask_bar import PromptBar, WhomBar
from app.views.empty_state import EmptyState
from app.views.exchange_card import ExchangeCard
from app.views.palette import SPACE
from app.views.theme import Theme, set_role


class TryPage(QWidget):
    """Questions and answers, the newest at the bottom, above the prompt."""

    def __init__(self, vm: TryViewModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self._theme = theme
        self.whom = WhomBar(vm)
        self.bar = PromptBar(vm)
        self.cards: list[ExchangeCard] = []
        self._empty = EmptyState(theme)
        self._empty.say(
            "Try what was trained",
            "A prompt is answered by the base model and with the adapter, side by side, in the "
            "template of the training. It works while a run is going on, too.",
        )
        self._lay_out()
        vm.changed.connect(self.refresh)
        vm.exchanges.added.connect(self._on_added)
        vm.exchanges.changed.connect(self._on_changed)
        vm.exchanges.dropped.connect(self._on_dropped)

    def refresh(self) -> None:
        """Show whom one can ask, and whether."""
        if self.isVisible():
            self.whom.refresh()
            self.bar.refresh()

    @override
    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._vm.wake()
        self.refresh()
        self.bar.prompt.setFocus()

    def _lay_out(self) -> None:
        inside = QWidget()
        self._column = QVBoxLayout(inside)
        self._column.setContentsMargins(0, 0, 4, 0)
        self._column.setSpacing(SPACE)
        self._column.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(inside)
        self._scroll.setAccessibleName("Questions and answers")
        self._stack = QStackedWidget()
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self._scroll)
        upper, lower = QFrame(), QFrame()
        for frame, widget in ((upper, self.whom), (lower, self.bar)):
            set_role(frame, "card")
            box = QVBoxLayout(frame)
            box.setContentsMargins(10, 8, 10, 8)
            box.addWidget(widget)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE, 0, SPACE, SPACE)
        layout.setSpacing(SPACE)
        layout.addWidget(upper)
        layout.addWidget(self._stack, 1)
        layout.addWidget(lower)

    def _on_added(self, exchange: Exchange) -> None:
        card = ExchangeCard(exchange)
        card.again_asked.connect(self.bar.put)
        self.cards.append(card)
        self._column.addWidget(card)
        self._stack.setCurrentWidget(self._scroll)
        self._to_the_end()

    def _on_changed(self, exchange: Exchange) -> None:
        bar = self._scroll.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - 8
        for card in reversed(self.cards):
            if card.exchange is exchange:
                card.refresh()
                break
        if at_end:
            self._to_the_end()

    def _on_dropped(self) -> None:
        card = self.cards.pop(0)
        self._column.removeWidget(card)
        card.hide()
        card.deleteLater()

    def _to_the_end(self) -> None:
        """Once the layout has made room for what is new."""
        bar = self._scroll.verticalScrollBar()
        QTimer.singleShot(0, self, lambda: bar.setValue(bar.maximum()))
