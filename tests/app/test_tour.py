"""The first tour: shown once by itself, walked with keys or clicks, and left at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.application import Application
from app.paths import AppPaths
from app.viewmodels.tour_vm import STEPS
from app.views.tour import Tour, place_beside

pytestmark = pytest.mark.gui


@pytest.fixture
def start_app(
    qapp: QApplication, qtbot: QtBot, tmp_path: Path, dirs: Path
) -> Iterator[Callable[[], Application]]:
    made: list[Application] = []

    def close() -> None:
        for app in made:
            app.window.close()
            app.shut_down()
        made.clear()

    def start() -> Application:
        close()
        app = Application(qapp, AppPaths(tmp_path / "config", tmp_path / "log"))
        made.append(app)
        app.open(warm_up=False)
        app.welcome()
        app.window.activateWindow()
        qtbot.waitUntil(app.window.isActiveWindow)
        return app

    yield start
    close()
    qapp.setStyleSheet("")
    qapp.styleHints().setColorScheme(Qt.ColorScheme.Unknown)


def tour_of(app: Application) -> Tour:
    tour = app.window.findChild(Tour)
    assert tour is not None
    return tour


def test_it_is_shown_at_the_first_start_only(start_app: Callable[[], Application]) -> None:
    app = start_app()
    assert tour_of(app).card.isVisible()
    app = start_app()
    assert not tour_of(app).card.isVisible()
    app.window.actions_table.tour.trigger()
    assert tour_of(app).card.isVisible()


def test_return_leads_through_all_steps_beside_their_places(
    qtbot: QtBot, start_app: Callable[[], Application]
) -> None:
    app = start_app()
    tour = tour_of(app)
    for number, step in enumerate(STEPS):
        assert app.tour.step is step
        assert app.tour.count_text == f"{number + 1} of 4"
        hole = tour._hole()
        assert hole is not None
        assert app.window.rect().contains(tour.card.geometry())
        assert not tour.card.geometry().intersects(hole)
        qtbot.waitUntil(tour.card.forward.hasFocus)
        qtbot.keyClick(tour.card.forward, Qt.Key.Key_Return)
    assert app.tour.step is None
    assert not tour.isVisible()


def test_it_goes_back_follows_the_window_and_ends_with_escape(
    qtbot: QtBot, start_app: Callable[[], Application]
) -> None:
    app = start_app()
    tour = tour_of(app)
    qtbot.mouseClick(tour.card.forward, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(tour.card.backward, Qt.MouseButton.LeftButton)
    assert app.tour.is_first
    app.window.resize(1500, 900)
    assert tour.size() == app.window.size()
    qtbot.keyClick(tour.card.forward, Qt.Key.Key_Escape)
    assert not tour.card.isVisible()


def test_a_card_without_room_beside_a_place_stands_in_the_middle() -> None:
    window = QRect(0, 0, 400, 300)
    at = place_beside(QRect(4, 4, 390, 290), QRect(0, 0, 200, 100), window)
    assert QRect(at, QRect(0, 0, 200, 100).size()).center() == window.center()
