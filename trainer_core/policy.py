"""The policy: model, adapter and head together, from token ids to log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from trainer_core.data.packing import pack
from trainer_core.heads.head import Head
from trainer_core.model.lora import Adapter
from trainer_core.model.stack import LayerStack
from trainer_core.objectives.rows import RowLogps, Scored, ScoredRow
from trainer_core.streams.packed import PackedStream
from trainer_core.streams.padded import PaddedStream, pad_groups
from trainer_core.streams.pair import PairStream, shares_prompt
from trainer_core.streams.stream import Stream

Reference = dict[int, tuple[float, float]]

# Tokens that run side by side without gradient. Attention holds all their scores on a CPU, and four
# long rows at once would need more memory than the backward of a segment does for one of them.
_VALUES_TOGETHER = 2048


@dataclass(frozen=True, slots=True)
class Policy:
    """A model with an adapter, ready to score rows.

    Attributes:
        stack: the model's parts.
        adapter: its trained layers.
        head: how log-probabilities are computed.
        share_prefix: run a pair's common prompt once.
        dropout_seed: seed of the adapter's dropout masks.
        bucket: lengths that run are multiples of it.
        joined: run a shared prompt and its answers in one row, see `joined` and `PairStream`.
        pack_tokens: rows that are trained together are packed until they have so many tokens; 0
            packs none.
        packs: run what is packed in one row, see `PackedStream`, instead of side by side.
    """

    stack: LayerStack
    adapter: Adapter
    head: Head
    share_prefix: bool = False
    dropout_seed: int = 0
    bucket: int = 1
    joined: bool = False
    pack_tokens: int = 0
    packs: bool = False

    def groups(self, rows: Sequence[ScoredRow]) -> list[list[ScoredRow]]:
        """The rows of a micro-batch that run at one time where memory is short."""
        if not self.pack_tokens:
            return [[row] for row in rows]
        lengths = [len(row.chosen.ids) for row in rows]
        return [[rows[i] for i in group] for group in pack(lengths, self.pack_tokens, seed=None)]

    def streams(
        self,
        rows: Sequence[ScoredRow],
        step: int | None = None,
        *,
        together: int | None = None,
        padding: float = 0.15,
    ) -> list[Stream]:
        """How these rows run: pairs with a shared prompt one by one, all else in padded batches.

        Args:
            rows: what to run.
            step: the optimiser step, which draws dropout masks; None means no dropout.
            together: the most tokens that run side by side; None sets no limit.
            padding: the share of a batch that may be padding.
        """
        found: list[Stream] = []
        others: list[Scored] = []
        stack, dropout = self.stack, self.adapter.dropout
        how: dict[str, Any] = {"seed": self.dropout_seed, "step": step, "bucket": self.bucket}
        for row in rows:
            if self.share_prefix and shares_prompt(row):
                found.append(PairStream(stack, dropout, row, joined=self.joined, **how))
            else:
                others += row.sequences
        lengths = [len(s.ids) - 1 for s in others]
        if self.pack_tokens and self.packs and together is None:
            for group in pack(lengths, self.pack_tokens, seed=None):
                packed = [others[index] for index in group]
                found.append(
                    PackedStream(stack, dropout, packed, seed=self.dropout_seed, step=step)
                )
            return found
        for group in pad_groups(lengths, padding, most_tokens=together):
            padded = [others[index] for index in group]
            found.append(PaddedStream(stack, dropout, padded, **how))
        return found

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
        streams = self.streams(rows, step)
        hidden = mx.concatenate([stream.whole() for stream in streams])
        logps = self.head(hidden, targets_of(streams))
        return rows_of(rows, streams, split(streams, logps), reference)

    def values(
        self, rows: Sequence[ScoredRow], reference: Reference | None = None
    ) -> list[RowLogps]:
        """The same without gradient and dropout, evaluated piece by piece in little memory."""
        streams = self.streams(rows, together=_VALUES_TOGETHER)
        parts: list[mx.array] = []
        for stream in streams:
            hidden = stream.whole()
            mx.eval(hidden)
            parts += split([stream], self.head.values(hidden, targets_of([stream])))
        return rows_of(rows, streams, parts, reference)


def targets_of(streams: Sequence[Stream]) -> mx.array:
    """The scored token ids [n] of all sequences of these streams, in order."""
    return mx.array(np.concatenate([s.targets for stream in streams for s in stream.sequences]))


def split(streams: Sequence[Stream], logps: mx.array) -> list[mx.array]:
    """Log-probabilities [n] of all sequences of these streams, cut into one vector for each."""
    parts: list[mx.array] = []
    start = 0
    for stream in streams:
        for sequence in stream.sequences:
            stop = start + len(sequence.positions)
            parts.append(logps[start:stop])
            start = stop
    return parts


def rows_of(
    rows: Sequence[ScoredRow],
    streams: Sequence[Stream],
    parts: Sequence[mx.array],
    reference: Reference | None,
) -> list[RowLogps]:
    """Put the vectors of `split` back into the rows they belong to."""
    sequences = [sequence for stream in streams for sequence in stream.sequences]
    found = {(s.row, s.side): part for s, part in zip(sequences, parts, strict=True)}
    return [
        RowLogps(
            row,
            found[row.example.row, 0],
            None if row.rejected is None else found[row.example.row, 1],
            None if reference is None else reference.get(row.example.row),
        )
        for row in rows
    ]
