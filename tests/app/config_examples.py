"""For every option in the form: a valid value other than its default, as text where it is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.viewmodels.config_vm import SPECS, ConfigViewModel
from app.viewmodels.field_spec import FieldSpec, Kind

NEEDS: dict[str, dict[str, Any]] = {
    "valid_fraction": {"data": "rows"},
    "best_metric": {"method": "orpo"},
    "group_by_length": {"batch_size": 4},
    "dpo_reference": {"method": "dpo", "warm_start": "adapter"},
}
"""What has to be chosen first where the option's own metadata does not say it."""


def ready_form() -> ConfigViewModel:
    """A form that can start: the sample model on the sample data."""
    vm = ConfigViewModel()
    vm.set_value("model", "sample")
    vm.set_value("data", "sample")
    return vm


def make_files(folder: Path) -> dict[str, str]:
    """A file or folder for every path option."""
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_config.json").write_text("{}")
    (folder / "template.jinja").write_text("{{ messages }}")
    (folder / "rows.jsonl").write_text('{"text": "a"}\n')
    names = {"model": "model"} | dict.fromkeys(("data", "valid_data", "row_changes"), "rows.jsonl")
    names |= {"chat_template": "template.jinja", "warm_start": "adapter", "output": "runs"}
    return {key: str(folder / name) for key, name in names.items()}


def other_value(spec: FieldSpec, files: dict[str, str]) -> tuple[Any, Any]:
    """What to type or choose, and the value that RunConfig must then have."""
    if spec.option.path:
        return files[spec.key], files[spec.key]
    if spec.kind is Kind.CHOICE:
        value = next(value for value in spec.choices if value != spec.default)
        return value, value
    if spec.kind is Kind.FLAG:
        return not spec.default, not spec.default
    typed = {
        Kind.TEXT: ("first-try", "first-try"),
        Kind.NAMES: ("q_proj, v_proj", ["q_proj", "v_proj"]),
        Kind.LINES: (
            "Who is Ada?\nWhat is 2 + 2, and why?",
            ["Who is Ada?", "What is 2 + 2, and why?"],
        ),
        Kind.MAPPING: ("{prompt: question}", {"prompt": "question"}),
        Kind.REALS: ("0.8, 0.95", (0.8, 0.95)),
        Kind.AUTO_WHOLE: ("2", 2),
        Kind.WHOLE: ("17", 17),
        Kind.REAL: ("1e-2", 0.01) if spec.default != 0.01 else ("3e-2", 0.03),
    }
    return typed[spec.kind]


def prepare(vm: ConfigViewModel, key: str, files: dict[str, str]) -> None:
    """Choose what makes option `key` have an effect."""
    needed = {other: values[0] for other, values in (SPECS[key].option.applies or {}).items()}
    named = {"adapter": files["warm_start"], "rows": files["data"]}
    for other, value in (needed | NEEDS.get(key, {})).items():
        vm.set_value(other, named.get(value, value))
    if key == "epochs":
        vm.set_length_by("epochs")
