"""How long rows may be in tokens, before a tokenizer has seen them."""

from __future__ import annotations

from trainer_core.config import RunConfig
from trainer_core.data.example import Example
from trainer_core.data.load import RawData
from trainer_core.memory import Lengths


def guess_lengths(raw: RawData, config: RunConfig) -> list[Lengths]:
    """A generous guess at the longest row."""
    longest = max(raw.train, key=lambda example: example.characters, default=None)
    return [Lengths(64)] if longest is None else [lengths_of(longest, config)]


def lengths_of(example: Example, config: RunConfig) -> Lengths:
    """A generous guess at a row; text has about four characters to a token."""
    sequence = min(max(example.characters // 2, 64), config.max_seq_length)
    if config.packing:
        return Lengths(sequence, packed=config.max_seq_length)
    prompt = example.prompt_characters * sequence // max(example.characters, 1)
    return Lengths(sequence, prompt if example.is_pair else 0)
