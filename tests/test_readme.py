"""README says what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from trainer_core.config import options

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_options_is_current() -> None:
    spec = importlib.util.spec_from_file_location("readme", ROOT / "packaging" / "readme.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.renewed(README) == README, "run python3 packaging/dev.py readme"
    assert [name for name in options() if f"| `{name}` |" not in README] == []


def test_every_picture_and_file_it_names_exists() -> None:
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', README)
    assert len(pictures) == 2
    tree = README.split("## Where things are")[1].split("```")[1]
    named, folder = [], ""
    for line in tree.splitlines():
        for entry in re.match(r"\s*((?:\S+[/.]\S* ?)*)", line)[1].split():
            top = not line.startswith(" ")
            folder = entry if top and entry.endswith("/") else folder
            named.append(entry if top else folder + entry)
    assert len(named) > 15
    missing = [name for name in [*pictures, *named] if not (ROOT / name).exists()]
    assert not missing
