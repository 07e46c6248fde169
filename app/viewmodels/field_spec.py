"""What kind of control each option of RunConfig needs, read off its type and metadata.

The views build widgets from these specs and know nothing of pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from app.viewmodels.number_text import show_number
from trainer_core.config import RunConfig, options
from trainer_core.option import Option

_LABELS = {
    "sft": "SFT",
    "dpo": "DPO",
    "orpo": "ORPO",
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

    CHOICE = "choice"
    FLAG = "flag"
    WHOLE = "whole"
    REAL = "real"
    TEXT = "text"
    NAMES = "names"
    """`auto`, or names separated by commas."""
    REALS = "reals"
    """Numbers separated by commas."""
    AUTO_WHOLE = "auto or whole"


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
        choices: the accepted values of an enumeration, in order.
        limits: the range in words, such as "at least 1", or an empty string.
    """

    key: str
    option: Option
    kind: Kind
    default: Any
    required: bool
    optional: bool
    choices: tuple[Any, ...]
    limits: str

    @property
    def label(self) -> str:
        """Name in the form."""
        return self.option.label

    @property
    def offered(self) -> bool:
        """Whether there is anything to choose.

        An option that this version holds at one value is not shown, nor is a minor one whose `auto` can
        only mean the single other value.
        """
        only = self.option.only
        if only is None:
            return True
        real = [value for value in only if value != "auto"]
        return len(real) > 1 or (len(only) > 1 and not self.option.advanced)


def field_specs(model: type[BaseModel] = RunConfig) -> dict[str, FieldSpec]:
    """Specs of every field, in the order of the form."""
    known = options() if model is RunConfig else _options_of(model)
    return {key: field_spec(key, info, known[key]) for key, info in model.model_fields.items()}


def field_spec(key: str, info: FieldInfo, option: Option) -> FieldSpec:
    """The spec of one pydantic field.

    Raises:
        TypeError: if the form has no control for the field's type.
    """
    kind, optional, choices = _kind(key, info.annotation)
    if option.only is not None and kind in (Kind.CHOICE, Kind.AUTO_WHOLE):
        choices = option.only
    required = info.is_required()
    default = None if required else info.default
    return FieldSpec(key, option, kind, default, required, optional, choices, _limits(info.metadata))


def choice_label(value: Any) -> str:
    """How a value of an enumeration reads on screen."""
    text = str(value)
    return _LABELS.get(text, text.replace("_", " ").capitalize())


def _options_of(model: type[BaseModel]) -> Mapping[str, Option]:
    extras: dict[str, Any] = {key: info.json_schema_extra for key, info in model.model_fields.items()}
    return {key: extra["option"] for key, extra in extras.items()}


def _kind(key: str, annotation: Any) -> tuple[Kind, bool, tuple[Any, ...]]:
    parts = list(get_args(annotation)) if get_origin(annotation) in (Union, UnionType) else [annotation]
    optional = NoneType in parts
    parts = [part for part in parts if part is not NoneType]
    simple = {bool: Kind.FLAG, int: Kind.WHOLE, float: Kind.REAL, str: Kind.TEXT}
    if len(parts) == 1:
        part = parts[0]
        if get_origin(part) is Literal:
            return Kind.CHOICE, optional, get_args(part)
        if get_origin(part) is tuple and set(get_args(part)) == {float}:
            return Kind.REALS, optional, ()
        if part in simple:
            return simple[part], optional, ()
    if len(parts) == 2 and get_args(parts[0]) == ("auto",):
        if parts[1] is int:
            return Kind.AUTO_WHOLE, optional, ()
        if parts[1] == list[str]:
            return Kind.NAMES, optional, ()
    raise TypeError(f"the form has no control for {key}: {annotation}")


def _limits(metadata: list[Any]) -> str:
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    found = []
    for name, word in words.items():
        for item in metadata:
            if (bound := getattr(item, name, None)) is not None:
                found.append(f"{word} {show_number(bound)}")
    return ", ".join(found)
