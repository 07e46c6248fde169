"""What kind of control each option of RunConfig needs, read off its type and metadata.

The views build widgets from these specs and know nothing of pydantic.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from app.viewmodels.number_text import show_number
from trainer_core.config import RunConfig
from trainer_core.option import Option, kinds, limits, option_of

_LABELS = {
    "sft": "SFT",
    "dpo": "DPO",
    "orpo": "ORPO",
    "ipo": "IPO",
    "cpo": "CPO",
    "simpo": "SimPO",
    "lora": "LoRA",
    "dora": "DoRA",
    "adamw": "AdamW",
    "sgd": "SGD",
    "sdpa": "SDPA",
    "float32": "float32",
    "bfloat16": "bfloat16",
    "by_bits": "By bits",
    "by_kl": "By KL",
}


class Kind(Enum):
    """The sort of value a field holds, which decides how text becomes a value."""

    CHOICE = "one of a few values"
    FLAG = "yes or no"
    WHOLE = "whole number"
    REAL = "number"
    TEXT = "text"
    NAMES = "auto, or names separated by commas"
    LINES = "texts, one a line"
    REALS = "numbers separated by commas"
    MAPPING = "names and values, such as prompt: question, chosen: good"
    AUTO_WHOLE = "auto, 0 for off, or a whole number"


_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}

_KINDS: dict[tuple[Any, ...], Kind] = {
    (bool,): Kind.FLAG,
    (int,): Kind.WHOLE,
    (float,): Kind.REAL,
    (str,): Kind.TEXT,
    (tuple,): Kind.REALS,
    (dict,): Kind.MAPPING,
    (list,): Kind.LINES,
    ("auto", list): Kind.NAMES,
    ("auto", int): Kind.AUTO_WHOLE,
}


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One option as the form sees it.

    Attributes:
        key: field name of `RunConfig`.
        option: its metadata.
        kind: see `Kind`.
        default: its default; None with `required` set if it has none.
        required: a run cannot start without it.
        optional: an empty field means None.
        choices: the accepted values where only some are, in order.
        bounds: any of ge, gt, le, lt.
    """

    key: str
    option: Option
    kind: Kind
    default: Any
    required: bool
    optional: bool
    choices: tuple[Any, ...]
    bounds: dict[str, float]

    @property
    def label(self) -> str:
        """Name in the form."""
        return self.option.label

    @property
    def range(self) -> str:
        """The range in words, such as `at least 1`, or an empty string."""
        return ", ".join(
            f"{_BOUNDS[name]} {show_number(bound)}" for name, bound in self.bounds.items()
        )

    def clamp(self, value: float) -> float:
        """`value`, or the closed bound that it has passed."""
        return min(max(value, self.bounds.get("ge", value)), self.bounds.get("le", value))


def field_specs(model: type[BaseModel] = RunConfig) -> dict[str, FieldSpec]:
    """Specs of the options that the form has, in its order."""
    fields = model.model_fields.items()
    return {key: field_spec(key, field) for key, field in fields if option_of(field).form}


def field_spec(key: str, field: FieldInfo) -> FieldSpec:
    """The spec of one pydantic field.

    Raises:
        TypeError: if the form has no control for the field's type.
    """
    option = option_of(field)
    parts = kinds(field.annotation)
    values = tuple(part for part in parts if part is not NoneType)
    choices: tuple[Any, ...] = ()
    if all(isinstance(value, str) for value in values):
        kind, choices = Kind.CHOICE, values
    elif values in _KINDS:
        kind = _KINDS[values]
    else:
        raise TypeError(f"the form has no control for {key}: {field.annotation}")
    required = field.is_required()
    default = None if required else field.default
    return FieldSpec(
        key, option, kind, default, required, NoneType in parts, choices, limits(field)
    )


def choice_label(value: Any) -> str:
    """How a value of an enumeration reads on screen."""
    text = str(value)
    return _LABELS.get(text, text.replace("_", " ").capitalize())
