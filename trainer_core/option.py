"""What the form, the command line and the README need to know of an option besides its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field

GROUPS = ("Model", "Data", "Method", "LoRA", "Schedule", "Memory and speed", "Output")


@dataclass(frozen=True, slots=True)
class Option:
    """Metadata of one `RunConfig` field.

    Attributes:
        label: name in the form.
        help: one or two sentences for a person who tunes models.
        group: one of `GROUPS`.
        unit: unit shown after the value, or an empty string.
        advanced: folded away in the form.
        applies: field name -> values for which this option has an effect; all must hold.
        only: the values accepted in this version, or None for every valid one.
        why_only: why other values are refused.
    """

    label: str
    help: str
    group: str
    unit: str = ""
    advanced: bool = False
    applies: dict[str, tuple[Any, ...]] | None = None
    only: tuple[Any, ...] | None = None
    why_only: str = ""


def option(
    default: Any = ...,
    *,
    label: str,
    help: str,
    group: str,
    unit: str = "",
    advanced: bool = False,
    applies: dict[str, tuple[Any, ...]] | None = None,
    only: tuple[Any, ...] | None = None,
    why_only: str = "",
    **limits: Any,
) -> Any:
    """A pydantic field that carries an `Option`. `limits` are pydantic's own: ge, gt, le, lt."""
    meta = Option(label, help, group, unit, advanced, applies, only, why_only)
    return Field(default, description=help, json_schema_extra={"option": meta}, **limits)  # type: ignore[arg-type]
