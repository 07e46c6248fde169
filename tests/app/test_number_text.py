from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.viewmodels.number_text import neighbour, read_float, read_int, show_number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2e-4, "2e-4"),
        (5e-5, "5e-5"),
        (1e-8, "1e-8"),
        (1.25e-5, "1.25e-5"),
        (0.001, "0.001"),
        (0.1, "0.1"),
        (0.999, "0.999"),
        (0, "0"),
        (2.0, "2"),
        (2048, "2048"),
        (-1, "-1"),
        (2.5e7, "2.5e7"),
    ],
)
def test_a_number_is_shown_as_one_would_write_it(value: float, text: str) -> None:
    assert show_number(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_shown_reads_back_as_the_same_number(value: float) -> None:
    assert read_float(show_number(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-5", 1e-5), ("1E-5", 1e-5), (" .5 ", 0.5), ("0,5", 0.5), ("1_000", 1000.0)],
)
def test_numbers_are_read_as_typed(text: str, value: float) -> None:
    assert read_float(text) == value


@pytest.mark.parametrize("text", ["", "fast", "1e-", "nan", "inf", "1..2", "0x10"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a"):
        read_float(text)


@pytest.mark.parametrize(
    ("text", "value"), [("16", 16), ("1e3", 1000), ("2,048", 2048), ("-1", -1)]
)
def test_whole_numbers_are_read_as_typed(text: str, value: int) -> None:
    read = read_int(text)
    assert read == value
    assert isinstance(read, int)


@pytest.mark.parametrize("text", ["1.5", "one", "1,5", ""])
def test_fractions_are_no_whole_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        read_int(text)


@pytest.mark.parametrize(
    ("value", "steps", "moved"),
    [
        (2e-4, 1, 3e-4),
        (2e-4, -1, 1e-4),
        (1e-4, -1, 9e-5),
        (9e-5, 1, 1e-4),
        (0.1, -2, 0.08),
        (0, 1, 0.1),
    ],
)
def test_arrow_keys_move_the_leading_digit(value: float, steps: int, moved: float) -> None:
    assert neighbour(value, steps, whole=False) == moved


def test_arrow_keys_count_whole_numbers() -> None:
    assert neighbour(16, -10, whole=True) == 6
