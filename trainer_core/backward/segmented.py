"""The segmented backward pass: exact gradients with one range of layers in memory at a time.

The forward keeps only the states at the boundaries of ranges. Head and objective run eagerly on the
last one. Then each range is recomputed and differentiated, last to first, and its boundary freed:
one extra forward in all, whatever the size of a range. Rows stream one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from trainer_core.backward.autograd import Gradients
from trainer_core.objectives.objective import Objective
from trainer_core.objectives.rows import Metrics, ScoredRow, Totals
from trainer_core.policy import Policy, Reference, rows_of, split, targets_of
from trainer_core.streams.stream import States, Stream


@dataclass(frozen=True, slots=True)
class Segmented:
    """A backward path with ranges of `size` layers."""

    size: int

    def __call__(
        self,
        policy: Policy,
        objective: Objective,
        rows: Sequence[ScoredRow],
        totals: Totals,
        reference: Reference | None,
        step: int,
    ) -> tuple[mx.array, Metrics, Gradients]:
        """See `autograd.whole_graph`; everything that comes back is evaluated."""
        loss = mx.array(0.0)
        metrics: Metrics = {}
        gradients: Gradients = {}
        for row in rows:
            share, shares = self._row(policy, objective, row, totals, reference, step, gradients)
            loss = loss + share
            for name, value in shares.items():
                metrics[name] = metrics[name] + value if name in metrics else value
            mx.eval(loss, metrics)
        return loss, metrics, gradients

    def _row(
        self,
        policy: Policy,
        objective: Objective,
        row: ScoredRow,
        totals: Totals,
        reference: Reference | None,
        step: int,
        gradients: Gradients,
    ) -> tuple[mx.array, Metrics]:
        """Loss and metric shares of one row; its gradients are added to `gradients`."""
        streams = policy.streams([row], step)
        boundaries = [self._forward(policy, stream) for stream in streams]
        parts: list[mx.array] = []
        jacobians: list[mx.array] = []
        for stream, states in zip(streams, boundaries, strict=True):
            hidden = stream.hidden(states[-1])
            logps, jacobian = policy.head.values_and_jacobian(hidden, targets_of([stream]))
            parts += split([stream], logps)
            jacobians.append(jacobian)

        def loss(parts: list[mx.array]) -> tuple[mx.array, Metrics]:
            return objective.loss(rows_of([row], streams, parts, reference), totals)

        (share, shares), cotangents = mx.value_and_grad(loss)(parts)
        mx.eval(share, shares, cotangents)
        start = 0
        for stream, states, jacobian in zip(streams, boundaries, jacobians, strict=True):
            stop = start + len(stream.sequences)
            wanted = mx.concatenate(cotangents[start:stop])[:, None].astype(jacobian.dtype)
            self._backward(policy, stream, states, wanted * jacobian, gradients)
            start = stop
        return share, shares

    def _forward(self, policy: Policy, stream: Stream) -> list[States]:
        """The states at every boundary, first to last, evaluated."""
        states = [stream.embed()]
        for start, stop in self._ranges(policy):
            after = stream.run(states[-1], start, stop)
            mx.eval(_carried(after))
            states.append(after)
        return states

    def _backward(
        self,
        policy: Policy,
        stream: Stream,
        boundaries: list[States],
        cotangent: mx.array,
        gradients: Gradients,
    ) -> None:
        """Walk from the hidden states' cotangent [n, D] down to the first layer."""
        last = boundaries.pop()

        def hidden(carried: list[mx.array]) -> mx.array:
            return stream.hidden(_carrying(last, carried))

        _, cotangents = _vjp(hidden, _carried(last), [cotangent])
        mx.eval(cotangents)
        for start, stop in reversed(self._ranges(policy)):
            before = boundaries.pop()
            names = policy.adapter.names(start, stop)
            parameters = policy.adapter.parameters()
            # The embedding is frozen: nothing below the first layer wants a cotangent.
            inputs = _carried(before) if start > 0 else []

            def run(
                arrays: list[mx.array],
                at: tuple[int, int] = (start, stop),
                before: States = before,
                names: list[str] = names,
                count: int = len(inputs),
            ) -> list[mx.array]:
                states = _carrying(before, arrays[:count]) if count else before
                policy.adapter.assign(dict(zip(names, arrays[count:], strict=True)))
                return _carried(stream.run(states, *at))

            arrays = [*inputs, *(parameters[name] for name in names)]
            try:
                _, found = _vjp(run, arrays, cotangents)
            finally:
                policy.adapter.assign(parameters)
            cotangents = found[: len(inputs)]
            for name, gradient in zip(names, found[len(inputs) :], strict=True):
                gradients[name] = gradients[name] + gradient if name in gradients else gradient
            mx.eval(cotangents, [gradients[name] for name in names])

    def _ranges(self, policy: Policy) -> list[tuple[int, int]]:
        layers = len(policy.stack)
        return [(start, min(start + self.size, layers)) for start in range(0, layers, self.size)]


def _vjp(
    function: object, primals: list[mx.array], cotangents: list[mx.array]
) -> tuple[list[mx.array], list[mx.array]]:
    """mx.vjp for a function of a list of arrays."""

    def flat(*arrays: mx.array) -> object:
        return function(list(arrays))  # type: ignore[operator]

    if not primals:
        return [], []
    outputs, gradients = mx.vjp(flat, primals, cotangents)
    return list(outputs), list(gradients)


def _carried(states: States) -> list[mx.array]:
    return [array for state in states for array in state.carried()]


def _carrying(states: States, arrays: list[mx.array]) -> States:
    found = []
    start = 0
    for state in states:
        stop = start + len(state.carried())
        found.append(state.carrying(arrays[start:stop]))
        start = stop
    return tuple(found)
