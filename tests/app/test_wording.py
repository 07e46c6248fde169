import math

import pytest

from app.viewmodels.wording import count, duration, gigabytes, number, sentence_case


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (8.4, "8 s"), (59.6, "1 min 00 s"), (125, "2 min 05 s"), (11_220, "3 h 07 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (0.0, "0"),
        (1.23456, "1.235"),
        (-0.5, "-0.5"),
        (0.0002, "2.00e-4"),
        (12345.6, "12,346"),
        (3e7, "3.00e7"),
        (math.nan, "not a number"),
        (-math.inf, "minus infinite"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1.3, "1.30"), (0.5, "0.500"), (100.2, "100"), (0.0, "0"), (-2.0, "-2.00")]
)
def test_a_steady_figure_keeps_its_length(value: float, text: str) -> None:
    assert number(value, digits=3, steady=True) == text


def test_sizes_and_counts() -> None:
    assert gigabytes(310e6) == "310 MB"
    assert gigabytes(1.244e9) == "1.24 GB"
    assert count(1, "row") == "1 row"
    assert count(1200, "row") == "1,200 rows"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot read the file", "Cannot read the file"),
        ("train.jsonl has no rows", "train.jsonl has no rows"),
        ("head = flash is not allowed", "head = flash is not allowed"),
        ("", ""),
    ],
)
def test_sentences_begin_with_a_capital_but_names_do_not(text: str, shown: str) -> None:
    assert sentence_case(text) == shown
