"""Which options have an effect beside the current choices, and what to say of those that have none.

Most of it is declared with the options. Here is what only the form needs on top: an option that is
valid but idle, such as the validation interval of a run without validation rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer_core.config import PREFERENCE, RunConfig, inapplicable
from trainer_core.data.files import find_files
from trainer_core.data.load import SAMPLE, sample_data
from trainer_core.errors import DataError

_OF_VALIDATION = ("val_rows", "steps_per_eval", "best_metric", "early_stop_patience")
_OF_ADAPTER = ("fine_tune_type", "rank", "scale", "target_modules", "num_layers")


def why_idle(key: str, values: Mapping[str, Any]) -> str | None:
    """Why option `key` has no effect with these values, as a sentence, or None if it has one."""
    reason = inapplicable(key, values) or _why_idle(key, values)
    return reason[0].upper() + reason[1:] if reason else None


def usable_choices(
    key: str, choices: tuple[Any, ...], values: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The values of an enumeration that can be chosen beside the others."""
    if key == "best_metric" and values.get("method") not in PREFERENCE:
        return tuple(choice for choice in choices if choice == "loss")
    return choices


def own_validation_file(values: Mapping[str, Any]) -> bool:
    """Whether the data brings its validation rows along, as the sample does."""
    data = str(values.get("data") or "")
    if not data:
        return False
    try:
        path = sample_data(values["method"]) if data == SAMPLE else Path(data).expanduser()
        return find_files(path).valid != ()
    except (DataError, RuntimeError):  # no such data, or a home that is unknown: not asked here
        return False


def has_validation(values: Mapping[str, Any]) -> bool:
    """Whether the run will have validation rows."""
    share = values.get("valid_fraction", RunConfig.model_fields["valid_fraction"].default)
    return bool(values.get("valid_data")) or own_validation_file(values) or share != 0


def _why_idle(key: str, values: Mapping[str, Any]) -> str | None:
    if key == "valid_fraction":
        if values.get("valid_data"):
            return "not used: the validation file is"
        if own_validation_file(values):
            return "not used: the data has its own validation rows"
    if key in _OF_VALIDATION and not has_validation(values):
        return "only used when there are validation rows"
    if key == "best_metric" and values.get("method") not in PREFERENCE:
        return "SFT is judged by its loss; accuracy and margin need pairs"
    if key == "group_by_length" and values.get("batch_size") == 1:
        return "a batch of one row has nothing to group"
    if key == "group_by_length" and values.get("packing"):
        return "packed rows have no padding"
    if key in _OF_ADAPTER and values.get("warm_start"):
        return "taken from the adapter that training starts from"
    if key == "dpo_reference" and not values.get("warm_start"):
        return "start and base are the same without a warm start"
    return None
