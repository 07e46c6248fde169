"""The validation rows of a run: listed the worst first, and from there to the mask lens."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.application import Application
from app.paths import AppPaths
from app.reading.runs import read_record
from app.viewmodels.judged_table import PLACE, JudgedTable
from app.views.judged_rows import JudgedRows
from app.views.runs_page import RunsPage
from tests.app.test_runs_page import make_run
from trainer_core.data.row_changes import read_row_changes
from trainer_core.data.types import Source
from trainer_core.row_losses import RowHistory, RowLoss, RowLossLog
from trainer_core.runfolder import RunFolder

pytestmark = pytest.mark.gui

FRUITS = ["apple", "pear", "plum", "fig"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "fruits.jsonl"
    rows = [{"prompt": f"Is {f} a fruit?", "chosen": "Yes.", "rejected": "No."} for f in FRUITS]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def app(
    qtbot: QtBot, qapp: QApplication, tmp_path: Path, dirs: Path, data: Path, golden: Path
) -> Iterator[Application]:
    parent = tmp_path / "runs"
    model = str(golden / "llama")
    make_run(parent, "2026-01-01-000000-bare", data=str(data), model=model)
    judged = make_run(parent, "2026-01-02-000000-judged", data=str(data), model=model)
    log = RowLossLog(RunFolder(judged).row_losses, [Source(str(data), n) for n in (2, 3, 4)])
    log.append(0, [RowLoss(2.0, -1.0), RowLoss(1.0, 0.0), RowLoss(3.0, 0.5)])
    log.append(10, [RowLoss(1.0, 0.25), RowLoss(2.5, -2.0), RowLoss(math.nan, 1.0)])
    app = Application(qapp, AppPaths(tmp_path / "config", tmp_path / "log"))
    app.form.set_value("output", str(parent))
    app.open(warm_up=False)
    app.window.activateWindow()
    qtbot.waitUntil(app.window.isActiveWindow)
    app.window.pages.show_page("runs")
    settle(qtbot, app)
    yield app
    if shiboken6.isValid(app):
        app.window.may_close = lambda: True
        app.window.close()
        app.shut_down()
    qapp.setStyleSheet("")


def settle(qtbot: QtBot, app: Application) -> None:
    qtbot.waitUntil(lambda: app.runs.records is not None and not app.runs._line.busy)
    qtbot.waitUntil(lambda: not app.judged.reading)


def view(app: Application) -> JudgedRows:
    page = app.window.panels.others["runs"]
    assert isinstance(page, RunsPage)
    page.details.tabs.setCurrentWidget(page.details.judged)
    return page.details.judged


def choose_run(qtbot: QtBot, app: Application, name: str) -> None:
    app.runs.select([r.folder for r in app.runs.records or () if r.title.endswith(name)])
    settle(qtbot, app)


def shown(rows: JudgedRows) -> list[list[str]]:
    model = rows.table.model()
    columns = [c for c in range(model.columnCount()) if not rows.table.isColumnHidden(c)]
    return [[model.index(r, c).data() for c in columns] for r in range(model.rowCount())]


def click(qtbot: QtBot, rows: JudgedRows, place: int, *, more: bool = False) -> None:
    at = rows.table.visualRect(rows.table.model().index(place, 0)).center()
    held = Qt.KeyboardModifier.ControlModifier if more else Qt.KeyboardModifier.NoModifier
    qtbot.mouseClick(rows.table.viewport(), Qt.MouseButton.LeftButton, held, at)


def test_the_worst_row_stands_first_with_what_it_says(qtbot: QtBot, app: Application) -> None:
    choose_run(qtbot, app, "judged")
    assert shown(view(app)) == [
        ["not a number", "\N{EN DASH}", "+1.00", "4", "Is fig a fruit? → Yes."],
        ["2.50", "+1.50", "-2.00", "3", "Is plum a fruit? → Yes."],
        ["1.00", "-1.00", "+0.25", "2", "Is pear a fruit? → Yes."],
    ]
    assert view(app).note.text() == "3 validation rows"


def test_a_click_on_a_head_puts_the_best_first(qtbot: QtBot, app: Application) -> None:
    choose_run(qtbot, app, "judged")
    rows = view(app)
    head = rows.table.horizontalHeader()
    at = QPoint(head.sectionViewportPosition(0) + 10, head.height() // 2)
    qtbot.mouseClick(head.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert [line[0] for line in shown(rows)] == ["1.00", "2.50", "not a number"]


def test_a_run_without_the_file_says_so(qtbot: QtBot, app: Application) -> None:
    choose_run(qtbot, app, "bare")
    assert shown(view(app)) == []
    assert "kept no losses" in view(app).note.text()
    assert not view(app).look.isEnabled()


def test_several_runs_have_no_rows(qtbot: QtBot, app: Application) -> None:
    app.runs.select([r.folder for r in app.runs.records or ()])
    settle(qtbot, app)
    assert shown(view(app)) == []
    assert "Select one run" in view(app).note.text()


def test_rows_go_under_the_lens_and_out_of_the_next_run(
    qtbot: QtBot, app: Application, data: Path
) -> None:
    choose_run(qtbot, app, "judged")
    rows = view(app)
    app.data.set_search("something else")
    click(qtbot, rows, 1)
    click(qtbot, rows, 2, more=True)
    assert rows.look.isEnabled()
    with qtbot.waitSignal(app.data.sought):
        qtbot.mouseClick(rows.look, Qt.MouseButton.LeftButton)
    # The form named other data, so it has this run's now.
    assert app.form.values["data"] == str(data)
    assert "settings of" in app.session.notices.notice.title
    page = app.window.panels.others["data"]
    assert page.isVisible()
    assert [row.number for row in page._selected()] == [1, 2]
    assert app.data.row is not None
    assert app.data.row.number == 1
    qtbot.waitUntil(lambda: app.data.lens is not None)
    page.list.table.setFocus()
    qtbot.keyClick(page.list.table, Qt.Key.Key_Delete)
    changes = read_row_changes(app.form.values["row_changes"]).changes
    assert set(changes) == {("fruits.jsonl", 2), ("fruits.jsonl", 3)}
    assert all(change.values is None for change in changes.values())


def test_looking_again_keeps_what_was_left_out(qtbot: QtBot, app: Application, data: Path) -> None:
    choose_run(qtbot, app, "judged")
    for place in (0, 1):
        app.window.pages.show_page("runs")
        settle(qtbot, app)
        click(qtbot, view(app), place)
        with qtbot.waitSignal(app.data.sought):
            qtbot.keyClick(view(app).table, Qt.Key.Key_Return)
        page = app.window.panels.others["data"]
        page.list.table.setFocus()
        qtbot.keyClick(page.list.table, Qt.Key.Key_Delete)
    changes = read_row_changes(app.form.values["row_changes"]).changes
    assert set(changes) == {("fruits.jsonl", 3), ("fruits.jsonl", 4)}


def test_losses_are_there_without_the_data(qtbot: QtBot, app: Application, data: Path) -> None:
    choose_run(qtbot, app, "bare")
    data.unlink()
    choose_run(qtbot, app, "judged")
    assert shown(view(app))[0][3:] == ["4", ""]


def test_a_file_that_cannot_be_read_is_told(qtbot: QtBot, app: Application) -> None:
    folder = next(r.folder for r in app.runs.records or () if r.title.endswith("bare"))
    RunFolder(folder).row_losses.write_bytes(b"\xff\xfe")
    choose_run(qtbot, app, "bare")
    assert "cannot read" in view(app).note.text()


def test_new_losses_are_read_as_the_run_goes_on(qtbot: QtBot, app: Application, data: Path) -> None:
    choose_run(qtbot, app, "judged")
    record = app.judged.record
    assert record is not None
    path = RunFolder(record.folder).row_losses
    RowLossLog(path, [Source(str(data), n) for n in (2, 3, 4)]).append(
        20, [RowLoss(0.5, 1.0), RowLoss(0.25, 1.0), RowLoss(0.125, 1.0)]
    )
    events = RunFolder(record.folder).events
    events.write_bytes(events.read_bytes() + b"\n")
    assert read_record(record.folder) is not None
    app.runs.look()
    qtbot.waitUntil(lambda: [line[0] for line in shown(view(app))] == ["0.500", "0.250", "0.125"])


def test_with_several_files_a_row_is_called_by_its_file_too() -> None:
    table = JudgedTable()
    table.show([RowHistory(Source("/data/a.jsonl", 7)), RowHistory(Source("/data/b.jsonl", 1))], {})
    assert [table.data(table.index(n, PLACE)) for n in (0, 1)] == ["a.jsonl:7", "b.jsonl:1"]
