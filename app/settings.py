"""What the app remembers between two starts, in one JSON file that a person can read.

A file that cannot be read never stops the start: it is put aside and the defaults are used.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from trainer_core.runfolder import write_atomically

log = logging.getLogger(__name__)

VERSION = 1
MOST_RECENT = 8
MOST_INTERRUPTIONS = 20


@dataclass(slots=True)
class Settings:
    """All of it.

    Attributes:
        geometry, splitters: Qt's own words for window and splitters, base64.
        last_values: the form as it was left, key -> value; empty before the first close.
        recent: configuration files, newest first.
        run_folders: folders, besides the usual one, that runs went to.
        model_folders: folders in which to look for models too.
        queue: settings of the runs that still waited.
        interruptions: those that the user was told of.
        running: the run that is going on inside the app's own process; where it is still told of
            at the next start, the app ended with it.
        tour_seen: the tour was shown at a start.
    """

    version: int = VERSION
    theme: str = "system"
    geometry: str = ""
    splitters: dict[str, str] = field(default_factory=dict)
    log_open: bool = True
    smoothing: float = 0.6
    last_values: dict[str, Any] = field(default_factory=dict)
    last_file: str = ""
    last_export_folder: str = ""
    recent: list[str] = field(default_factory=list)
    run_folders: list[str] = field(default_factory=list)
    model_folders: list[str] = field(default_factory=list)
    queue: list[dict[str, Any]] = field(default_factory=list)
    interruptions: list[str] = field(default_factory=list)
    running: str = ""
    tour_seen: bool = False

    def remember(self, path: Path) -> None:
        """Put a configuration file at the head of the recent ones."""
        name = str(path)
        self.last_file = name
        self.recent = [name, *(other for other in self.recent if other != name)][:MOST_RECENT]

    def offer_once(self, interruption: str) -> bool:
        """Whether an interruption was not told of yet; from now on it was."""
        if interruption in self.interruptions:
            return False
        self.interruptions = [*self.interruptions, interruption][-MOST_INTERRUPTIONS:]
        return True


class SettingsStore:
    """Reads and writes the settings file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Settings:
        """The stored settings, or defaults. A broken file is kept as `settings.json.broken`."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return Settings()
        except OSError as error:
            log.warning("settings not read: %s", error)
            return Settings()
        try:
            return _settings_from(json.loads(content))
        except (ValueError, TypeError) as error:
            broken = self.path.with_suffix(".json.broken")
            log.warning("settings are broken (%s); kept as %s", error, broken)
            self.path.replace(broken)
            return Settings()

    def save(self, settings: Settings) -> None:
        """Write them whole or not at all. A folder that cannot be written is logged, not raised."""
        text = json.dumps(asdict(settings), indent=2, ensure_ascii=False)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, text)
        except OSError as error:
            log.warning("settings not saved: %s", error)


def _settings_from(stored: Any) -> Settings:
    """Known keys of the right type; anything else falls back to its default.

    Raises:
        ValueError: not an object of ours at all.
    """
    if not isinstance(stored, dict):
        raise ValueError("not a JSON object")
    settings = Settings()
    for known in fields(Settings):
        if known.name not in stored:
            continue
        value = stored[known.name]
        default = getattr(settings, known.name)
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is type(default):
            setattr(settings, known.name, value)
        else:
            log.warning("setting %s has the wrong type and is reset", known.name)
    settings.recent = [path for path in settings.recent if isinstance(path, str)][:MOST_RECENT]
    settings.run_folders = [path for path in settings.run_folders if isinstance(path, str)]
    settings.model_folders = [path for path in settings.model_folders if isinstance(path, str)]
    settings.queue = [values for values in settings.queue if isinstance(values, dict)]
    settings.splitters = {k: v for k, v in settings.splitters.items() if isinstance(v, str)}
    settings.version = VERSION
    return settings
