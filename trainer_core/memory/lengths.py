"""The lengths of a row that decide what a step needs, and how the row then runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainer_core.config import PREFERENCE, RunConfig
from trainer_core.data.types import TokenisedExample

_BLOCK = 256  # queries that blocked attention takes at a time


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of a row.

    Attributes:
        sequence: all of them; for a pair, of its longer sequence.
        prompt: what a pair's sequences share.
        trained: how many of an SFT row are trained; None counts as all.
        packed: tokens of a row that is packed with such sequences; 0 if it is not.
    """

    sequence: int
    prompt: int = 0
    trained: int | None = None
    packed: int = 0

    @property
    def answer(self) -> int:
        """Tokens after the prompt."""
        return self.sequence - self.prompt


@dataclass(frozen=True, slots=True)
class Pieces:
    """How the rows of a micro-batch run.

    Attributes:
        tokens: that go through a layer, padding included.
        scored: that go through the head.
        squares: queries times keys of each piece that attends by itself.
        block: queries times keys of the largest block of queries that blocked attention takes.
        copied: keys of a shared prompt that are copied for the answers, and theirs.
    """

    tokens: int
    scored: int
    squares: tuple[int, ...]
    block: int
    copied: int = 0


def longest_of(rows: Iterable[TokenisedExample], config: RunConfig) -> list[Lengths]:
    """The rows that may need most: the longest sequence, most tokens, most scored tokens."""
    return hardest([_of(row) for row in rows], config)


def hardest(found: Sequence[Lengths], config: RunConfig) -> list[Lengths]:
    """Of the rows of these lengths the ones that may need most."""
    if not found:
        return []
    if config.packing:
        longest = max(row.sequence for row in found)
        total = min(sum(row.sequence for row in found), config.max_seq_length)
        return [Lengths(longest, packed=max(longest, total))]
    most = max(found, key=lambda row: pieces_of(row, config, 1).tokens)
    scored = max(found, key=lambda row: pieces_of(row, config, 1).scored)
    return list({max(found, key=lambda row: row.sequence), most, scored})


def assumed(config: RunConfig, longest: int | None = None) -> Lengths:
    """A row as long as can be, of whose prompt nothing is known."""
    sequence = min(longest or config.max_seq_length, config.max_seq_length)
    return Lengths(sequence, packed=config.max_seq_length if config.packing else 0)


def pieces_of(row: Lengths, config: RunConfig, bucket: int) -> Pieces:
    """How one row runs; lengths are padded to multiples of `bucket`."""
    length = _up(row.sequence, bucket)
    if row.packed:
        whole, rest = divmod(_up(row.packed, bucket), length)
        squares = [length * length] * whole + [rest * rest] * (rest > 0)
        return Pieces(whole * length + rest, row.packed, tuple(squares), _block(1, length))
    if config.method not in PREFERENCE:
        trained = row.sequence if row.trained is None else row.trained
        return Pieces(length, trained, (length * length,), _block(1, length))
    scored = 2 * row.answer
    if config.method == "orpo" and config.sft_scope == "full":
        scored += row.prompt
    if config.prefix_sharing == "off" or row.prompt == 0:
        return Pieces(2 * length, scored, (2 * length * length,), _block(2, length))
    prompt = row.prompt // bucket * bucket or row.prompt
    answer = _up(row.sequence - prompt, bucket)
    keys = prompt + answer
    squares = (prompt * prompt, 2 * answer * keys)
    block = max(_block(1, prompt), _block(2, answer, keys))
    return Pieces(prompt + 2 * answer, scored, squares, block, 2 * keys)


def _block(rows: int, queries: int, keys: int | None = None) -> int:
    return rows * min(_BLOCK, queries) * (keys or queries)


def _of(row: TokenisedExample) -> Lengths:
    if row.rejected is None:
        return Lengths(len(row.chosen), trained=row.supervised_tokens)
    return Lengths(max(len(row.chosen), len(row.rejected)), row.prompt_length)


def _up(length: int, bucket: int) -> int:
    return -(-length // bucket) * bucket
