"""docs/options.md: every cell of the table is what a run of one step does."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.core.option_matrix import (
    METHODS,
    PAGE,
    TYPES,
    Cell,
    cells,
    label,
    outcome,
    rows,
    sentence,
)
from trainer_core.config import RunConfig


@cache
def table() -> dict[tuple[str, str, str], str]:
    """(method, type, label) -> an empty text for yes, or the refusal."""
    text = PAGE.read_text(encoding="utf-8")
    top, _, bottom = text.partition("## Refusals")
    notes = dict(re.findall(r"^(\d+)\. (.*)$", bottom, re.MULTILINE))
    found: dict[tuple[str, str, str], str] = {}
    columns = [(method, kind) for kind in TYPES for method in METHODS]
    for line in top.splitlines():
        if line.startswith("| `"):
            first, *marks = [cell.strip() for cell in line.strip("| ").split(" | ")]
            for (method, kind), mark in zip(columns, marks, strict=True):
                found[method, kind, first] = "" if mark == "yes" else notes[mark]
    return found


def cases() -> list[object]:
    """Every cell; most of those beside LoRA are `long`."""
    every = cells()
    return [
        pytest.param(cell, id="-".join(map(str, cell)), marks=() if short else pytest.mark.long)
        for number, cell in enumerate(every)
        for short in [cell[1] == "lora" or number % 7 == 0]
    ]


@pytest.mark.parametrize("cell", cases())
def test_the_cell_is_what_a_run_does(cell: Cell) -> None:
    method, kind, option, value = cell
    wanted = table()[method, kind, label(option, value)]
    assert sentence(outcome(method, kind, option, value)) == wanted


def test_every_option_is_in_the_table() -> None:
    left_out = {"model", "data", "method", "fine_tune_type", "output", "run_name", "resume"}
    assert {option for option, _ in rows()} == set(RunConfig.model_fields) - left_out


def test_most_of_it_works() -> None:
    marks = list(table().values())
    assert marks.count("") > len(marks) / 2
