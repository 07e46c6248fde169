"""The pages of the window and the tabs that turn to them."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from app.views.palette import SPACE

NARROWEST = 420
"""A page may lose the ends of its buttons before the window refuses to get smaller."""

TITLES = {"model": "Model", "data": "Data", "train": "Train", "try": "Try", "runs": "Runs"}


class Pages(QWidget):
    """A row of tabs, what stands between them and the page, and the page.

    Signals:
        turned(key): another page is on show.
    """

    turned = Signal(str)

    def __init__(
        self, pages: Mapping[str, QWidget], between: QWidget, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._keys = [key for key in TITLES if key in pages]
        self.tabs = QTabBar()
        self.tabs.setObjectName("pages")
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(False)
        self.tabs.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.tabs.setAccessibleName("Pages")
        self._stack = QStackedWidget()
        for key in self._keys:
            self.tabs.addTab(TITLES[key])
            pages[key].setMinimumWidth(NARROWEST)
            self._stack.addWidget(pages[key])
        bar = QHBoxLayout()
        bar.setContentsMargins(SPACE * 3 // 2, 2, SPACE, 0)
        bar.addWidget(self.tabs)
        bar.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(bar)
        holder = QVBoxLayout()
        holder.setContentsMargins(SPACE, SPACE // 2, SPACE, SPACE // 2)
        holder.addWidget(between)
        layout.addLayout(holder)
        layout.addWidget(self._stack, 1)
        self.tabs.currentChanged.connect(self._on_tab_changed)
        self.show_page("train")

    @property
    def keys(self) -> tuple[str, ...]:
        """The pages that there are, in their order."""
        return tuple(self._keys)

    @property
    def current(self) -> str:
        """The page on show."""
        return self._keys[self.tabs.currentIndex()]

    def show_page(self, key: str) -> None:
        """Turn to a page; one that is not there is passed over."""
        if key in self._keys:
            self.tabs.setCurrentIndex(self._keys.index(key))

    def _on_tab_changed(self, index: int) -> None:
        self._stack.setCurrentIndex(index)
        self.turned.emit(self._keys[index])
