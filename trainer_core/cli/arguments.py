"""Arguments that several commands share, and the types of numbers among them."""

from __future__ import annotations

import argparse
import math


def add_config(parser: argparse.ArgumentParser) -> None:
    """Declare CONFIG and --set."""
    parser.add_argument(
        "config", nargs="?", metavar="CONFIG", help="YAML or JSON file of options; may be left out"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set one option, over the file's value; may be given several times",
    )


def positive(text: str) -> int:
    """A whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return value


def fraction_or_more(text: str) -> float:
    """A finite number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 0")
    return value
