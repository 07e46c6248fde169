"""A line to type a model's id into, and how far its download is."""

from __future__ import annotations

from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.viewmodels.download_vm import DownloadViewModel
from app.views.theme import set_role

_THOUSANDTHS = 1000


class DownloadBar(QWidget):
    """Id, button, progress and what there is to say."""

    def __init__(self, vm: DownloadViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self.name = QLineEdit()
        self.name.setPlaceholderText("Download from Hugging Face: org/name")
        self.name.setAccessibleName("Model to download from Hugging Face")
        self.name.setClearButtonEnabled(True)
        self.button = QPushButton("Download")
        self.button.setAutoDefault(False)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the download")
        self.words = QLabel()
        self.words.setWordWrap(True)
        row = QHBoxLayout()
        row.addWidget(self.name, 1)
        row.addWidget(self.button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(row)
        layout.addWidget(self.progress)
        layout.addWidget(self.words)
        vm.changed.connect(self.refresh)
        self.name.textChanged.connect(self.refresh)
        self.name.returnPressed.connect(self._on_return)
        self.button.clicked.connect(self._on_clicked)
        self.refresh()

    def refresh(self) -> None:
        """Show the view-model as it is now."""
        vm = self._vm
        self.name.setReadOnly(vm.busy)
        self.button.setText("Stop" if vm.busy else "Download")
        self.button.setEnabled(not vm.stopping and (vm.busy or bool(self.name.text().strip())))
        self.progress.setVisible(vm.busy)
        known = vm.progress is not None
        self.progress.setRange(0, _THOUSANDTHS if known else 0)
        self.progress.setValue(int((vm.progress or 0) * _THOUSANDTHS))
        set_role(self.words, "error" if vm.error else "muted")
        text = vm.error or ("Stopping" if vm.stopping else vm.message)
        self.words.setText(text[:1].upper() + text[1:] if not text.startswith(vm.name) else text)
        self.words.setVisible(bool(text))

    def _on_return(self) -> None:
        if not self._vm.busy:
            self._vm.start(self.name.text())

    def _on_clicked(self) -> None:
        if self._vm.busy:
            self._vm.stop()
        else:
            self._vm.start(self.name.text())
