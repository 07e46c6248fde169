"""The few questions the window asks. None blocks: each answers through a callback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QInputDialog, QMessageBox, QWidget

from app.reading.runs import RunRecord

CONFIG_FILES = "Configurations (*.yaml *.yml *.json)"


def ask_to_stop(parent: QWidget, when_yes: Callable[[], None]) -> QMessageBox:
    """Ask whether to stop the run and close."""
    box = QMessageBox(parent)
    box.setWindowTitle("Burnish")
    box.setText("A run is going on. Stop it and close?")
    box.setInformativeText(
        "The step in hand is finished and the adapter is saved; then the window closes by itself."
    )
    stop = box.addButton("Stop and close", QMessageBox.ButtonRole.AcceptRole)
    keep = box.addButton("Keep training", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(keep)
    box.setEscapeButton(keep)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.buttonClicked.connect(lambda button: when_yes() if button is stop else None)
    box.open()
    return box


def ask_for_steps(
    parent: QWidget, record: RunRecord, when_chosen: Callable[[RunRecord, int], None]
) -> QInputDialog:
    """Ask how many steps a run that is done is to have in all."""
    dialog = QInputDialog(parent)
    dialog.setWindowTitle(f"Continue {record.title}")
    dialog.setLabelText(f"It took its {record.steps:,} steps. How many is it to have in all?")
    dialog.setInputMode(QInputDialog.InputMode.IntInput)
    dialog.setIntRange(record.steps + 1, 10_000_000)
    dialog.setIntValue(2 * record.steps)
    dialog.setOkButtonText("Continue")
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.intValueSelected.connect(lambda steps: when_chosen(record, steps))
    dialog.open()
    return dialog


def ask_for_config(parent: QWidget, folder: Path, when_chosen: Callable[[Path], None]) -> None:
    """Ask which configuration to open."""
    dialog = QFileDialog(parent, "Open config", str(folder), CONFIG_FILES)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    _open(dialog, when_chosen)


def ask_where_to_save(
    parent: QWidget, suggestion: Path, when_chosen: Callable[[Path], None]
) -> None:
    """Ask for the file to write the configuration to."""
    dialog = QFileDialog(parent, "Save config as", str(suggestion.parent), CONFIG_FILES)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix("yaml")
    dialog.selectFile(suggestion.name)
    _open(dialog, when_chosen)


def ask_where_to_export(
    parent: QWidget, suggestion: Path, when_chosen: Callable[[Path], None]
) -> None:
    """Ask for the folder that becomes the exported adapter."""
    dialog = QFileDialog(parent, "Export adapter to a new folder", str(suggestion.parent))
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setOption(QFileDialog.Option.ShowDirsOnly, True)
    dialog.setOption(QFileDialog.Option.DontConfirmOverwrite, True)
    dialog.setLabelText(QFileDialog.DialogLabel.Accept, "Export")
    dialog.setLabelText(QFileDialog.DialogLabel.FileName, "Folder:")
    dialog.selectFile(suggestion.name)
    _open(dialog, when_chosen)


def show_about(parent: QWidget, lines: list[str]) -> None:
    """Name, version, and what it stands on."""
    box = QMessageBox(parent)
    box.setWindowTitle("About Burnish")
    box.setText("<b>Burnish</b>")
    box.setInformativeText("\n".join(lines))
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.open()


def _open(dialog: QFileDialog, when_chosen: Callable[[Path], None]) -> None:
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.fileSelected.connect(lambda name: when_chosen(Path(name)))
    dialog.open()
