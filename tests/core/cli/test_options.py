"""The table of options is RunConfig's, whole and well-formed."""

import io
import re

from trainer_core.__main__ import parser
from trainer_core.cli.options import option_table_markdown
from trainer_core.config import RunConfig


def rows() -> dict[str, list[str]]:
    found = {}
    for line in option_table_markdown().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and cells[0].startswith("`"):
            found[cells[0].strip("`")] = cells[1:]
    return found


def test_every_option_has_one_row_of_four_cells():
    found = rows()
    assert set(found) == set(RunConfig.model_fields)
    assert all(len(cells) == 3 for cells in found.values())


def test_defaults_ranges_and_conditions_are_told():
    found = rows()
    assert found["model"][0] == "required"
    assert found["rank"][:2] == ["16", "a whole number from 1 to 1024"]
    assert found["adam_betas"][0] == "[0.9, 0.999]"
    assert found["shuffle"][0] == "true"
    assert found["resume"][0] == "-"
    assert "Only used when method is orpo." in found["orpo_lambda"][2]


def test_people_get_every_option_too():
    out = io.StringIO()
    args = parser().parse_args(["options"])
    assert args.command(args, out) == 0
    for name in RunConfig.model_fields:
        assert name[:8] in out.getvalue()
