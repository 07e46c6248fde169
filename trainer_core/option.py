"""What the form, the command line and the README need to know of an option besides its type."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import Field
from pydantic.fields import FieldInfo

GROUPS = ("Model", "Data", "Method", "LoRA", "Schedule", "Memory and speed", "Output")

_NOUNS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list of names",
    tuple: "a list of two numbers",
    dict: "a mapping of names to values",
}


@dataclass(frozen=True, slots=True)
class Option:
    """Metadata of one `RunConfig` field.

    Attributes:
        label: name in the form.
        help: one or two sentences for a person who tunes models.
        group: one of `GROUPS`.
        unit: unit shown after the value, or an empty string.
        advanced: folded away in the form.
        path: the value may name a file or a folder.
        form: the app's form has a field for it.
        applies: field name -> values for which this option has an effect; all must hold.
    """

    label: str
    help: str
    group: str
    unit: str = ""
    advanced: bool = False
    path: bool = False
    form: bool = True
    applies: dict[str, tuple[Any, ...]] | None = None


def option(
    default: Any,
    label: str,
    help: str,
    *,
    group: str,
    unit: str = "",
    advanced: bool = False,
    path: bool = False,
    form: bool = True,
    applies: dict[str, tuple[Any, ...]] | None = None,
    **bounds: Any,
) -> Any:
    """A pydantic field that carries an `Option`. `default` is `...` for a required one.

    `bounds` are pydantic's own: ge, gt, le, lt.
    """
    meta = Option(label, help, group, unit, advanced, path, form, applies)
    # Any: pydantic keeps what it is given here, though its type asks for plain JSON.
    extra: Any = {"option": meta}
    return Field(default, description=help, json_schema_extra=extra, **bounds)


def option_of(field: FieldInfo) -> Option:
    """The `Option` that a field carries."""
    extra: Any = field.json_schema_extra
    return extra["option"]


def kinds(annotation: Any) -> tuple[Any, ...]:
    """What a field's type is made of: base types, and the values of a Literal, in their order.

    `Literal["auto"] | int | None` gives `("auto", int, NoneType)`.
    """
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return tuple(kind for part in get_args(annotation) for kind in kinds(part))
    if origin is Literal:
        return get_args(annotation)
    return (origin or annotation,)


def limits(field: FieldInfo) -> dict[str, float]:
    """The range of a number: any of ge, gt, le, lt."""
    found: dict[str, float] = {}
    for rule in field.metadata:
        for kind, name in ((Ge, "ge"), (Gt, "gt"), (Le, "le"), (Lt, "lt")):
            if isinstance(rule, kind):
                found[name] = getattr(rule, name)
    return found


def allowed(field: FieldInfo) -> str:
    """The values a field takes, in words: `auto or a whole number, at least 0`."""
    values = kinds(field.annotation)
    if values[0] is list:
        return "a list of texts" + (", or null" if NoneType in values else "")
    words = [_NOUNS.get(kind, str(kind)) for kind in values if kind is not NoneType]
    text = _either(words)
    if bounds := limits(field):
        text += f" {_range(bounds)}"
    return text + (", or null" if NoneType in values else "")


def shown(value: Any) -> str:
    """A value as a configuration file would have it, on one line and cut after 60 characters."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = " ".join(value.split() if isinstance(value, str) else repr(value).split()) or '""'
    return text if len(text) <= 60 else text[:57] + "..."


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" or {words[-1]}"


def _range(bounds: dict[str, float]) -> str:
    if set(bounds) == {"ge", "le"}:
        return f"from {bounds['ge']} to {bounds['le']}"
    words = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
    return " and ".join(f"{words[k]} {v}" for k, v in bounds.items())
