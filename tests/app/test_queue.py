"""Runs that wait: order, snapshots, what a stop means, and the next start of the app."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.application import Application
from app.paths import AppPaths
from app.viewmodels.queue_vm import QueueViewModel
from app.viewmodels.session import Session
from tests.app.fake_jobs import ScriptedExport, ScriptedTrain
from trainer_core.config import RunConfig

pytestmark = pytest.mark.gui


class Trains:
    """A new scripted run for each start."""

    def __init__(self, folder: Path) -> None:
        self.made: list[ScriptedTrain] = []
        self._folder = folder

    def __call__(self, config: RunConfig) -> ScriptedTrain:
        train = ScriptedTrain(self._folder, steps=1)
        train.config = config
        self.made.append(train)
        return train


@pytest.fixture
def trains(tmp_path: Path) -> Trains:
    return Trains(tmp_path)


@pytest.fixture
def app(qapp: QApplication, tmp_path: Path, trains: Trains) -> Iterator[Application]:
    session = Session(make_train=trains, make_export=ScriptedExport())
    app = Application(qapp, AppPaths(tmp_path / "config", tmp_path / "log"), session)
    app.open(warm_up=False)
    yield app
    app.window.may_close = lambda: True
    app.window.close()
    app.shut_down()
    qapp.setStyleSheet("")


def config(**options: object) -> RunConfig:
    return RunConfig(**{"model": "sample", "data": "sample", "method": "orpo", **options})


def test_start_during_a_run_puts_the_form_as_it_is_in_the_line(
    qtbot: QtBot, app: Application, trains: Trains
) -> None:
    start = app.window.actions_table.start
    start.trigger()
    assert start.text() == "Add to &queue"
    app.form.set_value("rank", 4)
    start.trigger()
    app.form.set_value("rank", 64)
    assert [run.config.rank for run in app.session.queue.runs] == [4]
    assert "1 waiting" in app.window._run_name.text()
    trains.made[0].allow()
    qtbot.waitUntil(lambda: len(trains.made) == 2)
    assert trains.made[1].config is not None
    assert trains.made[1].config.rank == 4
    trains.made[1].allow()
    with qtbot.waitSignal(app.session.idle):
        pass
    assert start.text() == "&Start"
    assert app.session.queue.runs == []


def test_a_stop_holds_the_line_until_it_is_told_to_go_on(
    qtbot: QtBot, app: Application, trains: Trains
) -> None:
    app.session.start(config())
    app.session.queue.add(config(rank=8))
    qtbot.waitUntil(trains.made[0].began.is_set)
    app.session.stop()
    trains.made[0].allow()
    with qtbot.waitSignal(app.session.idle):
        pass
    assert len(trains.made) == 1
    assert app.session.queue.held
    page = app.window.panels.others["runs"]
    app.window.pages.show_page("runs")
    page.queue.go_on.click()  # type: ignore[attr-defined]
    assert len(trains.made) == 2
    trains.made[1].allow()
    with qtbot.waitSignal(app.session.idle):
        pass


def test_a_run_that_fails_does_not_keep_the_next_from_starting(
    qtbot: QtBot, app: Application, trains: Trains
) -> None:
    app.session.start(config())
    trains.made[0]._error = RuntimeError("broken")
    app.session.queue.add(config(rank=8))
    trains.made[0].allow()
    qtbot.waitUntil(lambda: len(trains.made) == 2)
    trains.made[1].allow()
    with qtbot.waitSignal(app.session.idle):
        pass


def test_order_and_removal() -> None:
    queue = QueueViewModel()
    first, second = queue.add(config(rank=1)), queue.add(config(rank=2))
    queue.sooner(second.number)
    assert [run.config.rank for run in queue.runs] == [2, 1]
    queue.sooner(second.number)
    assert [run.config.rank for run in queue.runs] == [2, 1]
    queue.remove(second.number)
    assert queue.take() == first.config
    assert queue.take() is None


def test_the_line_is_there_again_after_a_restart_and_held() -> None:
    queue, again = QueueViewModel(), QueueViewModel()
    queue.add(config(rank=3, adam_betas=(0.8, 0.9)))
    again.restore([*queue.stored(), {"model": "sample", "method": "of another version"}])
    assert [run.config for run in again.runs] == [config(rank=3, adam_betas=(0.8, 0.9))]
    assert again.held
    assert again.take() is None
    again.go_on()
    assert again.take() is not None


def test_titles_say_what_a_run_is() -> None:
    queue = QueueViewModel()
    named = queue.add(config(run_name="first-try", epochs=2.5))
    assert named.title == "first-try: ORPO, sample on sample, 2.5 epochs"
    assert queue.add(config(method="sft", iters=1200)).title == "SFT, sample on sample, 1,200 steps"
