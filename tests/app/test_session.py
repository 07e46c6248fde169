from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from pytestqt.qtbot import QtBot

from app.viewmodels.export_vm import ExportState
from app.viewmodels.run_vm import RunState
from app.viewmodels.session import Session
from tests.app.fake_jobs import ScriptedExport, ScriptedTrain
from trainer_core.config import RunConfig
from trainer_core.errors import ConfigError, ExportError

pytestmark = pytest.mark.gui
CONFIG = RunConfig(model="sample", data="sample", method="orpo")

Open = Callable[..., Session]


@pytest.fixture
def open_session(qapp: object) -> Iterator[Open]:
    made: list[Session] = []

    def make(train: ScriptedTrain, export: ScriptedExport | None = None) -> Session:
        session = Session(make_train=train, make_export=export or ScriptedExport())
        session.open(warm_up=False)
        made.append(session)
        return session

    yield make
    for session in made:
        session.close()
        session.wait()


class BadForm:
    problems: ClassVar[dict[str, str]] = {"rank": "must be at least 1", "data": "needs a value"}
    status = "Rank: must be at least 1"

    def config(self) -> None:
        return None


def test_a_run_from_start_to_finish(qtbot: QtBot, tmp_path: Path, open_session: Open) -> None:
    train = ScriptedTrain(tmp_path, steps=3)
    session = open_session(train)
    session.start(CONFIG)
    assert session.run.state is RunState.STARTING
    assert session.busy
    train.allow(3)
    with qtbot.waitSignal(session.idle):
        pass
    assert session.run.state is RunState.FINISHED
    assert session.run.finished_run == tmp_path
    assert session.progress.steps_text == "3 of 3"
    assert session.progress.headline == "Done"
    assert not session.curves.empty
    assert session.notices.notice is not None
    assert session.notices.notice.level == "success"
    assert train.config == CONFIG
    assert not session.busy


def test_stop_ends_after_the_step_and_says_what_was_saved(
    qtbot: QtBot, tmp_path: Path, open_session: Open
) -> None:
    train = ScriptedTrain(tmp_path, steps=100)
    session = open_session(train)
    session.start(CONFIG)
    train.allow(2)
    qtbot.waitUntil(lambda: session.progress.step == 2)
    session.stop()
    assert session.run.state is RunState.STOPPING
    assert train.control.stopping
    assert not train.control.stopping_now
    train.allow()
    with qtbot.waitSignal(session.idle):
        pass
    notice = session.notices.notice
    assert notice is not None
    assert notice.title.startswith("Stopped after 3 steps")
    assert str(tmp_path / "adapter") in notice.text
    assert any(str(tmp_path / "adapter") in line.text for line in session.log.lines)


def test_a_pause_waits_until_the_run_goes_on(
    qtbot: QtBot, tmp_path: Path, open_session: Open
) -> None:
    train = ScriptedTrain(tmp_path, steps=4)
    session = open_session(train)
    session.pause_or_go_on()  # there is nothing to pause
    session.start(CONFIG)
    train.allow()
    qtbot.waitUntil(lambda: session.progress.step == 1)
    session.pause_or_go_on()
    assert session.run.state is RunState.PAUSING
    assert session.progress.headline == "Pausing after this step"
    session.pause_or_go_on()  # a change of mind before the step has ended
    assert session.run.state is RunState.RUNNING
    session.pause_or_go_on()
    train.allow()
    qtbot.waitUntil(lambda: session.run.state is RunState.PAUSED)
    assert session.run.active
    assert session.progress.headline == "Paused"
    session.pause_or_go_on()
    assert session.run.state is RunState.RUNNING
    train.allow(2)
    with qtbot.waitSignal(session.idle):
        pass
    assert session.run.state is RunState.FINISHED
    assert session.progress.step == 4


def test_a_second_stop_does_not_wait_for_the_step(
    qtbot: QtBot, tmp_path: Path, open_session: Open
) -> None:
    train = ScriptedTrain(tmp_path)
    session = open_session(train)
    session.start(CONFIG)
    session.stop()
    session.stop()
    assert train.control.stopping_now
    assert session.progress.headline == "Stopping now"
    train.allow()
    with qtbot.waitSignal(session.idle):
        pass


def test_a_failure_is_told_once_with_what_why_and_what_to_do(
    qtbot: QtBot, tmp_path: Path, open_session: Open
) -> None:
    train = ScriptedTrain(tmp_path, error=RuntimeError("boom"))
    session = open_session(train)
    session.start(CONFIG)
    train.allow()
    with qtbot.waitSignal(session.idle):
        pass
    assert session.run.state is RunState.FAILED
    notice = session.notices.notice
    assert notice is not None
    assert (notice.level, notice.title, notice.text) == (
        "error",
        "The engine broke",
        "Boom. Try again.",
    )
    assert len([line for line in session.log.lines if line.level == "error"]) == 1
    assert session.progress.level == "error"


def test_a_failure_before_any_event_is_told_as_well(
    qtbot: QtBot, tmp_path: Path, open_session: Open
) -> None:
    class Broken(ScriptedTrain):
        def run(self, emit: object) -> object:
            raise ConfigError("the model is missing", "there is no such folder", "choose one")

    session = open_session(Broken(tmp_path))
    session.start(CONFIG)
    with qtbot.waitSignal(session.idle):
        pass
    assert session.run.state is RunState.FAILED
    assert session.notices.notice is not None
    assert session.notices.notice.title == "The model is missing"


def test_a_bad_form_cannot_start_and_says_why(tmp_path: Path, open_session: Open) -> None:
    session = open_session(ScriptedTrain(tmp_path))
    assert not session.start_form(BadForm())
    assert session.run.state is RunState.IDLE
    notice = session.notices.notice
    assert notice is not None
    assert notice.text == "Rank: must be at least 1 and 1 more, marked in the form."


def test_nothing_starts_while_the_engine_is_at_work(
    qtbot: QtBot, tmp_path: Path, open_session: Open
) -> None:
    train = ScriptedTrain(tmp_path, steps=1)
    session = open_session(train)
    session.start(CONFIG)
    with pytest.raises(ConfigError, match="cannot start yet"):
        session.start(CONFIG)
    with pytest.raises(ConfigError, match="no run has finished"):
        session.export_adapter(tmp_path / "out")
    train.allow()
    with qtbot.waitSignal(session.idle):
        pass


def finish_a_run(qtbot: QtBot, session: Session, train: ScriptedTrain) -> None:
    session.start(CONFIG)
    train.allow(3)
    with qtbot.waitSignal(session.idle):
        pass


def test_an_export_is_done_only_when_it_is_proven(
    qtbot: QtBot, tmp_path: Path, open_session: Open
) -> None:
    train, export = ScriptedTrain(tmp_path), ScriptedExport()
    session = open_session(train, export)
    finish_a_run(qtbot, session, train)
    session.export_adapter(tmp_path / "out")
    qtbot.waitUntil(lambda: session.export.message == "Writing the adapter")
    assert session.export.state is ExportState.RUNNING
    assert session.progress.headline == "Done"  # the export does not disturb the run's panel
    export.allow.set()
    with qtbot.waitSignal(session.idle):
        pass
    assert session.export.state is ExportState.DONE
    assert export.source == tmp_path
    assert ("Largest logit difference", "1.00e-6 (largest logit 20)") in session.export.figures
    assert session.export.command == "mlx_lm.generate --x"
    assert session.log.lines[-1].level == "success"


def test_an_export_that_is_not_proven_has_failed(
    qtbot: QtBot, tmp_path: Path, open_session: Open
) -> None:
    error = ExportError("the adapter does not behave like the trained one", "", "do not use it")
    train, export = ScriptedTrain(tmp_path), ScriptedExport(error)
    session = open_session(train, export)
    finish_a_run(qtbot, session, train)
    session.export_adapter(tmp_path / "out")
    export.allow.set()
    with qtbot.waitSignal(session.idle):
        pass
    assert session.export.state is ExportState.FAILED
    assert session.export.message.endswith("Do not use it.")
    assert session.export.figures == []
    assert session.run.state is RunState.FINISHED


def test_closing_stops_a_run_and_joins_the_thread(
    qtbot: QtBot, tmp_path: Path, open_session: Open
) -> None:
    train = ScriptedTrain(tmp_path, steps=100)
    session = open_session(train)
    session.start(CONFIG)
    assert train.began.wait(10)
    session.close()
    train.allow()
    session.wait()
    assert train.control.stopping
