"""The data page as a user drives it: files, filters, search, columns, edits, and the lens."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.data_rows import RowFilter
from app.viewmodels.data_vm import DataViewModel
from app.viewmodels.row_edits import RowEdits
from app.viewmodels.row_table import PROMPT, STATE, TOKENS
from app.views.columns_dialog import ColumnsDialog
from app.views.data_page import DataPage
from app.views.row_editor import RowEditor
from app.views.theme import Theme
from trainer_core.data.lens import Fate
from trainer_core.data.row_changes import read_row_changes

pytestmark = pytest.mark.gui

ROWS = [
    {"prompt": "What is the capital of France?", "completion": "Paris."},
    {"prompt": "What is the capital of Spain?", "completion": "Madrid."},
    {"prompt": "What is the capital of France?", "completion": "Paris."},
    {"prompt": "What is the capital of Spain?", "completion": "Barcelona, I think."},
    {"prompt": "How long is it?", "completion": "very long, " * 60},
]

Open = Callable[..., DataPage]


@pytest.fixture
def show(
    qtbot: QtBot, qapp: QApplication, golden: Path, tmp_path: Path
) -> Iterator[Callable[..., DataPage]]:
    made: list[DataViewModel] = []

    def build(data: Path, **options: object) -> DataPage:
        form = ConfigViewModel()
        values = {"model": str(golden / "llama"), "data": str(data), "valid_fraction": 0.0}
        for key, value in {**values, **options}.items():
            form.set_value(key, value)
        vm = DataViewModel(form, RowEdits(tmp_path / "changes"))
        form.setParent(vm)
        made.append(vm)
        page = DataPage(vm, Theme(qapp, "light"))
        qtbot.addWidget(page)
        page.resize(1000, 800)
        page.show()
        settle(qtbot, page)
        return page

    yield build
    for vm in made:
        vm.close()
    qapp.setStyleSheet("")


def view_model(page: DataPage) -> DataViewModel:
    return page._vm


def settle(qtbot: QtBot, page: DataPage) -> None:
    vm = view_model(page)

    def is_still() -> bool:
        waiting = vm._settle.isActive() or vm._refresh.isActive()
        return not (
            waiting or vm.reading or vm.measuring or any(line.busy for line in vm._lines.values())
        )

    qtbot.waitUntil(is_still, timeout=20_000)


def written(tmp_path: Path, rows: list[dict[str, object]] = ROWS) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def shown(page: DataPage, column: int) -> list[str]:
    table = view_model(page).table
    return [table.data(table.index(i, column)) for i in range(table.rowCount())]


def click_row(qtbot: QtBot, page: DataPage, place: int) -> None:
    table = page.list.table
    at = table.visualRect(view_model(page).table.index(place, PROMPT)).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    settle(qtbot, page)


def test_rows_are_read_counted_and_measured(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    page = show(written(tmp_path), max_seq_length=200)
    summary = view_model(page).summary
    assert (summary.rows, summary.trained, summary.measured) == (5, 5, 5)
    assert shown(page, STATE) == ["trained", "trained", "duplicate", "contradictory", "cut"]
    assert all(text for text in shown(page, TOKENS))
    assert summary.longest > 200
    texts = [b.text() for b in page.header.findings if not b.isHidden()]
    assert texts == [
        "1 row cut at 200 tokens",
        "1 row contradicts an earlier one",
        "1 row repeats an earlier one",
    ]


def test_a_finding_shows_its_rows(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    page = show(written(tmp_path), max_seq_length=200)
    finding = next(b for b in page.header.findings if "cut at" in b.text())
    qtbot.mouseClick(finding, Qt.MouseButton.LeftButton)
    settle(qtbot, page)
    assert shown(page, PROMPT) == ["How long is it?"]
    assert page.list.filter.currentText() == "Cut (1)"


def test_search_finds_words_in_any_part(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    page = show(written(tmp_path))
    qtbot.keyClicks(page.list.search, "spain BARCEL")
    qtbot.waitUntil(lambda: view_model(page).search == "spain BARCEL")
    settle(qtbot, page)
    assert [row.number for row in [view_model(page).table.row_at(0)] if row] == [3]
    assert view_model(page).table.rowCount() == 1
    page.list.search.clear()
    qtbot.waitUntil(lambda: view_model(page).table.rowCount() == 5)


def test_a_row_under_the_lens_has_its_fates(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    page = show(written(tmp_path))
    click_row(qtbot, page, 1)
    lens = view_model(page).lens
    assert lens is not None
    said = "".join(t.text for t in lens.prompt if t.fate is Fate.TRAINED and not t.special)
    assert said == "Madrid."
    text = page.lens.prompt.toPlainText()
    assert "What is the capital of Spain?" in text
    where = text.index("Madrid") + 1
    token = page.lens.prompt.token_at(where)
    assert token is not None
    assert token.fate is Fate.TRAINED
    assert "rows.jsonl:2" in page.lens.title.text()


def test_a_pair_has_its_prompt_once_and_two_answers(qtbot: QtBot, golden: Path, show: Open) -> None:
    page = show(golden / "llama" / "preference.jsonl", method="dpo")
    click_row(qtbot, page, 0)
    first = json.loads((golden / "llama" / "preference.jsonl").read_text().split("\n")[0])
    assert first["chosen"] in page.lens.chosen.toPlainText()
    assert first["rejected"] in page.lens.rejected.toPlainText()
    assert first["chosen"] not in page.lens.prompt.toPlainText()
    assert page.lens._answers.isVisible()


def test_a_row_is_left_out_and_taken_in_again(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    data = written(tmp_path)
    before = data.read_bytes()
    page = show(data)
    vm = view_model(page)
    click_row(qtbot, page, 1)
    qtbot.mouseClick(page.lens.leave_out, Qt.MouseButton.LeftButton)
    settle(qtbot, page)
    file = vm._form.values["row_changes"]
    assert [c.line for c in read_row_changes(file).changes.values()] == [2]
    assert vm.summary.trained == 4
    assert vm.row is not None
    assert vm.row.number == 1
    assert vm.row.scanned.left_out
    qtbot.mouseClick(page.lens.leave_out, Qt.MouseButton.LeftButton)
    settle(qtbot, page)
    assert vm._form.values["row_changes"] is None
    assert vm.summary.trained == 5
    assert data.read_bytes() == before


def test_delete_leaves_out_all_selected_rows_and_undo_brings_them_back(
    qtbot: QtBot, tmp_path: Path, show: Open
) -> None:
    page = show(written(tmp_path))
    page.list.table.selectAll()
    page.list.table.setFocus()
    qtbot.keyClick(page.list.table, Qt.Key.Key_Delete)
    settle(qtbot, page)
    assert shown(page, STATE) == ["left out"] * 5
    view_model(page)._form.undo()
    settle(qtbot, page)
    assert "left out" not in shown(page, STATE)


def test_a_row_gets_other_text(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    data = written(tmp_path)
    before = data.read_bytes()
    page = show(data)
    click_row(qtbot, page, 0)
    qtbot.mouseClick(page.lens.edit, Qt.MouseButton.LeftButton)
    editor = page.findChild(RowEditor)
    assert editor is not None
    editor.fields["completion"].setPlainText("Lutetia.")
    qtbot.mouseClick(editor.buttons.buttons()[0], Qt.MouseButton.LeftButton)
    settle(qtbot, page)
    row = view_model(page).row
    assert row is not None
    assert row.answer == "Lutetia."
    assert row.prompt == ROWS[0]["prompt"]
    assert row.state == "changed"
    assert data.read_bytes() == before
    qtbot.mouseClick(page.lens.restore, Qt.MouseButton.LeftButton)
    settle(qtbot, page)
    assert view_model(page)._form.values["row_changes"] is None


def test_what_is_not_text_is_edited_as_json(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    page = show(written(tmp_path, [{"messages": messages}]))
    click_row(qtbot, page, 0)
    page.edit_row()
    editor = page.findChild(RowEditor)
    assert editor is not None
    field = editor.fields["messages"]
    text = field.toPlainText()
    field.setPlainText("[{")
    save = editor.buttons.buttons()[0]
    qtbot.mouseClick(save, Qt.MouseButton.LeftButton)
    assert editor.isVisible()
    assert editor.error.text().startswith("messages is not valid JSON: ")
    field.setPlainText(text.replace("Hello", "Good day"))
    qtbot.mouseClick(save, Qt.MouseButton.LeftButton)
    settle(qtbot, page)
    row = view_model(page).row
    assert row is not None
    assert row.answer == "Good day"


def test_unknown_columns_are_proposed_and_taken(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    rows: list[dict[str, object]] = [{"query": "Why?", "good": "So.", "bad": "No."}]
    page = show(written(tmp_path, rows), method="orpo")
    assert shown(page, STATE) == ["unusable"]
    page.header.proposal.click()
    settle(qtbot, page)
    assert view_model(page)._form.values["columns"] == {
        "prompt": "query",
        "chosen": "good",
        "rejected": "bad",
    }
    assert shown(page, STATE) == ["trained"]


def test_columns_are_chosen_by_hand(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    page = show(written(tmp_path, [{"alpha": "Why?", "beta": "So."}]))
    assert view_model(page).proposal is None
    assert shown(page, STATE) == ["unusable"]
    page.header.buttons["columns"].click()
    dialog = page.findChild(ColumnsDialog)
    assert dialog is not None
    dialog.boxes["prompt"].setCurrentText("alpha")
    dialog.boxes["completion"].setCurrentText("beta")
    ok = next(b for b in dialog.findChildren(QPushButton) if "OK" in b.text().replace("&", ""))
    qtbot.mouseClick(ok, Qt.MouseButton.LeftButton)
    settle(qtbot, page)
    assert shown(page, STATE) == ["trained"]


def test_a_dropped_file_is_opened(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    page = show(written(tmp_path))
    other = tmp_path / "other.json.gz"
    other.write_bytes(gzip.compress(json.dumps([{"text": "one"}, {"text": "two"}]).encode()))
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(other))])
    action, left = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    no = Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPointF(9, 9).toPoint(), action, mime, left, no)
    page.dragEnterEvent(enter)
    assert enter.isAccepted()
    page.dropEvent(QDropEvent(QPointF(9, 9), action, mime, left, no))
    settle(qtbot, page)
    assert view_model(page)._form.values["data"] == str(other)
    assert view_model(page).summary.rows == 2


def test_what_cannot_be_read_is_said_in_the_middle_of_the_page(
    qtbot: QtBot, tmp_path: Path, show: Open
) -> None:
    page = show(tmp_path / "none.jsonl")
    error = view_model(page).error
    assert error is not None
    assert "there is no such file or folder" in error.what
    assert page._stack.currentIndex() == 1
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    view_model(page).open(empty)
    settle(qtbot, page)
    assert "is empty" in str(view_model(page).error)


def test_bad_rows_are_listed_with_what_to_do(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    data = written(tmp_path)
    data.write_text(data.read_text() + '{"prompt": "no answer"}\n{broken\n')
    page = show(data)
    assert view_model(page).summary.filters[RowFilter.PROBLEM] == 2
    page.list.choose_filter(RowFilter.PROBLEM)
    settle(qtbot, page)
    assert view_model(page).table.rowCount() == 2
    click_row(qtbot, page, 1)
    assert page.lens.note.text().startswith("Not valid JSON")
    assert page.lens.edit.isHidden()


def test_without_a_tokenizer_rows_are_still_shown(
    qtbot: QtBot, tmp_path: Path, golden: Path, show: Open
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).write_bytes((golden / "llama" / name).read_bytes())
    page = show(written(tmp_path), model=str(model))
    assert view_model(page).summary.rows == 5
    assert "tokenizer" in str(view_model(page).measure_error)
    click_row(qtbot, page, 0)
    assert "Paris." in page.lens.prompt.toPlainText()
    assert "tokenizer" in page.lens.note.text()


def test_a_hidden_page_leaves_the_form_alone(qtbot: QtBot, tmp_path: Path, show: Open) -> None:
    page = show(written(tmp_path))
    page.hide()
    view_model(page)._form.set_value("max_seq_length", 16)
    assert not view_model(page)._settle.isActive()
    page.show()
    settle(qtbot, page)
    assert view_model(page).limit == 16


def test_a_search_given_up_leaves_no_trace(qtbot: QtBot, show: Open, tmp_path: Path) -> None:
    page = show(written(tmp_path))
    vm = view_model(page)
    vm.set_search("Spain")
    vm.set_search("")  # before the first search found anything
    settle(qtbot, page)
    assert vm.table.rowCount() == len(ROWS)
