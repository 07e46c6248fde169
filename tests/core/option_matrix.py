"""Every option with every method and type: what works, and the sentence that refuses what does not.

`python -m tests.core.option_matrix` writes docs/options.md anew. Each cell is a run of one step on
the golden llama model, or the sentence that refuses it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from trainer_core.config import RunConfig
from trainer_core.config_io import problems
from trainer_core.errors import TrainerError
from trainer_core.option import kinds, option_of, shown

GOLDEN = Path(__file__).parents[1] / "golden" / "llama"
PAGE = Path(__file__).parents[2] / "docs" / "options.md"

METHODS = ("sft", "dpo", "orpo")
TYPES = ("lora", "dora", "full")

# What decides the columns, names files and folders, or has no other value that could be refused.
LEFT_OUT = ("model", "data", "method", "fine_tune_type", "output", "run_name", "resume")

# Values of options whose type does not list them.
VALUES: dict[str, list[Any]] = {
    "columns": [{"prompt": "prompt"}],
    "valid_data": [str(GOLDEN / "preference.jsonl")],
    "valid_fraction": [0.25],
    "sample_prompts": [["the cat"]],
    "sample_tokens": [4],
    "max_seq_length": [64],
    "chat_template": ["chatml"],
    "template_kwargs": [{"enable_thinking": False}],
    "system_prompt": ["Be brief."],
    "val_rows": [0],
    "orpo_lambda": [0.5],
    "dpo_beta": [0.5],
    "label_smoothing": [0.1],
    "cpo_alpha": [0.5],
    "simpo_gamma": [1.0],
    "rank": [2],
    "scale": [1.0],
    "dropout": [0.1],
    "target_modules": [["q_proj", "v_proj"]],
    "num_layers": [1],
    "warm_start": [str(GOLDEN / "init_adapter")],
    "lora_plus_ratio": [16.0],
    "iters": [2],
    "epochs": [0.1],
    "learning_rate": [1e-3],
    "batch_size": [2],
    "grad_accumulation_steps": [2],
    "warmup_steps": [1],
    "lr_floor": [0.0],
    "weight_decay": [0.1],
    "adam_betas": [(0.8, 0.95)],
    "adam_eps": [1e-6],
    "grad_clip": [0.0],
    "seed": [1],
    "early_stop_patience": [1],
    "chunk_size": [16],
    "segment_size": [0, 1],
    "steps_per_report": [2],
    "steps_per_eval": [1],
    "save_every": [1],
    "keep_checkpoints": [1],
}

# What another option has to be for these to have an effect; the row says so.
BESIDE: dict[str, dict[str, Any]] = {
    "chat_template": {"prompt_format": "chat"},
    "template_kwargs": {"prompt_format": "chat"},
    "system_prompt": {"prompt_format": "chat"},
    "group_by_length": {"batch_size": 2},
    "label_smoothing": {"preference_loss": "robust"},
    "cpo_alpha": {"preference_loss": "cpo"},
    "simpo_gamma": {"preference_loss": "simpo"},
    "sample_tokens": {"sample_prompts": ["the cat"]},
    "early_stop_patience": {"valid_fraction": 0.25},
    "best_metric": {"valid_fraction": 0.25},
}

_TOP = """# What goes with what

Every option's values with every method and type of fine-tuning. Yes means that a run of one step
on a small model worked; a number stands for the sentence below with which the run is refused before
it begins. The options themselves are explained in the README. This page is written by
`python -m tests.core.option_matrix`, and tests run every cell.

"""

Cell = tuple[str, str, str, Any]


def rows() -> Iterator[tuple[str, Any]]:
    """Option and value, in the order of the form."""
    for name, field in RunConfig.model_fields.items():
        if name in LEFT_OUT:
            continue
        if name in VALUES:
            values = VALUES[name]
        else:
            parts = kinds(field.annotation)
            values = [not field.default] if parts == (bool,) else list(parts)
        yield from ((name, value) for value in values)


def label(option: str, value: Any) -> str:
    """A row's first cell."""
    if option_of(RunConfig.model_fields[option]).path and Path(str(value)).is_absolute():
        value = Path(value).name
    beside = BESIDE.get(option, {})
    more = "".join(f", {name}: {shown(other)}" for name, other in beside.items())
    return f"`{option}: {shown(value)}{more}`"


def outcome(method: str, kind: str, option: str, value: Any) -> str:
    """An empty text for a run that works, or the sentence that refuses it."""
    values: dict[str, Any] = {
        "model": str(GOLDEN),
        "data": str(GOLDEN / "preference.jsonl"),
        "method": method,
        "fine_tune_type": kind,
        "prompt_format": "raw",
        "valid_fraction": 0,
        **({} if option == "epochs" else {"iters": 1}),
        **_beside(method, option),
        option: value,
    }
    found = problems(values)
    if found:
        return str(found[0])
    from trainer_core.run import train

    folder = Path(tempfile.mkdtemp())
    try:
        train(RunConfig(**values, output=str(folder)), lambda _: None)
    except TrainerError as error:
        return str(error)
    finally:
        shutil.rmtree(folder)
    return ""


def _beside(method: str, option: str) -> dict[str, Any]:
    """What goes with an option, but for what only DPO has."""
    beside = BESIDE.get(option, {})
    return {k: v for k, v in beside.items() if k != "preference_loss" or method == "dpo"}


def cells() -> list[Cell]:
    """Every cell of the table, row by row."""
    return [(m, t, option, value) for option, value in rows() for t in TYPES for m in METHODS]


def sentence(text: str) -> str:
    """A refusal as the page has it: without the places of this checkout, on one line."""
    return " ".join(text.replace(str(GOLDEN), "llama").split()).replace("|", "\\|")


def page(found: dict[str, str]) -> str:
    """The whole page from the outcomes by `key`."""
    head = [f"{method} {kind}" for kind in TYPES for method in METHODS]
    lines = ["| option | " + " | ".join(head) + " |", "|---" * (1 + len(head)) + "|"]
    notes: list[str] = []
    for option, value in rows():
        marks = []
        for kind in TYPES:
            for method in METHODS:
                text = sentence(found[key((method, kind, option, value))])
                if text and text not in notes:
                    notes.append(text)
                marks.append(str(notes.index(text) + 1) if text else "yes")
        lines.append(f"| {label(option, value)} | " + " | ".join(marks) + " |")
    told = [f"{number}. {text}" for number, text in enumerate(notes, 1)]
    return _TOP + "\n".join(lines) + "\n\n## Refusals\n\n" + "\n".join(told) + "\n"


def key(cell: Cell) -> str:
    """A cell's name."""
    return "-".join(map(str, cell))


def _take(cell: Cell) -> tuple[str, str]:
    return key(cell), outcome(*cell)


def _prepare() -> None:
    from trainer_core.backend import prepare

    prepare()


def main() -> None:
    """Write the page."""
    with ProcessPoolExecutor(2, initializer=_prepare) as pool:
        found = dict(pool.map(_take, cells(), chunksize=8))
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
