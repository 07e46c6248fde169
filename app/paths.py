"""Where the app keeps its own files, and where it finds what it ships with."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import platformdirs

APP = "burnish"


def resources_folder() -> Path:
    """The `resources` folder, in a checkout as in a bundle."""
    bundle = getattr(sys, "_MEIPASS", None)
    root = Path(bundle) if bundle else Path(__file__).resolve().parent.parent
    return root / "resources"


@dataclass(frozen=True, slots=True)
class AppPaths:
    """Folders of one user. Tests and measuring scripts give their own."""

    config: Path
    log: Path

    @classmethod
    def of_user(cls) -> AppPaths:
        """The platform's usual folders."""
        return cls(Path(platformdirs.user_config_dir(APP)), Path(platformdirs.user_log_dir(APP)))

    @property
    def settings_file(self) -> Path:
        """Window, theme, last configuration, recent files."""
        return self.config / "settings.json"

    @property
    def row_changes(self) -> Path:
        """Files of rows that were left out or given other values."""
        return self.config / "row-changes"

    @property
    def log_file(self) -> Path:
        """Everything that is too long for the window, tracebacks above all."""
        return self.log / "burnish.log"
