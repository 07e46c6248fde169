"""A pair whose prompt runs once: the prompt alone, then both answers reading its keys and values.

The hidden state of the prompt's last token predicts the first token of both answers, and gradients
of both reach the prompt through its keys and values, so the result is that of two forwards.

With buckets, what the prompt has over a multiple of the bucket runs with both answers, and the
answers are padded to a multiple: padding after the shared part would be attended to, so it is cut.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from trainer_core.model.dropout import DropoutPlan, DropoutSwitch, RowKey
from trainer_core.model.joined import join, run_joined
from trainer_core.model.prefix_cache import Capture, Continue
from trainer_core.model.stack import LayerStack
from trainer_core.objectives.rows import Scored, ScoredRow
from trainer_core.streams.padded import round_up
from trainer_core.streams.stream import States

# A row of more tokens keeps a GPU busy in either way, and joined it needs more memory.
_LONGEST_JOINED = 4096

# Dropout draws one mask for the shared prompt, beside sides 0 and 1 of the answers.
_PROMPT_SIDE = 2


def shares_prompt(row: ScoredRow) -> bool:
    """Whether both sequences of a row start with the same tokens and go on after them."""
    if row.rejected is None:
        return False
    length = row.example.prompt_length
    chosen, rejected = row.chosen.ids, row.rejected.ids
    # An answer of one token has no input of its own: the prompt predicts it.
    return (
        length > 0
        and min(len(chosen), len(rejected)) > length
        and max(len(chosen), len(rejected)) > length + 1
        and bool(np.array_equal(chosen[:length], rejected[:length]))
    )


class PairStream:
    """A pair with its prompt in common.

    Args:
        stack: the model's parts.
        dropout: the adapter's switch.
        row: a pair for which `shares_prompt` holds.
        seed: of the dropout masks.
        step: the optimiser step, or None for no dropout.
        bucket: shared part and width of the answers are multiples of it, so that few different
            lengths occur. A prompt shorter than that is shared as it is.
        joined: run a short prompt and its answers in one row where their masks allow it. The
            model must allow it, see `joined`, and the adapter have no dropout.
    """

    def __init__(
        self,
        stack: LayerStack,
        dropout: DropoutSwitch,
        row: ScoredRow,
        *,
        seed: int = 0,
        step: int | None = None,
        bucket: int = 1,
        joined: bool = False,
    ) -> None:
        assert row.rejected is not None, "only pairs share a prompt"
        self.sequences = (row.chosen, row.rejected)
        self._stack = stack
        self._dropout = dropout
        prompt_length = row.example.prompt_length
        self._shared = prompt_length // bucket * bucket or prompt_length
        answers = [sequence.ids[self._shared : -1] for sequence in self.sequences]
        self._width = round_up(max(len(answer) for answer in answers), bucket)
        self._ids = np.zeros((2, self._width), dtype=np.int32)
        for side, answer in enumerate(answers):
            self._ids[side, : len(answer)] = answer
        self._joined = joined
        self._plans: tuple[DropoutPlan | None, DropoutPlan | None] = (None, None)
        if step is not None:
            number = row.example.row
            prompt = RowKey(number, _PROMPT_SIDE, self._shared)
            keys = [RowKey(number, side, len(answer)) for side, answer in enumerate(answers)]
            self._plans = (
                DropoutPlan(seed, step, (prompt,)),
                DropoutPlan(seed, step, tuple(keys)),
            )

    def embed(self) -> States:
        """See `Stream`: a joined state, or the prompt's [1, P, D] and the answers' [2, R, D]."""
        ids = mx.array(self.sequences[0].ids[: self._shared])[None]
        prompt = self._stack.embed(ids, offset=0)
        answers = self._stack.embed(mx.array(self._ids), offset=self._shared)
        joins = self._joined and self._shared + 2 * self._width <= _LONGEST_JOINED
        row = join(prompt, answers) if joins else None
        return (prompt, answers) if row is None else (row,)

    def run(self, states: States, start: int, stop: int) -> States:
        """See `Stream`."""
        if len(states) == 1:
            return (run_joined(self._stack, states[0], start, stop),)
        prompt, answers = states
        captures = [Capture() for _ in range(start, stop)]
        with self._dropout.set(self._plans[0]):
            prompt = self._stack.run(prompt, start, stop, captures)
        with self._dropout.set(self._plans[1]):
            caches = [Continue(capture, self._shared) for capture in captures]
            answers = self._stack.run(answers, start, stop, caches)
        return prompt, answers

    def hidden(self, states: States) -> mx.array:
        """See `Stream`."""
        final = [self._stack.final(state.stream) for state in states]
        # The prompt's rows, then those of each answer, joined or not.
        table = mx.concatenate([hidden.reshape(-1, hidden.shape[-1]) for hidden in final])
        places = [self._places(side, sequence) for side, sequence in enumerate(self.sequences)]
        return table[mx.array(np.concatenate(places))]

    def whole(self) -> mx.array:
        """See `Stream`."""
        return self.hidden(self.run(self.embed(), 0, len(self._stack)))

    def _places(self, side: int, sequence: Scored) -> np.ndarray:
        """Rows of the table of prompt and answers that predict a sequence's scored tokens."""
        before = sequence.positions - 1
        # In the table, answer `side` starts after the prompt and `side` answers.
        return np.where(before < self._shared, before, before + side * self._width)
