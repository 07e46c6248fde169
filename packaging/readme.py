"""Writes the table of options into README.md, between its markers, from RunConfig."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
_BETWEEN = re.compile(r"(<!-- options: [^>]*-->\n).*?(<!-- options end -->)", re.DOTALL)


def renewed(text: str) -> str:
    """README's text with the table as it should be.

    Raises:
        ValueError: the markers are missing.
    """
    from trainer_core.cli.options import option_table_markdown

    table = (
        f"<details>\n<summary>All options</summary>\n\n{option_table_markdown()}\n\n</details>\n"
    )
    new, count = _BETWEEN.subn(lambda found: found[1] + table + found[2], text)
    if count != 1:
        raise ValueError("README.md has lost the markers of the options table")
    return new


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")
