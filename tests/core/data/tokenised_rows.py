"""Rows and questions to them that the tests of tokenising share."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.data.types import Dataset, Sequence, TokenisedExample

Make = Callable[..., ChatTokenizer]
Run = Callable[..., Dataset]

QUESTION, ANSWER = "What is the capital of France?", "Paris"
SINGLE = {"prompt": QUESTION, "completion": ANSWER}
PAIR = {"prompt": QUESTION, "chosen": "Paris.", "rejected": "It is Paris, I think."}
ROUNDS = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "more"},
        {"role": "assistant", "content": "sure"},
    ]
}
KINDS = ("bytes", "sentencepiece", "legacy")


def spans(tokenizer: ChatTokenizer, sequence: Sequence) -> list[str]:
    """Text of each run of trained tokens, as it stands in the whole text."""
    runs = itertools.groupby(range(len(sequence)), key=lambda t: bool(sequence.trained[t]))
    found = []
    for on, run in runs:
        places = list(run)
        if on:
            before = tokenizer.decode(sequence.ids[: places[0]].tolist())
            upto = tokenizer.decode(sequence.ids[: places[-1] + 1].tolist())
            found.append(upto[len(before) :])
    return found


def whole(tokenizer: ChatTokenizer, sequence: Sequence) -> str:
    return tokenizer.decode(sequence.ids.tolist())


def check(row: TokenisedExample, limit: int = 2048) -> None:
    """What holds for every row there is."""
    for sequence in filter(None, (row.chosen, row.rejected)):
        assert sequence.ids.dtype == np.int32
        assert sequence.trained.dtype == np.bool_
        assert sequence.ids.shape == sequence.trained.shape
        assert 2 <= len(sequence) <= limit
        assert not sequence.trained[0]
        assert sequence.trained.any()
    if row.rejected is not None:
        p = row.prompt_length
        assert p >= 1
        assert row.chosen.ids[:p].tolist() == row.rejected.ids[:p].tolist()
        for sequence in (row.chosen, row.rejected):
            assert not sequence.trained[:p].any()
            assert sequence.trained[p:].all()
            assert len(sequence) > p
        assert row.chosen.ids.tolist() != row.rejected.ids.tolist()
