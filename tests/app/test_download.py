"""Downloading on the page Models, from a stand-in for Hugging Face."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.settings import Settings
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.models_vm import ModelsViewModel
from app.views.models_page import ModelsPage
from tests.hub_server import Hub, hub_server

pytestmark = pytest.mark.gui

WAIT_MS = 60_000
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


@pytest.fixture
def served(
    golden: Path, tmp_path: Path, dirs: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hub]:
    folder = tmp_path / "served"
    folder.mkdir()
    for name in FILES:
        shutil.copy(golden / "llama" / name, folder)
    for name in ("HF_HOME", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    with hub_server(folder) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield hub


@pytest.fixture
def page(qtbot: QtBot, qapp: QApplication, served: Hub) -> Iterator[ModelsPage]:
    form = ConfigViewModel()
    vm = ModelsViewModel(form, Settings())
    form.setParent(vm)
    made = ModelsPage(vm)
    qtbot.addWidget(made)
    made.show()
    qtbot.waitUntil(lambda: vm.models is not None)
    yield made
    vm.close()


def start(qtbot: QtBot, page: ModelsPage, text: str) -> None:
    page.download.name.setText(text)
    qtbot.mouseClick(page.download.button, Qt.MouseButton.LeftButton)


def test_a_model_comes_and_can_be_used(qtbot: QtBot, page: ModelsPage) -> None:
    vm = page._vm
    assert not page.download.button.isEnabled()
    start(qtbot, page, "https://huggingface.co/org/small")
    assert page.download.button.text() == "Stop"
    assert page.download.name.isReadOnly()
    qtbot.waitUntil(
        lambda: vm.selected is not None and vm.selected.name == "org/small", timeout=WAIT_MS
    )
    assert page.download.words.text() == "org/small is here"
    assert page.title.text() == "org/small"
    assert not page.download.progress.isVisible()
    qtbot.mouseClick(page.buttons["use"], Qt.MouseButton.LeftButton)
    assert vm.chosen == "org/small"


def test_a_download_is_stopped_and_goes_on(qtbot: QtBot, page: ModelsPage, served: Hub) -> None:
    vm = page._vm
    served.held = "model.safetensors"
    start(qtbot, page, "org/small")
    qtbot.waitUntil(served.holding.is_set, timeout=WAIT_MS)
    qtbot.mouseClick(page.download.button, Qt.MouseButton.LeftButton)
    assert not page.download.button.isEnabled()
    assert page.download.words.text() == "Stopping"
    served.gate.set()
    qtbot.waitUntil(lambda: not vm.download.busy, timeout=WAIT_MS)
    assert "kept" in page.download.words.text()
    assert "org/small" not in {m.name for m in vm.models or ()}
    served.held = ""
    served.fetched.clear()
    with qtbot.waitSignal(vm.download.arrived, timeout=WAIT_MS):
        page.download.name.setFocus()
        qtbot.keyClick(page.download.name, Qt.Key.Key_Return)
    assert "config.json" not in served.fetched


def test_a_stalled_download_is_killed(qtbot: QtBot, page: ModelsPage, served: Hub) -> None:
    vm = page._vm
    vm.download._kill.setInterval(200)
    served.held = "model.safetensors"
    start(qtbot, page, "org/small")
    qtbot.waitUntil(served.holding.is_set, timeout=WAIT_MS)
    vm.download.stop()
    qtbot.waitUntil(lambda: not vm.download.busy, timeout=WAIT_MS)
    assert vm.download.error == ""
    assert page.download.button.isEnabled()


def test_what_goes_wrong_is_said(qtbot: QtBot, page: ModelsPage) -> None:
    start(qtbot, page, "not an id")
    assert "is not the id of a model" in page.download.words.text()
    start(qtbot, page, "org/none")
    qtbot.waitUntil(lambda: not page._vm.download.busy, timeout=WAIT_MS)
    assert "no such model" in page.download.words.text()
    assert page.download.words.property("role") == "error"


def test_closing_ends_the_process(qtbot: QtBot, page: ModelsPage, served: Hub) -> None:
    vm = page._vm
    served.held = "model.safetensors"
    start(qtbot, page, "org/small")
    qtbot.waitUntil(served.holding.is_set, timeout=WAIT_MS)
    served.gate.set()
    process = vm.download._process
    assert process is not None
    vm.download.close()
    assert process.state() is process.ProcessState.NotRunning
    assert not vm.download.busy
