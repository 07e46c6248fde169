"""Markdown tables of figures."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Table:
    """A title, a head and rows; a shorter row is filled up with empty cells."""

    title: str
    head: list[str]
    rows: list[list[str]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [self.title, "", _line(self.head), _line(["---"] * len(self.head))]
        lines += [_line(row + [""] * (len(self.head) - len(row))) for row in self.rows]
        return "\n".join(lines) + "\n"


def seconds(value: float) -> str:
    """Three figures: 0.0123, 1.23, 12.3."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def gigabytes(count: int) -> str:
    """10**9 bytes with three decimals."""
    return f"{count / 1e9:.3f}"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
