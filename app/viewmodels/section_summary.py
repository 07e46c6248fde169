"""What a folded section of the form says in its header, so that nobody has to open it to know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from app.viewmodels.alpha_link import alpha_of
from app.viewmodels.field_spec import choice_label
from app.viewmodels.field_text import show_value
from trainer_core.config import DEFAULT_ITERS, default_learning_rate


def section_summary(group: str, values: Mapping[str, Any]) -> str:
    """A short line on the main choices of a group, such as `rank 16, alpha 32, all layers`."""
    return ", ".join(part for part in _PARTS[group](values) if part)


def _name(value: Any) -> str:
    return PurePath(str(value)).name if value else "not chosen"


def _model(values: Mapping[str, Any]) -> list[str]:
    weights = values["weights"]
    name = "sample model" if values["model"] == "sample" else _name(values["model"])
    return [name, "" if weights == "auto" else f"weights {weights}"]


def _data(values: Mapping[str, Any]) -> list[str]:
    name = "sample data" if values["data"] == "sample" else _name(values["data"])
    return [name, f"{show_value(values['max_seq_length'])} tokens"]


def _method(values: Mapping[str, Any]) -> list[str]:
    method = values["method"]
    parts = [choice_label(method)]
    if method == "orpo":
        parts += [f"lambda {show_value(values['orpo_lambda'])}", f"scope {values['sft_scope']}"]
    elif method == "dpo":
        if values["preference_loss"] != "sigmoid":
            parts.append(values["preference_loss"])
        parts.append(f"beta {show_value(values['dpo_beta'])}")
    return parts


def _lora(values: Mapping[str, Any]) -> list[str]:
    if values["warm_start"]:
        return [f"from {_name(values['warm_start'])}"]
    rank, layers = values["rank"], values["num_layers"]
    if values["fine_tune_type"] == "full":
        return ["all weights" if layers == -1 else f"last {show_value(layers)} layers in full"]
    alpha = alpha_of(rank, values["scale"])
    return [
        "DoRA" if values["fine_tune_type"] == "dora" else "",
        f"rank {show_value(rank)}",
        f"alpha {show_value(alpha)}" if alpha else "",
        "all layers" if layers == -1 else f"last {show_value(layers)} layers",
    ]


def _schedule(values: Mapping[str, Any]) -> list[str]:
    rate = values["learning_rate"] or default_learning_rate(
        values["method"], values["fine_tune_type"]
    )
    if values["epochs"] is not None:
        length = f"{show_value(values['epochs'])} epochs"
    else:
        length = f"{show_value(values['iters'] or DEFAULT_ITERS)} steps"
    rows = values["batch_size"], values["grad_accumulation_steps"]
    batch = show_value(rows[0]) if rows[1] == 1 else " x ".join(map(show_value, rows))
    return [length, f"rate {show_value(rate)}", f"batch {batch}"]


def _speed(values: Mapping[str, Any]) -> list[str]:
    size = values["segment_size"]
    segments = {"auto": "auto segments", 0: "whole graph"}.get(
        size, f"segments of {show_value(size)}"
    )
    return [f"{values['head']} head", segments]


def _output(values: Mapping[str, Any]) -> list[str]:
    every = values["steps_per_eval"]
    folder = _name(values["output"]) if values["output"] else "usual folder"
    validation = (
        "validate at start and end" if every == 0 else f"validate every {show_value(every)}"
    )
    return [values["run_name"] or folder, validation]


_PARTS = {
    "Model": _model,
    "Data": _data,
    "Method": _method,
    "LoRA": _lora,
    "Schedule": _schedule,
    "Memory and speed": _speed,
    "Output": _output,
}
