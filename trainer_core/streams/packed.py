"""Sequences behind one another in one row, without padding. See `in_a_row`."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from trainer_core.model.dropout import DropoutPlan, DropoutSwitch, RowKey
from trainer_core.model.in_a_row import sequences_in_force
from trainer_core.model.stack import LayerStack
from trainer_core.objectives.rows import Scored
from trainer_core.streams.stream import States


class PackedStream:
    """Sequences in one row.

    Args:
        stack: the model's parts; the model must allow it, see `CheckedStack.packs`.
        dropout: the adapter's switch.
        sequences: what runs together.
        seed: of the dropout masks, which are those of the same sequences side by side.
        step: the optimiser step, or None for no dropout.
    """

    def __init__(
        self,
        stack: LayerStack,
        dropout: DropoutSwitch,
        sequences: Sequence[Scored],
        *,
        seed: int = 0,
        step: int | None = None,
    ) -> None:
        self.sequences = sequences
        self._stack = stack
        self._dropout = dropout
        # The last token of each predicts nothing.
        self._lengths = [len(sequence.ids) - 1 for sequence in sequences]
        self._ids = np.concatenate([sequence.ids[:-1] for sequence in sequences])
        self._plan: DropoutPlan | None = None
        if step is not None:
            keys = [
                RowKey(sequence.row, sequence.side, length)
                for sequence, length in zip(sequences, self._lengths, strict=True)
            ]
            self._plan = DropoutPlan(seed, step, tuple(keys), in_a_row=True)

    def embed(self) -> States:
        """See `Stream`."""
        return (self._stack.embed(mx.array(self._ids)[None]),)

    def run(self, states: States, start: int, stop: int) -> States:
        """See `Stream`."""
        with self._dropout.set(self._plan), sequences_in_force(self._lengths):
            return (self._stack.run(states[0], start, stop),)

    def hidden(self, states: States) -> mx.array:
        """See `Stream`."""
        return self._scored(self._stack.final(states[0].stream))

    def whole(self) -> mx.array:
        """See `Stream`."""
        with self._dropout.set(self._plan), sequences_in_force(self._lengths):
            return self._scored(self._stack.hidden(mx.array(self._ids)[None]))

    def _scored(self, hidden: mx.array) -> mx.array:
        starts = np.cumsum([0, *self._lengths[:-1]])
        places = [
            start + sequence.positions - 1
            for start, sequence in zip(starts, self.sequences, strict=True)
        ]
        return hidden[0][mx.array(np.concatenate(places))]
