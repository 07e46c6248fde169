"""What each family of the catalogue can do, as the page docs/families.md says it.

`python -m tests.core.family_table` writes the page anew, and the same for the app.
"""

from __future__ import annotations

import json
from pathlib import Path

from trainer_core.backend import prepare

prepare()  # before MLX

import mlx.core as mx  # noqa: E402

from tests.core.catalogue import CATALOGUE, family_model  # noqa: E402
from trainer_core.errors import ModelError  # noqa: E402
from trainer_core.model.lora import attach  # noqa: E402
from trainer_core.model.open_stack import open_stack  # noqa: E402
from trainer_core.model.targets import choose  # noqa: E402
from trainer_core.model.trainable import check_trainable  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
RESOURCE = Path(__file__).parents[2] / "resources" / "families.json"

_COLUMNS = ("head", "segments", "prefix", "blocks", "packing")

_TOP = """# Families of models

Burnish loads what mlx-lm loads. When it opens a model it compares every fast path with the model
itself, hidden states and gradients, and uses only what agrees; the rest falls back with a warning,
or with an error if you asked for it. A model whose adapter has no finite gradient is refused.

This table is what that check finds on a small random model of each family, made from mlx-lm's own
classes. It is written by `python -m tests.core.family_table`, and a test fails when it is out of
date. Where a column says yes, another test compares the gradients with plain differentiation of
the whole model over two separate sequences: 2e-5 apart at most, rows longer than the window.

- **Head**: `head` other than `full`.
- **Segments**: `segment_size` other than 0.
- **Prefix**: `prefix_sharing: on`.
- **Blocks**: `head: flash`.
- **Packing**: rows of `packing: true` run in one row; where it says no, side by side, which is the
  same but for some padding.
- **Adapted**: what `target_modules: auto` chooses inside a layer. Routers and the experts
  themselves are left alone.

| Family | Head | Segments | Prefix | Blocks | Packing | Adapted |
|---|---|---|---|---|---|---|
"""


def row(name: str) -> str:
    """The line of one family."""
    model = family_model(name)
    targets = choose(model, "auto", -1)
    try:
        check_trainable(model, attach(model, targets.paths, rank=2, scale=1.0))
    except ModelError as error:
        return f"| {name} | refused | | | | | {error.why} |"
    checked = open_stack(model, name.split()[0])
    reasons = (checked.whole, checked.segments, checked.prefix, checked.blocks)
    marks = ["no" if reason else "yes" for reason in reasons]
    marks.append("yes" if checked.packs else "no")
    adapted = ", ".join(sorted({_short(key) for key in targets.keys}))
    return "| " + " | ".join([name, *marks, adapted]) + " |"


def _short(key: str) -> str:
    """The last name of a path, with the one before if it is only a number."""
    *_, before, last = ("", *key.split("."))
    return f"{before}.{last}" if last.isdigit() else last


def page() -> str:
    """The whole page."""
    return _TOP + "\n".join(row(name) for name in CATALOGUE) + "\n"


def resource(page: str) -> str:
    """Family -> the fast paths that it has, as JSON; none for a family that is refused."""
    found: dict[str, list[str]] = {}
    for line in page.splitlines():
        name, *marks = [cell.strip() for cell in line.strip("| ").split("|")]
        if name in CATALOGUE:
            had = [c for c, mark in zip(_COLUMNS, marks, strict=False) if mark == "yes"]
            # Of a family in several forms, what all of them have.
            family = name.split()[0]
            found[family] = [c for c in had if c in found.get(family, had)]
    return json.dumps(found, indent=1) + "\n"


if __name__ == "__main__":
    mx.disable_compile()  # compiling dozens of small kernels takes longer than running them
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    RESOURCE.write_text(resource(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
