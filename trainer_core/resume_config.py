"""The configuration of a run that goes on: its own, but for the few options that may change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer_core.config import RunConfig
from trainer_core.errors import ConfigError
from trainer_core.option import shown

MAY_CHANGE = ("iters", "epochs", "save_every", "keep_checkpoints", "isolation")
"""Options that a run may go on with another value of."""

MAY_MOVE = ("model", "data", "valid_data", "row_changes")
"""What may lie elsewhere by now; that it is the same is seen by its hashes."""


def config_of_run(folder: Path) -> Path:
    """The configuration file of a run folder.

    Raises:
        ConfigError: it is none.
    """
    file = folder / "config.yaml"
    if file.is_file():
        return file
    if not folder.exists():
        what, why = f"resume = {folder}: there is no such folder", ""
    else:
        what, why = f"resume = {folder} is not a run folder", "it has no config.yaml"
    raise ConfigError(what, why, "Name the folder of a run, as `train` printed it", key="resume")


def resumed(own: RunConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run that goes on.

    Args:
        own: the run's configuration as it ran.
        given: what was asked for beside `resume`; `auto` and null leave an option to the run.

    Raises:
        ConfigError: an option is to change that may not.
    """
    values = own.model_dump()
    for key, value in given.items():
        if key in MAY_CHANGE or key in MAY_MOVE or key == "resume":
            continue
        if value not in (None, "auto") and value != values.get(key) and _differs(own, key, value):
            raise ConfigError(
                f"{key} = {shown(value)} cannot be used with resume",
                f"the run has {shown(values.get(key))}, and goes on as it began",
                f"Leave {key} out, or start a new run with warm_start",
                key=key,
            )
    if given.get("iters") is not None or given.get("epochs") is not None:
        values["iters"] = values["epochs"] = None
    allowed = {*MAY_CHANGE, *MAY_MOVE, "resume"}
    # What is no option at all stays, to be refused with its nearest name.
    taken = {k: v for k, v in given.items() if k in allowed or k not in RunConfig.model_fields}
    return values | {k: v for k, v in taken.items() if v is not None}


def _differs(own: RunConfig, key: str, value: Any) -> bool:
    """Whether a value is another one once it is read as the option's type."""
    if key not in RunConfig.model_fields:
        return False
    try:
        read = RunConfig.model_validate({**own.model_dump(), key: value})
    except ValueError:
        return True
    return getattr(read, key) != getattr(own, key)
