"""Ready-made settings: what each file in resources/presets is for, and what it makes of a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer_core.config import RunConfig
from trainer_core.config_file import read_config_file
from trainer_core.option import option_of

FOLDER = Path(__file__).resolve().parents[2] / "resources" / "presets"

# What a preset leaves as it is unless it names it: what is trained on what, how, and where to.
_KEPT_GROUPS = ("Model", "Data", "Method", "Output")


@dataclass(frozen=True, slots=True)
class Preset:
    """One file. `values` are the options that it names."""

    name: str
    description: str
    values: Mapping[str, Any]

    def over(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a form with this preset chosen.

        Args:
            values: of the form before; every option of a group that is not kept falls back to its
                default.
        """
        found = dict(values)
        for key, field in RunConfig.model_fields.items():
            if option_of(field).group not in _KEPT_GROUPS:
                found[key] = field.default
        return found | dict(self.values)


def presets(folder: Path = FOLDER) -> list[Preset]:
    """All of them by name.

    Raises:
        ConfigError: a file cannot be read.
    """
    found = []
    for path in folder.glob("*.yaml"):
        head = path.read_text(encoding="utf-8").splitlines()
        told = dict(line.removeprefix("# ").split(": ", 1) for line in head[:2])
        values = read_config_file(path).values
        found.append(Preset(told["name"], told["description"], values))
    return sorted(found, key=lambda preset: preset.name)
