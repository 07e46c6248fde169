"""How long rows may be in tokens, before a tokenizer has seen them."""

from __future__ import annotations

from trainer_core.config import RunConfig
from trainer_core.data.load import RawData
from trainer_core.memory import Lengths


def guess_lengths(raw: RawData, config: RunConfig) -> list[Lengths]:
    """A generous guess at the longest row; text has about four characters to a token."""
    longest = max(raw.train, key=lambda example: example.characters, default=None)
    if longest is None:
        return [Lengths(64)]
    sequence = min(max(longest.characters // 2, 64), config.max_seq_length)
    prompt = longest.prompt_characters * sequence // max(longest.characters, 1)
    if config.packing:
        return [Lengths(sequence, packed=config.max_seq_length)]
    return [Lengths(sequence, prompt if longest.is_pair else 0)]
