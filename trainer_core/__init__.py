"""Burnish's engine: exact SFT, DPO and ORPO fine-tuning on MLX, usable without the app.

Nothing heavy is imported here, so that the MLX-free parts stay cheap to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer_core.config import RunConfig
    from trainer_core.control import Control
    from trainer_core.run import train

__all__ = ["Control", "RunConfig", "train"]

_HOMES = {
    "RunConfig": "trainer_core.config",
    "Control": "trainer_core.control",
    "train": "trainer_core.run",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
