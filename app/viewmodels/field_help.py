"""The words around a field: help, range, default, and what an empty field stands for."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from app.viewmodels.alpha_link import ALPHA_HELP
from app.viewmodels.field_spec import FieldSpec, Kind
from app.viewmodels.field_text import show_value
from app.viewmodels.number_text import show_number
from trainer_core.config import DEFAULT_ITERS, default_learning_rate

_ZERO_MEANS = {
    "val_rows": "all rows",
    "grad_clip": "no clipping",
    "early_stop_patience": "off",
    "steps_per_eval": "only at start and end",
    "valid_fraction": "no validation",
}

_EMPTY_MEANS = {
    "model": "Folder, Hugging Face id, or sample",
    "data": "File, folder, or sample",
    "columns": "As the file names them",
    "row_changes": "None: every row as it is",
    "valid_data": "None: hold out a share",
    "chat_template": "The model's own",
    "template_kwargs": "None",
    "system_prompt": "None",
    "warm_start": "None: start from the base model",
    "output": "Usual folder",
    "run_name": "Date, method and model",
    "target_modules": "auto",
}

_METHOD_NOTES = {
    "sft": "Learns to imitate the answers in the data.",
    "dpo": "Learns from pairs of answers, held close to a reference.",
    "orpo": "Learns from pairs of answers in one loss, without a reference.",
    "cpo": "Learns from pairs of answers and imitates the better one, without a reference.",
    "simpo": "Learns from pairs of answers by their mean likelihood, without a reference.",
}

_KEEPS_SCALE = ("rank", "scale")


def method_note(values: Mapping[str, Any]) -> str:
    """What the chosen method does, in a line."""
    loss = values["preference_loss"] if values["method"] == "dpo" else ""
    return _METHOD_NOTES.get(loss) or _METHOD_NOTES[values["method"]]


def tool_tip(spec: FieldSpec, idle: str | None) -> str:
    """Rich text: what the field is, what it takes, its key; why it has no effect, if so."""
    help_text = spec.option.help
    if spec.key in _KEEPS_SCALE:
        help_text += f" {ALPHA_HELP}"
    facts = [f"<code>{spec.key}</code>"]
    if not spec.required and spec.default is not None:
        facts.append(f"default {escape(show_value(spec.default))}")
    if spec.bounds:
        facts.append(escape(spec.range))
    parts = [f"<b>{escape(spec.label)}</b>", _code(help_text), " &middot; ".join(facts)]
    if idle:
        parts.insert(0, f"<b>{escape(idle)}.</b>")
    return "".join(f"<p>{part}</p>" for part in parts)


def spoken(spec: FieldSpec, idle: str | None) -> str:
    """Plain text for a screen reader: why the field has no effect, if so, and its help."""
    return " ".join(
        part for part in (f"{idle}." if idle else "", spec.option.help) if part
    ).replace("`", "")


def placeholder(spec: FieldSpec, values: Mapping[str, Any]) -> str:
    """What an empty field stands for."""
    if spec.key == "learning_rate":
        return show_number(default_learning_rate(values["method"], values["fine_tune_type"]))
    if spec.key == "iters":
        return str(DEFAULT_ITERS)
    return _EMPTY_MEANS.get(spec.key, "" if spec.default is None else show_value(spec.default))


def unit(spec: FieldSpec, value: Any) -> str:
    """What stands after the value: its unit, or what 0 means here."""
    if value == 0 and spec.kind is not Kind.FLAG and spec.key in _ZERO_MEANS:
        return _ZERO_MEANS[spec.key]
    return spec.option.unit


def _code(text: str) -> str:
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))
