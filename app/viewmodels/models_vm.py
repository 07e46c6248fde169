"""The models on this machine: the list, and the one that the form has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from app.reading.background import Background
from app.reading.models import ModelInfo, find_models
from app.settings import Settings
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.download_vm import DownloadViewModel
from app.viewmodels.wording import gigabytes

_TITLES = ("Model", "Family", "Parameters", "Precision", "On disk", "Where")
Index = QModelIndex | QPersistentModelIndex


class ModelTable(QAbstractTableModel):
    """Models that a search lets through."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._shown: list[ModelInfo] = []

    def show(self, models: list[ModelInfo]) -> None:
        """Show these models."""
        if models != self._shown:
            self.beginResetModel()
            self._shown = models
            self.endResetModel()

    def model_at(self, place: int) -> ModelInfo | None:
        """The model in a line of the table."""
        return self._shown[place] if 0 <= place < len(self._shown) else None

    def place_of(self, name: str) -> int | None:
        """The line of the model that the option `model` names so, if it is shown."""
        return next((i for i, model in enumerate(self._shown) if model.name == name), None)

    def rowCount(self, parent: Index | None = None) -> int:
        """Called by Qt."""
        return 0 if parent is not None and parent.isValid() else len(self._shown)

    def columnCount(self, parent: Index | None = None) -> int:
        """Called by Qt."""
        return 0 if parent is not None and parent.isValid() else len(_TITLES)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Called by Qt."""
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _TITLES[section]
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Called by Qt."""
        model = self.model_at(index.row())
        if model is None:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            parts = (
                model.title,
                model.family,
                parameters_text(model.parameters),
                model.precision,
                gigabytes(model.size) if model.size else "",
                model.where,
            )
            return parts[index.column()]
        if role == Qt.ItemDataRole.ToolTipRole:
            return model.problem or str(model.folder)
        if role == Qt.ItemDataRole.UserRole:
            return model.problem
        return None


class ModelsViewModel(QObject):
    """All models and the one that is selected.

    Attributes:
        table: models on show.
        models: all of them; None until they were looked for once.
        selected: the model whose facts are on show.
        download: one that is on its way.

    Signals:
        changed: list, selection, or the form's model.
    """

    changed = Signal()

    def __init__(
        self, form: ConfigViewModel, settings: Settings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._form = form
        self._settings = settings
        self.table = ModelTable(self)
        self.models: list[ModelInfo] | None = None
        self.selected: ModelInfo | None = None
        self.search = ""
        self.download = DownloadViewModel(self)
        self.download.arrived.connect(self._on_arrived)
        self._arrived = ""
        self._line = Background("models", self)
        form.value_changed.connect(self._on_value_changed)

    @property
    def chosen(self) -> str:
        """The form's model."""
        return str(self._form.values["model"])

    def look(self) -> None:
        """Look for models again."""
        if not self._line.busy:
            added = [Path(name).expanduser() for name in self._settings.model_folders]
            self._line.run(lambda task: find_models(task, added), self._on_found)

    def close(self) -> None:
        """Give everything up and wait for the thread."""
        self.download.close()
        self._line.close()

    def set_search(self, words: str) -> None:
        """Show the models that mention these words."""
        self.search = words
        self._show()

    def select(self, model: ModelInfo | None) -> None:
        """Show the facts of a model."""
        if model != self.selected:
            self.selected = model
            self.changed.emit()

    def use(self, model: ModelInfo) -> None:
        """Put a model into the form."""
        self._form.set_value("model", model.name)

    def add(self, folder: Path) -> None:
        """Look in a folder too, from now on."""
        name = str(folder)
        if name not in self._settings.model_folders:
            self._settings.model_folders.append(name)
        self.look()

    def _on_found(self, models: list[ModelInfo]) -> None:
        self.models = models
        came = next((m for m in models if m.name == self._arrived), None)
        if came is not None:
            self._arrived, self.selected = "", came
        if self.selected is None:
            self.selected = next((m for m in models if m.name == self.chosen), None)
        self._show()

    def _on_arrived(self, name: str) -> None:
        self._arrived = name
        if self._line.busy:  # what looks now may have passed its folder already
            self._line.run(lambda _: None, lambda _: self.look())
        else:
            self.look()

    def _show(self) -> None:
        self.table.show([m for m in self.models or () if m.mentions(self.search)])
        self.changed.emit()

    def _on_value_changed(self, key: str) -> None:
        if key == "model":
            self.changed.emit()


def parameters_text(n: int) -> str:
    """`135 M`, `7.2 B`; nothing for none."""
    if not n:
        return ""
    return (
        f"{n / 1e9:.1f} B" if n >= 1e9 else f"{n / 1e6:.0f} M" if n >= 1e6 else f"{n / 1e3:.0f} k"
    )
