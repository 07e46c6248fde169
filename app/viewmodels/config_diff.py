"""What tells the settings of several runs apart, or one run from the defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.viewmodels.field_text import show_value
from trainer_core.config import RunConfig
from trainer_core.option import option_of

_NOT_TOLD = ("run_name", "output", "resume")


@dataclass(frozen=True, slots=True)
class SettingRow:
    """An option and its value in each run, as text."""

    key: str
    label: str
    values: tuple[str, ...]


def differing(configs: Sequence[Mapping[str, Any]]) -> list[SettingRow]:
    """The options that differ; of a single run those that differ from their defaults."""
    found: list[SettingRow] = []
    for key, field in RunConfig.model_fields.items():
        if key in _NOT_TOLD:
            continue
        values = [_plain(config.get(key)) for config in configs]
        against = values[1:] if len(values) > 1 else [_plain(field.get_default())]
        if any(other != values[0] for other in against):
            label = option_of(field).label
            found.append(SettingRow(key, label, tuple(show_value(value) for value in values)))
    return found


def _plain(value: Any) -> Any:
    """As JSON would have it, so that a tuple and the list that was read back are the same."""
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return None if value == "" else value
