"""The first tour: four places of the window, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QObject, Signal

Place = Literal["form", "start", "pages", "export"]


@dataclass(frozen=True, slots=True)
class TourStep:
    """A place and what to say of it."""

    place: Place
    title: str
    text: str


STEPS = (
    TourStep(
        "form",
        "What is trained",
        "A model, a file of examples, a method: the form is the whole run. It begins with a small "
        "sample that trains in a few minutes, so nothing has to be filled in.",
    ),
    TourStep(
        "start",
        "Start, and watch it learn",
        "Curves move while it trains. Stop whenever you like: what was learned is saved, and the "
        "run can go on later.",
    ),
    TourStep(
        "pages",
        "Look closer",
        "Model finds and downloads models. Data shows each row as the model will see it. Try asks "
        "the model before and after, side by side. Runs keeps every run.",
    ),
    TourStep(
        "export",
        "Take it with you",
        "Export writes the adapter as mlx-lm reads it, and proves that it answers as it did here. "
        "Help, Tour shows all this again.",
    ),
)


class TourViewModel(QObject):
    """Which step of the tour is on show.

    Signals:
        changed: another step, or none.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._at: int | None = None

    @property
    def step(self) -> TourStep | None:
        """The step on show, or None."""
        return None if self._at is None else STEPS[self._at]

    @property
    def count_text(self) -> str:
        """`2 of 4`."""
        return "" if self._at is None else f"{self._at + 1} of {len(STEPS)}"

    @property
    def is_first(self) -> bool:
        """Whether there is no step before."""
        return self._at == 0

    @property
    def is_last(self) -> bool:
        """Whether no step follows."""
        return self._at == len(STEPS) - 1

    def begin(self) -> None:
        """Show the first step."""
        self._go(0)

    def next(self) -> None:
        """Show the next step; after the last one there is none."""
        if self._at is not None:
            self._go(None if self.is_last else self._at + 1)

    def back(self) -> None:
        """Show the step before."""
        if self._at:
            self._go(self._at - 1)

    def end(self) -> None:
        """Show no step any more."""
        self._go(None)

    def _go(self, at: int | None) -> None:
        if at != self._at:
            self._at = at
            self.changed.emit()
