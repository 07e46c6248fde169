"""The policy: model, adapter and head together, from token ids to log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from trainer_core.heads.head import Head
from trainer_core.model.dropout import DropoutPlan, RowKey
from trainer_core.model.lora import Adapter
from trainer_core.model.stack import LayerStack
from trainer_core.objectives.rows import RowLogps, Scored, ScoredRow

Reference = dict[int, tuple[float, float]]

# Sequences whose padding stays below this share of the batch run together.
_MOST_PADDING = 0.15


@dataclass(frozen=True, slots=True)
class Policy:
    """A model with an adapter, ready to score rows.

    Attributes:
        stack: the model's parts.
        adapter: its trained layers.
        head: how log-probabilities are computed.
        dropout_seed: seed of the adapter's dropout masks.
    """

    stack: LayerStack
    adapter: Adapter
    head: Head
    dropout_seed: int = 0

    def score(
        self,
        rows: Sequence[ScoredRow],
        reference: Reference | None = None,
        *,
        step: int | None = None,
    ) -> list[RowLogps]:
        """Log-probabilities of the scored tokens, differentiable in the adapter's arrays.

        Args:
            rows: what to score.
            reference: row number -> DPO's reference sums, for rows that need them.
            step: the optimiser step, which draws dropout masks; None means no dropout.
        """
        sequences = [sequence for row in rows for sequence in row.sequences]
        hidden = [self._hidden(group, sequences, step) for group in pad_groups(_lengths(sequences))]
        order = [index for group in pad_groups(_lengths(sequences)) for index in group]
        return self._split(rows, sequences, order, mx.concatenate(hidden), reference, gradient=True)

    def values(
        self, rows: Sequence[ScoredRow], reference: Reference | None = None
    ) -> list[RowLogps]:
        """The same without gradient and dropout, evaluated group by group in little memory."""
        sequences = [sequence for row in rows for sequence in row.sequences]
        groups = pad_groups(_lengths(sequences))
        hidden = []
        for group in groups:
            part = self._hidden(group, sequences, None)
            mx.eval(part)
            hidden.append(part)
        order = [index for group in groups for index in group]
        return self._split(
            rows, sequences, order, mx.concatenate(hidden), reference, gradient=False
        )

    def _hidden(self, group: list[int], sequences: list[Scored], step: int | None) -> mx.array:
        """Hidden states [n, D] that predict the scored tokens of these sequences, in order."""
        inputs = [sequences[index].ids[:-1] for index in group]
        width = max(len(ids) for ids in inputs)
        batch = np.zeros((len(inputs), width), dtype=np.int32)
        for slot, ids in enumerate(inputs):
            batch[slot, : len(ids)] = ids
        if step is not None:
            keys = tuple(
                RowKey(sequences[index].row, sequences[index].side, len(ids))
                for index, ids in zip(group, inputs, strict=True)
            )
            self.adapter.dropout.plan = DropoutPlan(self.dropout_seed, step, keys)
        try:
            hidden = self.stack.hidden(mx.array(batch))
        finally:
            self.adapter.dropout.plan = None
        places = [slot * width + sequences[index].positions - 1 for slot, index in enumerate(group)]
        flat = hidden.reshape(-1, hidden.shape[-1])
        return flat[mx.array(np.concatenate(places))]

    def _split(
        self,
        rows: Sequence[ScoredRow],
        sequences: list[Scored],
        order: list[int],
        hidden: mx.array,
        reference: Reference | None,
        *,
        gradient: bool,
    ) -> list[RowLogps]:
        targets = mx.array(np.concatenate([sequences[index].targets for index in order]))
        logps = self.head(hidden, targets) if gradient else self.head.values(hidden, targets)
        parts: dict[int, mx.array] = {}
        start = 0
        for index in order:
            stop = start + len(sequences[index].positions)
            parts[index] = logps[start:stop]
            start = stop
        return rows_from_parts(rows, [parts[index] for index in range(len(sequences))], reference)


def rows_from_parts(
    rows: Sequence[ScoredRow], parts: list[mx.array], reference: Reference | None
) -> list[RowLogps]:
    """Put the log-probabilities of all sequences, in their order, back into rows."""
    found: list[RowLogps] = []
    index = 0
    for row in rows:
        rejected = None if row.rejected is None else parts[index + 1]
        known = None if reference is None else reference.get(row.example.row)
        found.append(RowLogps(row, parts[index], rejected, known))
        index += len(row.sequences)
    return found


def pad_groups(lengths: Sequence[int]) -> list[list[int]]:
    """Split sequences into groups that waste little on padding.

    Args:
        lengths: tokens of each sequence.

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
            if 1 - (real + lengths[index]) / (width * size) <= _MOST_PADDING:
                groups[-1].append(index)
                real += lengths[index]
                continue
        groups.append([index])
        real = lengths[index]
    return groups


def _lengths(sequences: list[Scored]) -> list[int]:
    return [len(sequence.ids) - 1 for sequence in sequences]
