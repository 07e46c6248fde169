"""Where a step lies along the plots: at its number, its tokens, or its time."""

from __future__ import annotations

from typing import Literal

import numpy as np

from app.viewmodels.series import Floats

Axis = Literal["step", "tokens", "time"]
AXES: tuple[tuple[Axis, str], ...] = (("step", "Steps"), ("tokens", "Tokens"), ("time", "Time"))


class Places:
    """Tokens and training time up to each reported step.

    Attributes:
        epoch: of the last step.
    """

    def __init__(self) -> None:
        self._table = np.zeros((256, 3))
        self._size = 0
        self.epoch = 0.0

    @property
    def steps(self) -> Floats:
        """The steps that were reported [n]."""
        return self._table[: self._size, 0]

    def append(self, step: int, tokens: int, seconds: float, epoch: float) -> None:
        """Note a step; one that comes again, as after a resume, replaces all from it on.

        Args:
            step: its number.
            tokens: of the run up to it.
            seconds: that it took; unreported steps before it count as taking as long.
            epoch: passes over the data up to it.
        """
        if self._size and step <= self._table[self._size - 1, 0]:
            self._size = int(np.searchsorted(self.steps, step))
        if self._size == len(self._table):
            self._table = np.concatenate([self._table, np.zeros_like(self._table)])
        last_step, _, elapsed = self._table[self._size - 1] if self._size else (0.0, 0.0, 0.0)
        self._table[self._size] = (step, tokens, elapsed + seconds * (step - last_step))
        self._size += 1
        self.epoch = epoch

    def cut_after(self, step: int) -> None:
        """Forget the steps after one."""
        self._size = int(np.searchsorted(self.steps, step, side="right"))

    def x_of(self, steps: Floats, axis: Axis) -> Floats:
        """Where steps [n] lie."""
        if axis == "step" or not self._size:
            return steps
        known, values = self._known(axis)
        return np.interp(steps, known, values)

    def step_of(self, x: float, axis: Axis) -> float:
        """The step at a place."""
        if axis == "step" or not self._size:
            return x
        known, values = self._known(axis)
        return float(np.interp(x, values, known))

    def _known(self, axis: Axis) -> tuple[Floats, Floats]:
        column = 1 if axis == "tokens" else 2
        start = np.zeros(1)
        values = self._table[: self._size, column]
        return np.concatenate([start, self.steps]), np.concatenate([start, values])
