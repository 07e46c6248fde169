"""Numbers as people type and read them: 2e-4 stays 2e-4, 2048 stays 2048, 1,5 is understood."""

from __future__ import annotations

import math


def show_number(value: float) -> str:
    """The shortest text that reads back as `value`: 0.1, 2e-4, 2048."""
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e6):
        return str(int(value))
    if 1e-3 <= abs(value) < 1e6:
        return repr(float(value))
    exact = (f"{value:.{digits}e}" for digits in range(17))
    mantissa, exponent = next(text for text in exact if float(text) == value).split("e")
    return f"{mantissa}e{int(exponent)}"


def read_float(text: str) -> float:
    """A finite float from typed text; a lone comma is a decimal comma.

    Raises:
        ValueError: with a sentence for the user.
    """
    cleaned = text.strip().replace("_", "").replace("\N{MINUS SIGN}", "-")
    if cleaned.count(",") == 1 and "." not in cleaned:
        cleaned = cleaned.replace(",", ".")
    try:
        value = float(cleaned)
    except ValueError:
        raise ValueError("must be a number, such as 0.1 or 2e-4") from None
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def read_int(text: str) -> int:
    """A whole number from typed text; 1e3 and 2_048 count, 1.5 does not.

    Raises:
        ValueError: with a sentence for the user.
    """
    try:
        value = read_float(text.replace(",", "") if _thousands(text) else text)
    except ValueError:
        raise ValueError("must be a whole number") from None
    if not value.is_integer():
        raise ValueError("must be a whole number")
    return int(value)


def _thousands(text: str) -> bool:
    head, *tail = text.strip().split(",")
    return bool(tail) and head.isdigit() and all(len(t) == 3 and t.isdigit() for t in tail)


def neighbour(value: float, steps: int, *, whole: bool) -> float:
    """`value` moved by `steps` in its leading digit, or by `steps` itself for whole numbers.

    The arrow keys of a number field use it: 2e-4 goes to 3e-4 and 1e-4, and 1e-4 down to 9e-5.
    """
    if whole:
        return int(value) + steps
    if value == 0:
        return max(0.0, 0.1 * steps)
    for _ in range(abs(steps)):
        exponent = math.floor(math.log10(abs(value)) + 1e-12)
        if steps < 0 and math.isclose(abs(value), 10.0**exponent):
            exponent -= 1
        value += math.copysign(1, steps) * 10.0**exponent
        value = float(f"{value:.12g}")
    return value
