"""The whole graph of a batch as one compiled function, for objectives linear in log-probabilities.

What the loss asks of each log-probability is then known before the forward, so layers, head and
their backward are one function of token ids and adapter, without the second forward that segments
need. On short rows this spares a GPU most of its waiting for Python.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import cast

import mlx.core as mx
import numpy as np

from trainer_core.backward.autograd import Gradients
from trainer_core.backward.layer_ranges import vjp
from trainer_core.model.lora import Adapter
from trainer_core.objectives.objective import Objective
from trainer_core.objectives.rows import Metrics, ScoredRow, Totals
from trainer_core.policy import Policy, Reference, rows_of
from trainer_core.streams.padded import PaddedStream

Compiled = Callable[[list[mx.array]], list[mx.array]]

# Shapes of batches; the least recently used one makes room.
_MOST_FUNCTIONS = 64
# Share of a batch. Another batch would cost more launches than this costs arithmetic.
_MOST_PADDING = 0.5


class CompiledGraph:
    """A backward path, see the module's docstring, without dropout.

    Every position of a batch goes through the head, which must go by chunks, so that all batches of
    one shape share a function.

    Attributes:
        compilations: how many functions were made so far.
    """

    def __init__(self) -> None:
        self.compilations = 0
        self._functions: OrderedDict[tuple[int, ...], Compiled] = OrderedDict()
        self._adapter: Adapter | None = None

    def __call__(
        self,
        policy: Policy,
        objective: Objective,
        rows: Sequence[ScoredRow],
        totals: Totals,
        reference: Reference | None,
        step: int,
    ) -> tuple[mx.array, Metrics, Gradients]:
        """See `autograd.whole_graph`."""
        assert objective.linear, "else the cotangents are not known before the forward"
        found = policy.streams(rows, step, padding=_MOST_PADDING)
        streams = cast("list[PaddedStream]", found)

        def loss(parts: list[mx.array]) -> tuple[mx.array, Metrics]:
            return objective.loss(rows_of(rows, streams, parts, reference), totals)

        sequences = [sequence for stream in streams for sequence in stream.sequences]
        anywhere = [mx.zeros(len(sequence.positions)) for sequence in sequences]
        _, wanted = mx.value_and_grad(loss)(anywhere)
        parts: list[mx.array] = []
        gradients: Gradients = {}
        for stream in streams:
            count = len(stream.sequences)
            logps, found = self._pull(policy, stream, mx.concatenate(wanted[:count]))
            wanted = wanted[count:]
            parts += [logps[mx.array(places)] for places in stream.places()]
            for name, gradient in found.items():
                gradients[name] = gradients[name] + gradient if name in gradients else gradient
        value, metrics = loss(parts)
        return value, metrics, gradients

    def _pull(
        self, policy: Policy, stream: PaddedStream, by_token: mx.array
    ) -> tuple[mx.array, Gradients]:
        """Log-probabilities of every position [B * T], and the adapter's gradients.

        Args:
            policy: what is trained.
            stream: some sequences side by side.
            by_token: gradients of the loss in the log-probabilities of all scored tokens [n].
        """
        if policy.adapter is not self._adapter:
            self._functions.clear()
            self._adapter = policy.adapter
        places = np.concatenate(stream.places())
        targets = np.zeros(stream.ids.size, dtype=np.int32)
        targets[places] = np.concatenate([sequence.targets for sequence in stream.sequences])
        cotangents = mx.zeros(stream.ids.size).at[mx.array(places)].add(by_token)
        parameters = policy.adapter.parameters()
        function = self._function(policy, stream.ids.shape, list(parameters))
        arrays = [mx.array(stream.ids), mx.array(targets), cotangents, *parameters.values()]
        try:
            logps, *found = function(arrays)
        finally:
            # While MLX traces, the layers hold tracers; they must not stay there.
            policy.adapter.assign(parameters)
        return logps, dict(zip(parameters, found, strict=True))

    def _function(self, policy: Policy, shape: tuple[int, ...], names: list[str]) -> Compiled:
        found = self._functions.get(shape)
        if found is None:
            found = self._functions[shape] = mx.compile(_backward(policy, names))
            self.compilations += 1
            if len(self._functions) > _MOST_FUNCTIONS:
                self._functions.popitem(last=False)
        self._functions.move_to_end(shape)
        return found


def _backward(policy: Policy, names: list[str]) -> Compiled:
    """From ids, targets, cotangents and adapter arrays to log-probabilities and gradients."""

    def call(arrays: list[mx.array]) -> list[mx.array]:
        ids, targets, cotangents, *values = arrays

        def logps(values: list[mx.array]) -> list[mx.array]:
            policy.adapter.assign(dict(zip(names, values, strict=True)))
            hidden = policy.stack.hidden(ids)
            return [policy.head(hidden.reshape(-1, hidden.shape[-1]), targets)]

        return vjp(logps, values, [cotangents], outputs=True)

    return call
