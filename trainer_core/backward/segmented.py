"""The segmented backward pass: exact gradients with one range of layers in memory at a time.

The forward keeps only the states at the boundaries of ranges. Head and objective run eagerly on the
last one. Then each range is recomputed and differentiated, last to first, and its boundary freed:
one extra forward in all, whatever the size of a range. Rows stream one after the other, or packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from trainer_core.backward.autograd import Gradients
from trainer_core.backward.layer_ranges import EagerRanges, LayerRanges, carried, carrying, vjp
from trainer_core.in_flight import InFlight
from trainer_core.objectives.objective import Objective
from trainer_core.objectives.rows import Metrics, ScoredRow, Totals
from trainer_core.policy import Policy, Reference, rows_of, split, targets_of
from trainer_core.streams.stream import States, Stream

# Ranges of longer rows than this keep a GPU busy by themselves, and two of them need much memory.
_LONG_ROW = 8192


@dataclass(frozen=True, slots=True)
class Segmented:
    """A backward path with ranges of `size` layers.

    Attributes:
        size: layers in a range.
        ranges: how a range is run and differentiated.
        ahead: how many ranges the host may be ahead of the device, except on long rows; 0 for a
            CPU, which is the host.
    """

    size: int
    ranges: LayerRanges = field(default_factory=EagerRanges)
    ahead: int = 0

    def __call__(
        self,
        policy: Policy,
        objective: Objective,
        rows: Sequence[ScoredRow],
        totals: Totals,
        reference: Reference | None,
        step: int,
    ) -> tuple[mx.array, Metrics, Gradients]:
        """See `autograd.whole_graph`; the work on everything that comes back has begun."""
        loss = mx.array(0.0)
        metrics: Metrics = {}
        gradients: Gradients = {}
        for group in policy.groups(rows):
            share, shares = self._rows(policy, objective, group, totals, reference, step, gradients)
            loss = loss + share
            for name, value in shares.items():
                metrics[name] = metrics[name] + value if name in metrics else value
            mx.eval(loss, metrics)
        return loss, metrics, gradients

    def _rows(
        self,
        policy: Policy,
        objective: Objective,
        rows: Sequence[ScoredRow],
        totals: Totals,
        reference: Reference | None,
        step: int,
        gradients: Gradients,
    ) -> tuple[mx.array, Metrics]:
        """Loss and metric shares of some rows; their gradients are added to `gradients`."""
        length = max(len(sequence.ids) for row in rows for sequence in row.sequences)
        flow = InFlight(self.ahead if length <= _LONG_ROW else 0)
        streams = policy.streams(rows, step)
        boundaries = [self._forward(policy, stream, flow) for stream in streams]
        parts: list[mx.array] = []
        jacobians: list[mx.array] = []
        for stream, states in zip(streams, boundaries, strict=True):
            logps, jacobian = policy.head.values_and_jacobian(
                stream.hidden(states[-1]), targets_of([stream])
            )
            parts += split([stream], logps)
            jacobians.append(jacobian)

        def loss(parts: list[mx.array]) -> tuple[mx.array, Metrics]:
            return objective.loss(rows_of(rows, streams, parts, reference), totals)

        (share, shares), wanted = mx.value_and_grad(loss)(parts)
        flow.start([share, *shares.values(), *wanted])
        for stream, states in zip(streams, boundaries, strict=True):
            count = len(stream.sequences)
            by_token = mx.concatenate(wanted[:count])[:, None]
            wanted = wanted[count:]
            # Taken off their lists, so that each is freed once it has been used.
            cotangents = _below_head(stream, states.pop(), jacobians.pop(0), by_token)
            flow.start(cotangents)
            self._backward(policy, stream, states, cotangents, gradients, flow)
        return share, shares

    def _forward(self, policy: Policy, stream: Stream, flow: InFlight) -> list[States]:
        """The states at every boundary, first to last; the work on them has begun."""
        states = [stream.embed()]
        for start, stop in self._segments(policy):
            states.append(self.ranges.run(policy, stream, states[-1], start, stop))
            flow.start(carried(states[-1]))
        return states

    def _backward(
        self,
        policy: Policy,
        stream: Stream,
        boundaries: list[States],
        cotangents: list[mx.array],
        gradients: Gradients,
        flow: InFlight,
    ) -> None:
        """Walk from what the last layer carries down to the first layer."""
        for start, stop in reversed(self._segments(policy)):
            before = boundaries.pop()
            cotangents, found = self.ranges.pull(policy, stream, before, start, stop, cotangents)
            for name, gradient in found.items():
                gradients[name] = gradients[name] + gradient if name in gradients else gradient
            kept = [gradients[name] for name in found]
            flow.start([*cotangents, *kept], wait_for=kept or cotangents)

    def _segments(self, policy: Policy) -> list[tuple[int, int]]:
        layers = len(policy.stack)
        return [(start, min(start + self.size, layers)) for start in range(0, layers, self.size)]


def _below_head(
    stream: Stream, last: States, jacobian: mx.array, by_token: mx.array
) -> list[mx.array]:
    """Cotangents of what the last states carry.

    Args:
        stream: what ran.
        last: the states after the last layer.
        jacobian: of the log-probabilities in the hidden states, [n, D].
        by_token: gradient of the loss in the log-probabilities, [n, 1].
    """

    def hidden(arrays: list[mx.array]) -> list[mx.array]:
        return [stream.hidden(carrying(last, arrays))]

    return vjp(hidden, carried(last), [by_token.astype(jacobian.dtype) * jacobian])
