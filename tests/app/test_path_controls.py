"""Files and folders in the form: dropped, browsed for, and shown though they are long."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QFileDialog

from app.views.field_paths import PathControl
from tests.app.config_examples import make_files
from tests.app.form_parts import control_of

pytestmark = pytest.mark.gui


def test_a_file_can_be_dropped_on_a_path(panel, vm, tmp_path: Path) -> None:
    rows = make_files(tmp_path)["data"]
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(rows)])
    drop = QDropEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    line = control_of(panel, "data").edit
    enter = QDragEnterEvent(
        QPoint(5, 5), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    QApplication.sendEvent(line, enter)
    assert enter.isAccepted()
    QApplication.sendEvent(line, drop)
    assert vm.config().data == rows


def test_browse_offers_dialogs_the_sample_and_what_is_known(
    panel, vm, tmp_path, monkeypatch
) -> None:
    rows = make_files(tmp_path)["data"]
    vm.set_recent("data", ["/data/earlier.jsonl", "sample"])
    vm.set_value("data", "")
    control = control_of(panel, "data")
    assert isinstance(control, PathControl)
    actions = {action.text(): action for action in control.menu().actions()}
    assert list(actions) == [
        "Choose file…",
        "Choose folder…",
        "Use the sample",
        "",
        "/data/earlier.jsonl",
    ]
    actions["Use the sample"].trigger()
    assert vm.config().data == "sample"
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (rows, ""))
    actions["Choose file…"].trigger()
    assert vm.config().data == rows
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("", ""))
    actions["Choose file…"].trigger()
    assert vm.config().data == rows


def test_a_single_way_to_browse_opens_at_once(qtbot, panel, vm, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path))
    qtbot.mouseClick(control_of(panel, "output").button, Qt.MouseButton.LeftButton)
    assert vm.config().output == str(tmp_path)


def test_a_long_path_is_shortened_in_its_middle(panel, vm, tmp_path: Path) -> None:
    folder = tmp_path / ("long-" * 20) / "SmolLM2-135M-Instruct"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    line = control_of(panel, "model").edit
    panel.search.setFocus()
    vm.set_value("model", str(folder))
    assert line.text() == str(folder)
    assert "…" in line.shown_text()
    assert line.shown_text().endswith("Instruct")
    assert line.toolTip() == str(folder)
    line.setFocus()
    assert line.shown_text() == str(folder)
