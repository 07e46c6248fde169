"""Stream: some sequences on their way through the layers, in as many pieces as the caller likes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

from trainer_core.model.stack import State
from trainer_core.objectives.rows import Scored

States = tuple[State, ...]


class Stream(Protocol):
    """Sequences that run together.

    `embed`, `run` over consecutive ranges of layers and `hidden` are one forward; running a range
    again from the same states gives the same arrays, dropout included.
    """

    @property
    def sequences(self) -> Sequence[Scored]:
        """The sequences, in the order of `hidden`."""
        ...

    def embed(self) -> States:
        """The states before the first layer."""
        ...

    def run(self, states: States, start: int, stop: int) -> States:
        """The states after layers start..stop-1."""
        ...

    def hidden(self, states: States) -> mx.array:
        """Final hidden states [n, D] that predict the scored tokens of all sequences, in order."""
        ...

    def whole(self) -> mx.array:
        """The same in one piece."""
        ...
