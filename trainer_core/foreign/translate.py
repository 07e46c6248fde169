"""From another trainer's configuration file to ours."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer_core.config import RunConfig
from trainer_core.config_file import ConfigFile
from trainer_core.errors import ConfigError
from trainer_core.events import Warned
from trainer_core.foreign.keys import Key, Reading, Refusal
from trainer_core.foreign.mlx_lm import MLX_LM
from trainer_core.foreign.mlx_lm_lora import MLX_LM_LORA
from trainer_core.option import shown

TRAINERS: dict[str, Mapping[str, Key]] = {"mlx-lm": MLX_LM, "mlx-lm-lora": MLX_LM_LORA}

# None of these trainers clips gradients.
_ALWAYS: dict[str, Any] = {"grad_clip": 0.0}


@dataclass(frozen=True, slots=True)
class Translated:
    """A file as one of ours, with its lines, and what is not as it was there."""

    file: ConfigFile
    trainer: str
    warnings: list[Warned] = field(default_factory=list)


def trainer_of(values: Mapping[str, Any]) -> str | None:
    """Whose file this is, or None if it is one of ours.

    A file is another trainer's if it has a key that only that one knows and none that only we do.
    """
    ours = {*RunConfig.model_fields, "schema_version"}
    best: tuple[int, str] | None = None
    for name, table in TRAINERS.items():
        if set(values) & (ours - set(table)):
            continue
        known = len(set(values) & (set(table) - ours))
        # A schedule with arguments is theirs too, though the key is ours.
        known += isinstance(values.get("lr_schedule"), dict)
        if known and (best is None or known > best[0]):
            best = known, name
    return best[1] if best else None


def translate(file: ConfigFile, trainer: str) -> Translated:
    """The file with our options in place of the trainer's.

    Args:
        file: for which `trainer_of` named the trainer.
        trainer: a key of `TRAINERS`.

    Raises:
        ConfigError: the trainer knows no such key, or a value cannot be honoured.
    """
    table = TRAINERS[trainer]
    for key in file.values:
        if key not in table:
            near = difflib.get_close_matches(key, table, n=1, cutoff=0.0)
            what = f"{file.where(key)}: {trainer} has no key {key}"
            raise ConfigError(what, "", f"The nearest one is {near[0]}", key=key)
    given = {key: value for key, value in file.values.items() if value is not None}
    values = {name: given.get(name, key.default) for name, key in table.items()}
    reading = Reading(values)
    found: dict[str, Any] = dict(_ALWAYS)
    lines: dict[str, int] = {}
    for name, key in table.items():
        reading.key = name
        try:
            taken = key.take(values[name], reading)
        except Refusal as refusal:
            raise ConfigError(
                f"{file.where(name)}: {name} = {shown(values[name])} cannot be used",
                refusal.why,
                refusal.try_this,
                key=name,
            ) from None
        except (TypeError, ValueError, AttributeError, ArithmeticError):
            raise ConfigError(
                f"{file.where(name)}: {name} = {shown(values[name])} cannot be used",
                f"{trainer} takes another kind of value there",
                f"see {name} in its documentation",
                key=name,
            ) from None
        for ours, value in taken.items():
            merged = ours == "columns" and ours in found
            found[ours] = {**found[ours], **value} if merged else value
            if name in file.lines:
                lines[ours] = file.lines[name]
    reading.warnings.insert(
        0,
        Warned(
            "foreign",
            f"{file.path.name} is a configuration of {trainer}: what it leaves out is as there, "
            "and gradients are not clipped",
        ),
    )
    kept = {ours: value for ours, value in found.items() if value is not None}
    return Translated(ConfigFile(file.path, kept, lines), trainer, reading.warnings)
