"""What a report of a fault needs, as a text without secrets and names."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from trainer_core.redact import without_person

PACKAGES = ("burnish", "mlx", "mlx-lm", "transformers", "numpy", "PySide6_Essentials", "pyqtgraph")
LAST_BYTES = 20_000
"""Of the log file."""


def diagnostics(log_file: Path, device: str, said: Sequence[str]) -> str:
    """Versions, machine, what the window said last, and the end of the log.

    Args:
        log_file: the log of the app.
        device: what the engine runs on, or an empty string before it has told.
        said: the last lines of the log panel.
    """
    memory = psutil.virtual_memory()
    parts = [
        "Burnish diagnostics",
        f"{platform.platform()}, Python {platform.python_version()}",
        f"{psutil.cpu_count()} cores, {memory.total / 1e9:.1f} GB, "
        f"{memory.available / 1e9:.1f} GB free",
        f"Device: {device or 'not told yet'}",
        *(f"{name} {installed(name)}" for name in PACKAGES),
        "",
        "In the window:",
        *said,
        "",
        f"End of {log_file}:",
        _end_of(log_file),
    ]
    return without_person("\n".join(parts))


def installed(name: str) -> str:
    """The version of a package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "from a checkout"


def _end_of(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - LAST_BYTES))
            text = opened.read().decode("utf-8", "replace")
    except OSError as error:
        return f"(it cannot be read: {error.strerror})"
    return text if len(text) < LAST_BYTES else text.split("\n", 1)[-1]
