"""What stands where nothing is yet shows all of its words, however narrow the window."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.views.empty_state import EmptyState
from app.views.theme import Theme

pytestmark = pytest.mark.gui

LONG = "A prompt is answered by the base model and with the adapter, side by side. " * 3


@pytest.mark.parametrize("width", [300, 500, 1400])
def test_no_line_is_cut(qtbot: QtBot, qapp: QApplication, width: int) -> None:
    theme = Theme(qapp, "light")
    state = EmptyState(theme)
    qtbot.addWidget(state)
    state.say("Title", "Short.")
    state.resize(width, 500)
    with qtbot.waitExposed(state):
        state.show()
    for text in (LONG, "Short.", LONG):
        state.say("Title", text)
        qapp.processEvents()
        label = state._text
        assert label.height() >= label.heightForWidth(label.width())
        assert state.rect().contains(label.geometry())
    state.resize(280, 500)
    qapp.processEvents()
    assert label.height() >= label.heightForWidth(label.width())
    assert state.rect().contains(label.geometry())
