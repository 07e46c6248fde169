"""Configuration files: the sample, open, save, the recent ones, and the form as it was left."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.settings import Settings
from app.viewmodels.config_vm import ConfigViewModel
from trainer_core.config_io import dump_yaml, load_config
from trainer_core.errors import ConfigError
from trainer_core.events import Warned
from trainer_core.runfolder import write_atomically

SAMPLE_NAME = "sample"


class DocumentsViewModel(QObject):
    """Which file the form came from.

    Attributes:
        name: for the title and the empty state.

    Signals:
        changed: another file, or another list of recent ones.
    """

    changed = Signal()

    def __init__(
        self, form: ConfigViewModel, settings: Settings, sample: Path, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._form = form
        self._settings = settings
        self._sample = sample
        self.name = SAMPLE_NAME

    @property
    def recent(self) -> list[Path]:
        """Configuration files that are still there, newest first."""
        return [path for text in self._settings.recent if (path := Path(text)).is_file()]

    def restore(self) -> None:
        """Show the form as it was left; the sample at the first start.

        Raises:
            ConfigError: the sample project cannot be read.
        """
        last_file, left = self._settings.last_file, self._settings.last_values
        self.open_sample()
        if left:
            self._form.restore(left)
        if left and last_file:
            self._settings.last_file = last_file
            self._name(Path(last_file).stem)

    def keep(self) -> None:
        """Note the form as it is, for the next start."""
        self._settings.last_values = self._form.values

    def open_sample(self) -> None:
        """Fill the form with the sample project.

        Raises:
            ConfigError: it cannot be read.
        """
        self._form.load(load_config(self._sample))
        self._settings.last_file = ""
        self._name(SAMPLE_NAME)

    def open(self, path: Path) -> list[Warned]:
        """Fill the form from a file, ours or another trainer's.

        Returns:
            What is not as it was in the other trainer, which `save` then does not overwrite by
            itself.

        Raises:
            ConfigError: the file cannot be read or says something that cannot be.
        """
        warnings: list[Warned] = []
        self._form.load(load_config(path, warnings=warnings))
        self._settings.remember(path)
        self._name(f"{path.stem}-burnish" if warnings else path.stem)
        return warnings

    def save(self, path: Path) -> None:
        """Write the form to a file.

        Raises:
            ConfigError: the form has problems, or the file cannot be written.
        """
        config = self._form.config()
        if config is None:
            raise ConfigError(
                "The configuration cannot be saved", self._form.status, "Mend it first"
            )
        try:
            write_atomically(path, dump_yaml(config))
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                f"{path.name} cannot be written", reason, "Choose another folder"
            ) from error
        self._settings.remember(path)
        self._name(path.stem)

    def _name(self, name: str) -> None:
        self.name = name
        self.changed.emit()
