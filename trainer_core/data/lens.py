"""The mask lens: a row token by token, and what becomes of each: trained, read only, or cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from trainer_core.config import RunConfig
from trainer_core.data import types
from trainer_core.data.example import Example
from trainer_core.data.tokenise import tokenise_examples
from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.data.types import TokenisedExample

_UNLIMITED = 1 << 30
_BEFORE = 6
"""Tokens decoded in front of one, for its spaces and characters depend on what it follows."""
_LONGEST_CHARACTER = 4
"""Bytes, and so tokens, that a character may take."""


class Fate(Enum):
    """What becomes of a token."""

    READ = "read"
    TRAINED = "trained"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class LensToken:
    """A token, or the few that make one character together.

    Attributes:
        text: what it stands for, as it follows the tokens before.
        fate: what becomes of it.
        special: whether it is a mark of the template or the tokenizer.
        ids: its ids.
    """

    text: str
    fate: Fate
    special: bool
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LensRow:
    """A row as the model sees it.

    Attributes:
        prompt: of a pair what both answers share, else the whole row.
        chosen: of a pair the preferred answer, else empty.
        rejected: of a pair the other answer, else empty.
        problem: why the row is not used under this configuration, or an empty string.
        lengths: tokens of each sequence before anything is cut.
        kept: tokens of each sequence that stay.
    """

    prompt: tuple[LensToken, ...]
    chosen: tuple[LensToken, ...] = ()
    rejected: tuple[LensToken, ...] = ()
    problem: str = ""
    lengths: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()

    @property
    def is_pair(self) -> bool:
        """True if there are two answers to one prompt."""
        return bool(self.chosen)


def look_at(example: Example, config: RunConfig, tokenizer: ChatTokenizer) -> LensRow:
    """The tokens of a row and what training makes of them.

    Args:
        example: the row.
        config: the run.
        tokenizer: the model's.

    Raises:
        ModelError: the row needs a chat template and the model has none that works.
    """
    whole = tokenise_examples([example], _without_limit(config), tokenizer)
    if not whole.rows:
        problem = (whole.refused + whole.skipped)[0]
        return LensRow((), problem=problem.what)
    row = whole.rows[0]
    limited = tokenise_examples([example], config, tokenizer)
    kept = limited.rows[0] if limited.rows else None
    problem = "" if kept else (limited.refused + limited.skipped)[0].what
    chosen = _fates(row.chosen, row, kept.chosen if kept else None, kept, tokenizer)
    lengths = _lengths(row)
    if row.rejected is None:
        tokens = _tokens(row.chosen.ids.tolist(), chosen, tokenizer)
        return LensRow(tokens, (), (), problem, lengths, _lengths(kept))
    rejected = _fates(row.rejected, row, kept.rejected if kept else None, kept, tokenizer)
    n = row.prompt_length
    good, bad = row.chosen.ids.tolist(), row.rejected.ids.tolist()
    return LensRow(
        _tokens(good[:n], chosen[:n], tokenizer),
        _tokens(good, chosen, tokenizer, first=n),
        _tokens(bad, rejected, tokenizer, first=n),
        problem,
        lengths,
        _lengths(kept),
    )


def _without_limit(config: RunConfig) -> RunConfig:
    return config.model_copy(update={"max_seq_length": _UNLIMITED, "overlong": "truncate"})


def _lengths(row: TokenisedExample | None) -> tuple[int, ...]:
    if row is None:
        return ()
    return tuple(len(s) for s in (row.chosen, row.rejected) if s is not None)


def _fates(
    whole: types.Sequence,
    row: TokenisedExample,
    part: types.Sequence | None,
    kept: TokenisedExample | None,
    tokenizer: ChatTokenizer,
) -> list[Fate]:
    """What becomes of each token of a sequence, given what is left of it within the limit."""
    trained = whole.trained.tolist()
    if part is None or kept is None:
        return [Fate.CUT] * len(trained)
    fates = [Fate.TRAINED if t else Fate.READ for t in trained]
    lost = row.prompt_length - kept.prompt_length
    # BOS always stays, so what is lost of a prompt lies after it.
    first = int(len(whole) > 0 and int(whole.ids[0]) == tokenizer.bos_id)
    for place in range(first, first + lost):
        fates[place] = Fate.CUT
    for place in range(lost + len(part), len(fates)):
        fates[place] = Fate.CUT
    return fates


def _tokens(
    ids: Sequence[int], fates: Sequence[Fate], tokenizer: ChatTokenizer, first: int = 0
) -> tuple[LensToken, ...]:
    """Ids from `first` on with their texts. Tokens that are part of one character stay together."""
    found: list[LensToken] = []
    begin = first
    for end in range(first + 1, len(ids) + 1):
        special = ids[end - 1] in tokenizer.special_ids
        text = _text(ids, begin, end, tokenizer)
        broken = text.endswith("�") and end - begin < _LONGEST_CHARACTER and not special
        if broken and end < len(ids) and fates[end] is fates[begin]:
            continue
        found.append(LensToken(text, fates[begin], special, tuple(ids[begin:end])))
        begin = end
    return tuple(found)


def _text(ids: Sequence[int], begin: int, end: int, tokenizer: ChatTokenizer) -> str:
    """What the ids from `begin` to `end` add to the text before them."""
    lead = max(0, begin - _BEFORE)
    before = tokenizer.decode(ids[lead:begin])
    whole = tokenizer.decode(ids[lead:end])
    if whole.startswith(before):
        return whole[len(before) :]
    return tokenizer.decode(ids[begin:end])  # `before` began or ended inside a character
