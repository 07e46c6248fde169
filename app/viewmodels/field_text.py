"""Typed text to the value of a field, and back."""

from __future__ import annotations

import re
from typing import Any

from app.viewmodels.field_spec import FieldSpec, Kind
from app.viewmodels.number_text import read_float, read_int, show_number
from trainer_core.config_file import read_mapping, write_mapping


def read_text(spec: FieldSpec, text: str) -> Any:
    """The value that `text` stands for in this field.

    Raises:
        ValueError: with what is wrong, as a clause that follows the field's name.
    """
    text = text.strip()
    if not text and spec.optional:
        return None
    if not text and spec.kind not in (Kind.TEXT, Kind.NAMES, Kind.CHOICE):
        raise ValueError("needs a value")
    if spec.kind is Kind.WHOLE:
        return read_int(text)
    if spec.kind is Kind.REAL:
        return read_float(text)
    if spec.kind is Kind.AUTO_WHOLE:
        return "auto" if text.lower() == "auto" else read_int(text)
    if spec.kind is Kind.NAMES:
        names = re.findall(r"[^\s,;]+", text)
        return "auto" if not names or names == ["auto"] else names
    if spec.kind is Kind.LINES:
        return [line.strip() for line in text.splitlines() if line.strip()]
    if spec.kind is Kind.MAPPING:
        return read_mapping(text)
    if spec.kind is Kind.REALS:
        return tuple(read_float(part) for part in re.split(r"\s*[,;]\s*|\s+", text.strip("()[] ")))
    return text


def as_value(spec: FieldSpec, given: Any) -> Any:
    """`given` as a value of the field; text that cannot be read stays text."""
    if spec.kind is Kind.REALS and isinstance(given, list):
        return tuple(given)
    if not isinstance(given, str):
        return given
    try:
        return read_text(spec, given)
    except ValueError:
        return given.strip()


def show_value(value: Any) -> str:
    """The text of a value in a form; unreadable text that was kept comes back as it was typed."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return show_number(value)
    if isinstance(value, dict):
        return write_mapping(value)
    return ", ".join(show_value(part) for part in value)
