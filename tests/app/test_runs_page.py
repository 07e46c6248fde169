"""The history as a user drives it: the list, notes, comparison, the bin, settings, going on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from app.reading.runs import LIVE_S, RunNotes, read_record
from app.settings import Settings
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.judged_vm import JudgedRowsViewModel
from app.viewmodels.queue_vm import QueueViewModel
from app.viewmodels.run_curves import METRICS
from app.viewmodels.run_table import BEST, NAME, STATE
from app.viewmodels.runs_vm import RunsViewModel, to_bin
from app.views.runs_page import RunsPage
from app.views.theme import Theme
from tests.app.run_events import finished, started, step, validation, whole_run
from trainer_core.config import RunConfig
from trainer_core.config_io import dump_yaml
from trainer_core.errors import TrainerError
from trainer_core.events import Event, Failed, Started
from trainer_core.runfolder import EventLog, RunFolder

pytestmark = pytest.mark.gui


def make_run(parent: Path, name: str, events: list[Event] | None = None, **options: object) -> Path:
    """A run folder as the engine leaves it."""
    values = {"model": "sample", "data": "sample", "method": "orpo", "run_name": name, **options}
    config = RunConfig(**values, output=str(parent))
    run = RunFolder.create(config)
    with EventLog(run.events) as record:
        for event in events if events is not None else whole_run(run.path):
            if isinstance(event, Started):
                event = Started(
                    run=str(run.path),
                    config=config.model_dump(mode="json"),
                    device=event.device,
                    versions={},
                )
            record.append(event)
    run.adapter.mkdir()
    run.best.mkdir()
    run.checkpoint(5).mkdir(parents=True)
    return run.path


@pytest.fixture
def runs(tmp_path: Path, dirs: Path) -> Path:
    """Three runs; the newest by name is the last one."""
    parent = tmp_path / "runs"
    make_run(parent, "2026-01-01-000000-a", learning_rate=1e-4)
    make_run(parent, "2026-01-02-000000-b", learning_rate=2e-4, rank=8)
    make_run(
        parent,
        "2026-01-03-000000-c",
        [started(Path("c")), step(1), Failed("the disk is full", "no room", "make room")],
        learning_rate=2e-4,
    )
    return parent


@pytest.fixture
def page(qtbot: QtBot, qapp: QApplication, runs: Path) -> Iterator[RunsPage]:
    form = ConfigViewModel()
    form.set_value("output", str(runs))
    vm = RunsViewModel(form, Settings(), move_away=gone)
    form.setParent(vm)
    judged = JudgedRowsViewModel(vm, vm)
    page = RunsPage(vm, judged, QueueViewModel(vm), Theme(qapp, "light"))
    qtbot.addWidget(page)
    page.resize(1000, 800)
    page.show()
    qtbot.waitUntil(lambda: vm.records is not None and not vm._line.busy)
    yield page
    vm.close()
    judged.close()
    qapp.setStyleSheet("")


def gone(path: str) -> bool:
    shutil.rmtree(path)
    return True


def view_model(page: RunsPage) -> RunsViewModel:
    return page._vm


def shown(page: RunsPage, column: int) -> list[str]:
    table = view_model(page).table
    return [table.data(table.index(i, column)) for i in range(table.rowCount())]


def choose(qtbot: QtBot, page: RunsPage, *places: int) -> None:
    vm = view_model(page)
    page.table.clearSelection()
    for n, place in enumerate(places):
        at = page.table.visualRect(vm.table.index(place, NAME)).center()
        held = Qt.KeyboardModifier.ControlModifier if n else Qt.KeyboardModifier.NoModifier
        qtbot.mouseClick(page.table.viewport(), Qt.MouseButton.LeftButton, held, at)
    qtbot.waitUntil(lambda: len(vm.selected) == len(places) and not page._soon.isActive())
    qtbot.waitUntil(lambda: not vm._line.busy)


def test_all_runs_are_listed_the_newest_first(page: RunsPage) -> None:
    assert shown(page, NAME) == [
        f"2026-01-0{n}-000000-{x}" for n, x in ((3, "c"), (2, "b"), (1, "a"))
    ]
    assert shown(page, STATE) == ["failed", "done", "done"]
    assert shown(page, BEST) == ["", "1.2", "1.2"]


def test_the_newest_run_is_shown_at_once(qtbot: QtBot, page: RunsPage) -> None:
    qtbot.waitUntil(lambda: len(view_model(page).selected) == 1)
    assert "Failed: the disk is full" in page.details.facts.text()


def test_search_looks_at_names_notes_tags_and_settings(qtbot: QtBot, page: RunsPage) -> None:
    vm = view_model(page)
    record = next(r for r in vm.records or () if r.title.endswith("-a"))
    vm.set_notes(record, RunNotes("Baseline", "the one to beat", ("good",)))
    for words, names in (
        ("BASE", ["Baseline  #good"]),
        ("beat good", ["Baseline  #good"]),
        ("failed", ["2026-01-03-000000-c"]),
        ("nothing like it", []),
    ):
        page.search.setText(words)
        assert shown(page, NAME) == names


def test_name_tags_and_notes_are_kept_in_the_run_folder(
    qtbot: QtBot, page: RunsPage, runs: Path
) -> None:
    choose(qtbot, page, 1)
    page.details.title.setText("Small rank")
    qtbot.keyClick(page.details.title, Qt.Key.Key_Return)
    page.details.tags.setText("small, , rank,small")
    qtbot.keyClick(page.details.tags, Qt.Key.Key_Return)
    page.details.notes.setPlainText("Forgets names.\n")
    choose(qtbot, page, 2)
    stored = json.loads((runs / "2026-01-02-000000-b" / "notes.json").read_text())
    assert stored == {"title": "Small rank", "text": "Forgets names.", "tags": ["small", "rank"]}
    assert shown(page, NAME)[1] == "Small rank  #small  #rank"
    choose(qtbot, page, 1)
    assert page.details.notes.toPlainText() == "Forgets names."


def test_notes_that_cannot_be_kept_are_said(qtbot: QtBot, page: RunsPage, runs: Path) -> None:
    choose(qtbot, page, 2)
    shutil.rmtree(runs / "2026-01-01-000000-a")
    with qtbot.waitSignal(view_model(page).failed) as told:
        page.details.title.setText("Too late")
        qtbot.keyClick(page.details.title, Qt.Key.Key_Return)
    assert "cannot be kept" in str(told.args[0])


def test_runs_are_compared_by_curves_and_by_what_differs(qtbot: QtBot, page: RunsPage) -> None:
    vm = view_model(page)
    choose(qtbot, page, 1, 2)
    qtbot.waitUntil(lambda: len(vm.metrics) > 5)
    assert {(row.key, row.values) for row in vm.differences} == {
        ("learning_rate", ("2e-4", "1e-4")),
        ("rank", ("8", "16")),
    }
    assert page.details.settings.rowCount() == 2
    steps, values = vm.curve(vm.selected[0])
    assert steps.tolist() == [0.0, 10.0]
    assert values.tolist() == [1.5, 1.2]
    assert len(page.plot._lines) == 2
    loss = next(metric for metric in METRICS if metric.key == "loss")
    page.plot.choice.setCurrentIndex(vm.metrics.index(loss))
    page.plot.choice.activated.emit(vm.metrics.index(loss))
    assert vm.metric is loss
    assert len(vm.curve(vm.selected[0])[0]) == 10


def test_of_one_run_the_settings_that_are_not_defaults(qtbot: QtBot, page: RunsPage) -> None:
    choose(qtbot, page, 1)
    keys = {row.key for row in view_model(page).differences}
    assert {"learning_rate", "rank", "method"} <= keys
    assert "dropout" not in keys


def test_a_run_goes_to_the_bin_after_a_question(qtbot: QtBot, page: RunsPage, runs: Path) -> None:
    choose(qtbot, page, 2)
    qtbot.keyClick(page.table, Qt.Key.Key_Delete)
    box = page.findChild(QMessageBox)
    assert box is not None
    assert (runs / "2026-01-01-000000-a").exists()
    move = next(b for b in box.findChildren(QPushButton) if b.text() == "Move to the bin")
    qtbot.mouseClick(move, Qt.MouseButton.LeftButton)
    assert not (runs / "2026-01-01-000000-a").exists()
    assert len(shown(page, NAME)) == 2


def test_a_run_that_is_going_on_stays(qtbot: QtBot, page: RunsPage, runs: Path) -> None:
    vm = view_model(page)
    live = make_run(runs, "2026-01-04-000000-d", [started(Path("d")), step(1)])
    vm.look()
    qtbot.waitUntil(lambda: shown(page, STATE)[:1] == ["running"])
    record = (vm.records or [])[0]
    with qtbot.waitSignal(vm.failed) as told:
        vm.remove([record])
    assert "still running" in str(told.args[0])
    assert live.exists()


def test_the_real_bin_takes_a_run(dirs: Path, tmp_path: Path) -> None:
    folder = make_run(dirs / "runs", "thrown-away")
    if not to_bin(str(folder)):
        pytest.skip("this system has no bin for the disk of the tests")
    assert not folder.exists()


def test_a_live_run_is_followed_and_an_old_one_counts_as_interrupted(
    qtbot: QtBot, page: RunsPage, runs: Path
) -> None:
    vm = view_model(page)
    folder = make_run(runs, "2026-01-05-000000-e", [started(Path("e")), step(1), validation(1)])
    vm.look()
    qtbot.waitUntil(lambda: len(shown(page, NAME)) == 4)
    choose(qtbot, page, 0)
    with EventLog(RunFolder(folder).events) as log:
        log.append(step(2))
        log.append(validation(2, loss=0.9))
    vm.look()
    qtbot.waitUntil(lambda: len(vm.curve(vm.selected[0])[0]) == 2)
    assert vm.selected[0].best_loss == 0.9
    long_ago = RunFolder(folder).events.stat().st_mtime - 2 * LIVE_S
    os.utime(RunFolder(folder).events, (long_ago, long_ago))
    vm.look()
    qtbot.waitUntil(lambda: vm.selected[0].state == "interrupted")


def test_a_form_takes_the_settings_of_a_run(qtbot: QtBot, page: RunsPage) -> None:
    choose(qtbot, page, 1)
    with qtbot.waitSignal(page.used):
        page.buttons["use"].click()
    values = view_model(page)._form.values
    assert (values["rank"], values["learning_rate"], values["run_name"]) == (8, 2e-4, None)
    view_model(page)._form.undo()
    assert view_model(page)._form.values["rank"] == 16


def test_a_form_goes_on_from_an_adapter(qtbot: QtBot, page: RunsPage, runs: Path) -> None:
    choose(qtbot, page, 1)
    menu = page.fork_menu()
    assert [action.text() for action in menu.actions()] == ["Final", "Best", "Step 5"]
    menu.actions()[2].trigger()
    config_values = view_model(page)._form.values
    folder = runs / "2026-01-02-000000-b" / "checkpoints" / "step-5"
    assert config_values["warm_start"] == str(folder)
    assert config_values["learning_rate"] == 2e-4
    # Its own rank comes from the adapter; another one in the form would be refused.
    assert config_values["rank"] == 16


def test_settings_of_another_version_are_refused_in_words(qtbot: QtBot, page: RunsPage) -> None:
    from dataclasses import replace

    vm = view_model(page)
    record = (vm.records or [])[0]
    odd = replace(record, config={**record.config, "method": "kto"})
    errors: list[TrainerError] = []
    vm.failed.connect(errors.append)
    assert not vm.use(odd)
    assert "do not fit this version" in errors[0].what
    assert "method" in errors[0].why


@pytest.mark.parametrize("content", [b"", b"{}\n", b'{"event": "sta', b"\xff\xfe\n"])
def test_a_folder_that_tells_of_no_run_is_passed_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "events.jsonl").write_bytes(content)
    assert read_record(tmp_path) is None


def test_a_record_with_half_a_line_at_its_end_is_read(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "torn")
    with RunFolder(folder).events.open("ab") as file:
        file.write(b'{"event": "step", "st')
    record = read_record(folder)
    assert record is not None
    assert (record.state, record.steps, record.best_loss) == ("done", 10, 1.2)


def test_spoilt_notes_are_no_notes(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "noted")
    (folder / "notes.json").write_text('["not", "ours"]')
    record = read_record(folder)
    assert record is not None
    assert record.notes == RunNotes()


def test_the_dump_of_a_run_is_a_config(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "again")
    record = read_record(folder)
    assert record is not None
    assert dump_yaml(RunConfig(**record.config)) == RunFolder(folder).config.read_text()
    assert finished(folder).reason == record.state
