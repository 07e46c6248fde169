"""The control for options that name a file or a folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtWidgets import QFileDialog, QMenu, QPushButton, QWidget
from typing_extensions import override

from app.viewmodels.path_fields import SAMPLE, PathField
from app.views.field_edits import PathEdit
from app.views.field_widgets import TextControl


class PathControl(TextControl):
    """A path that can be typed, dropped, browsed for, or picked from what is known."""

    def __init__(
        self,
        name: str,
        field: PathField,
        suggestions: Callable[[], list[str]],
        parent: QWidget | None = None,
    ) -> None:
        self._path = PathEdit()
        super().__init__(name, self._path, parent)
        self._name, self._field, self._suggestions = name, field, suggestions
        self._path.dropped.connect(self._pick)
        self.button = QPushButton("Browse")
        self.button.setAutoDefault(False)
        self.button.setMaximumHeight(self.edit.sizeHint().height())
        self.button.setAccessibleName(f"Browse for {name.lower()}")
        self.button.clicked.connect(self._browse)
        self.row.addWidget(self.button)

    @override
    def set_surroundings(self, placeholder: str, unit: str) -> None:
        self.edit.setPlaceholderText(placeholder)

    def menu(self) -> QMenu:
        """Everything that can be picked: dialogs, the sample, known paths."""
        menu = QMenu(self)
        if self._field.file:
            menu.addAction("Choose file\N{HORIZONTAL ELLIPSIS}", self._choose_file)
        if self._field.folder:
            menu.addAction("Choose folder\N{HORIZONTAL ELLIPSIS}", self._choose_folder)
        if self._field.sample:
            menu.addAction("Use the sample", lambda: self._pick(SAMPLE))
        known = [path for path in self._suggestions() if path != SAMPLE]
        if known:
            menu.addSeparator()
        for path in known[:20]:
            menu.addAction(path, lambda path=path: self._pick(path))
        return menu

    @override
    def _show(self, value: Any, text: str) -> None:
        super()._show(value, text)
        self.edit.setToolTip("" if text == SAMPLE else text)

    def _browse(self) -> None:
        menu = self.menu()
        if len(menu.actions()) == 1:
            menu.actions()[0].trigger()
        else:
            menu.exec(self.button.mapToGlobal(self.button.rect().bottomLeft()))
        menu.deleteLater()

    def _choose_file(self) -> None:
        start, patterns = self.edit.text(), self._field.patterns
        path, _chosen = QFileDialog.getOpenFileName(self, self._name, start, patterns)
        self._pick(path)

    def _choose_folder(self) -> None:
        self._pick(QFileDialog.getExistingDirectory(self, self._name, self.edit.text()))

    def _pick(self, path: str) -> None:
        if path:
            self.edited.emit(path)
