"""docs/foreign-configs.md: what becomes of every key of other trainers' configuration files.

`python -m tests.core.foreign_page` writes the page anew.
"""

from __future__ import annotations

from pathlib import Path

from trainer_core.foreign.translate import TRAINERS

PAGE = Path(__file__).parents[2] / "docs" / "foreign-configs.md"

_TOP = """# Configuration files of other trainers

`train`, `check` and File, Open config take files of mlx-lm's LoRA trainer and of mlx-lm-lora as
they are. A file is taken for one of theirs if it has a key that only they know and none that only
Burnish does. What the file leaves out is as it is there, so the learning rate is 1e-5 and gradients
are not clipped. What cannot be the same is told, or refused with its line. This page is written by
`python -m tests.core.foreign_page`, and a test fails when it is out of date.
"""


def page() -> str:
    """The whole page."""
    parts = [_TOP]
    for trainer, table in TRAINERS.items():
        lines = [f"\n## {trainer}\n", "| key | default there | here |", "|---|---|---|"]
        for name, key in sorted(table.items()):
            default = "" if key.default is None else f"`{key.default}`"
            lines.append(f"| `{name}` | {default} | {key.told} |")
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
