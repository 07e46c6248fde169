"""A right-padded batch of sequences. Causal attention keeps the padding out of everything real."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from trainer_core.model.dropout import DropoutPlan, DropoutSwitch, RowKey
from trainer_core.model.stack import LayerStack
from trainer_core.objectives.rows import Scored
from trainer_core.streams.stream import States


class PaddedStream:
    """Sequences side by side.

    Args:
        stack: the model's parts.
        dropout: the adapter's switch.
        sequences: what runs together.
        seed: of the dropout masks.
        step: the optimiser step, or None for no dropout.
        bucket: the batch's width is a multiple of it, so that few different widths occur.

    Attributes:
        ids: what goes into the model [B, T], padded with zeros.
    """

    def __init__(
        self,
        stack: LayerStack,
        dropout: DropoutSwitch,
        sequences: Sequence[Scored],
        *,
        seed: int = 0,
        step: int | None = None,
        bucket: int = 1,
    ) -> None:
        self.sequences = sequences
        self._stack = stack
        self._dropout = dropout
        # The last token predicts nothing.
        inputs = [sequence.ids[:-1] for sequence in sequences]
        self._width = round_up(max(len(ids) for ids in inputs), bucket)
        self.ids = np.zeros((len(inputs), self._width), dtype=np.int32)
        for slot, ids in enumerate(inputs):
            self.ids[slot, : len(ids)] = ids
        self._plan: DropoutPlan | None = None
        if step is not None:
            keys = [RowKey(s.row, s.side, len(s.ids) - 1) for s in sequences]
            self._plan = DropoutPlan(seed, step, tuple(keys))

    def embed(self) -> States:
        """See `Stream`."""
        return (self._stack.embed(mx.array(self.ids)),)

    def run(self, states: States, start: int, stop: int) -> States:
        """See `Stream`."""
        with self._dropout.set(self._plan):
            return (self._stack.run(states[0], start, stop),)

    def hidden(self, states: States) -> mx.array:
        """See `Stream`."""
        return self._scored(self._stack.final(states[0].stream))

    def whole(self) -> mx.array:
        """See `Stream`."""
        with self._dropout.set(self._plan):
            return self._scored(self._stack.hidden(mx.array(self.ids)))

    def places(self) -> list[NDArray[np.int64]]:
        """For each sequence, the positions in the flattened batch that predict what is scored."""
        return [
            slot * self._width + sequence.positions - 1
            for slot, sequence in enumerate(self.sequences)
        ]

    def _scored(self, hidden: mx.array) -> mx.array:
        return hidden.reshape(-1, hidden.shape[-1])[mx.array(np.concatenate(self.places()))]


def round_up(length: int, bucket: int) -> int:
    """The next multiple of `bucket`."""
    return -(-length // bucket) * bucket


def pad_groups(
    lengths: Sequence[int], most_padding: float, most_tokens: int | None = None
) -> list[list[int]]:
    """Split sequences into groups that waste little on padding.

    Args:
        lengths: tokens of each sequence.
        most_padding: share of a batch that may be padding.
        most_tokens: of a group of more than one sequence, padding included; None sets no limit.

    Returns:
        Indices of each group. Sequences of very different lengths run apart, which costs less than
        padding the short ones.
    """
    groups: list[list[int]] = []
    real = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if groups:
            width = lengths[groups[-1][0]]
            size = len(groups[-1]) + 1
            small = most_tokens is None or width * size <= most_tokens
            if small and 1 - (real + lengths[index]) / (width * size) <= most_padding:
                groups[-1].append(index)
                real += lengths[index]
                continue
        groups.append([index])
        real = lengths[index]
    return groups
