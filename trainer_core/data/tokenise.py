"""Examples into token ids and masks, in blocks, so that the tokenizer gets many texts at once.

The border between prompt and answer never falls inside a token, and both sequences of a pair start
with the very same prompt tokens. Masks are made from lengths; no token id ever decides what is
trained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from trainer_core.config import RunConfig
from trainer_core.data import types
from trainer_core.data.example import BadRow, Example, as_turns
from trainer_core.data.render import (
    NOTES,
    Piece,
    RenderedPair,
    RenderedRow,
    render_pair,
    render_row,
)
from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.data.truncate import cut_left, fit
from trainer_core.data.types import Problem, TokenisedExample

_BLOCK = 256

Ids = list[int]


@dataclass
class Tokenised:
    """What became of a list of examples.

    Attributes:
        rows: those that can be trained, in order.
        skipped: rows with nothing to learn or longer than allowed.
        refused: rows that the chat template does not take.
        notes: how often each kind of warning applied.
    """

    rows: list[TokenisedExample] = field(default_factory=list)
    skipped: list[Problem] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)


def tokenise_examples(
    examples: Sequence[Example],
    config: RunConfig,
    tokenizer: ChatTokenizer,
    progress: Callable[[int], None] | None = None,
) -> Tokenised:
    """Token ids and masks of examples.

    Args:
        examples: rows in order; a row's number is its place here.
        config: method, prompt_format, loss_on, max_seq_length and overlong are read.
        tokenizer: the model's.
        progress: called after every block with the number of rows done; may raise to give up.

    Raises:
        ModelError: a conversation needs a chat template and the model has none that works.
    """
    made = Tokenised()
    maker = _Maker(config, tokenizer)
    for first in range(0, len(examples), _BLOCK):
        block = examples[first : first + _BLOCK]
        rendered: list[tuple[int, Example, RenderedRow | RenderedPair]] = []
        for number, example in enumerate(block, start=first):
            try:
                rendered.append((number, example, maker.render(example)))
            except BadRow as bad:
                made.refused.append(
                    Problem(example.source.file, example.source.line, bad.what, bad.hint)
                )
        for (number, example, text), ids in zip(
            rendered, maker.encode([r for _, _, r in rendered]), strict=True
        ):
            made.notes.update(text.notes)
            try:
                made.rows.append(maker.finish(number, example, text, ids))
            except BadRow as bad:
                made.skipped.append(
                    Problem(example.source.file, example.source.line, bad.what, bad.hint)
                )
        if progress is not None:
            progress(first + len(block))
    return made


def warnings_of(notes: Counter[str], tokenizer: ChatTokenizer) -> list[tuple[str, str, str]]:
    """Warnings (code, message, what to try) for what happened while tokenising."""
    found = list(tokenizer.notes)
    for code, (message, hint) in NOTES.items():
        if notes[code]:
            found.append((code, message.format(count=notes[code]), hint))
    if not tokenizer.stop_ids:
        hint = "set eos_token in the model's tokenizer_config.json"
        found.append(
            ("no_end_token", "the model names no end token, so it will not learn to stop", hint)
        )
    return found


class _Maker:
    """Renders, encodes and finishes rows under one configuration."""

    def __init__(self, config: RunConfig, tokenizer: ChatTokenizer) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._spaces: dict[int, bool] = {}

    def render(self, example: Example) -> RenderedRow | RenderedPair:
        """The text of a row."""
        config = self._config
        pair = example.is_pair and config.method != "sft"
        if example.is_text:
            assert isinstance(example.chosen, str)
            return RenderedRow((Piece(example.chosen, True),), 0)
        if config.prompt_format == "raw":
            assert isinstance(example.prompt, str)
            assert isinstance(example.chosen, str)
            if pair:
                assert isinstance(example.rejected, str)
                return RenderedPair(example.prompt, example.chosen, example.rejected)
            whole = config.loss_on == "everything"
            return RenderedRow((Piece(example.prompt, whole), Piece(example.chosen, True)), 1)
        template = self._tokenizer.tool_template if example.tools else self._tokenizer.template
        example = replace(example, prompt=self._tokenizer.opened(as_turns(example.prompt, "user")))
        if pair:
            return render_pair(example, template)
        return render_row(example, template, config.loss_on)

    def encode(self, rendered: Sequence[RenderedRow | RenderedPair]) -> Iterator[list[Ids]]:
        """Ids of the pieces of each row; a pair gives prompt, chosen and rejected."""
        texts = [_texts(row) for row in rendered]
        firsts = self._tokenizer.encode_many([parts[0] for parts in texts])
        if self._config.prompt_format == "raw":
            rests = self._answers_after([(parts[0], part) for parts in texts for part in parts[1:]])
        else:
            rests = iter(
                self._tokenizer.encode_continuations(
                    [part for parts in texts for part in parts[1:]]
                )
            )
        for first, parts in zip(firsts, texts, strict=True):
            yield [first, *(next(rests) for _ in parts[1:])]

    def _answers_after(self, seams: Sequence[tuple[str, str]]) -> Iterator[Ids]:
        """Answers to plain prompts: the rest of the whole text if the prompt's tokens begin it."""
        prompts = self._tokenizer.encode_many([prompt for prompt, _ in seams])
        wholes = self._tokenizer.encode_many([prompt + answer for prompt, answer in seams])
        for (_, answer), prompt, whole in zip(seams, prompts, wholes, strict=True):
            if whole[: len(prompt)] == prompt:
                yield whole[len(prompt) :]
            else:
                yield self._tokenizer.encode_continuation(answer)

    def finish(
        self, number: int, example: Example, text: RenderedRow | RenderedPair, ids: list[Ids]
    ) -> TokenisedExample:
        """The row with end token, mask and length limit.

        Raises:
            BadRow: nothing is left to learn, or the row is too long and `overlong` is drop.
        """
        if isinstance(text, RenderedPair):
            return self._pair(number, example, *ids)
        return self._row(number, example, text, ids)

    def _pair(
        self, number: int, example: Example, prompt: Ids, chosen: Ids, rejected: Ids
    ) -> TokenisedExample:
        chosen, rejected = self._ended(chosen), self._ended(rejected)
        self._refuse_overlong(len(prompt) + max(len(chosen), len(rejected)))
        bos = self._has_bos(prompt)
        kept = fit(
            len(prompt), (len(chosen), len(rejected)), self._config.max_seq_length, has_bos=bos
        )
        cut = kept.prompt < len(prompt) or kept.answer < max(len(chosen), len(rejected))
        prompt, chosen, rejected = (
            cut_left(prompt, kept.prompt, has_bos=bos),
            chosen[: kept.answer],
            rejected[: kept.answer],
        )
        if not prompt:
            raise BadRow("the prompt has no tokens", "fill in the prompt")
        if not chosen or not rejected:
            raise BadRow("an answer has no tokens", "fill in the answer")
        if chosen == rejected:
            raise BadRow(
                "the answers are the same within max_seq_length"
                if cut
                else "the answers have the same tokens",
                "raise max_seq_length" if cut else "remove the row",
            )
        return TokenisedExample(
            number,
            example.source,
            _sequence(prompt + chosen, [False] * len(prompt) + [True] * len(chosen)),
            _sequence(prompt + rejected, [False] * len(prompt) + [True] * len(rejected)),
            len(prompt),
            cut,
        )

    def _row(
        self, number: int, example: Example, text: RenderedRow, ids: list[Ids]
    ) -> TokenisedExample:
        before = [i for part in ids[: text.answer] for i in part]
        trained = [
            t
            for piece, part in zip(text.pieces[: text.answer], ids, strict=False)
            for t in [piece.trained] * len(part)
        ]
        answer = self._ended(
            [i for part in ids[text.answer :] for i in part], plain=example.is_text
        )
        self._refuse_overlong(len(before) + len(answer))
        bos = self._has_bos(before)
        kept = fit(len(before), (len(answer),), self._config.max_seq_length, has_bos=bos)
        cut = kept.prompt < len(before) or kept.answer < len(answer)
        trained = trained[len(trained) - kept.prompt :] + [True] * min(kept.answer, len(answer))
        row = cut_left(before, kept.prompt, has_bos=bos) + answer[: kept.answer]
        trained[:1] = [False] * len(trained[:1])
        if self._config.loss_on == "everything" and self._config.prompt_format == "chat":
            self._leave_out_spaces(row, trained)
        if not any(trained):
            raise BadRow("nothing is left to learn from the row", "give it a longer answer")
        return TokenisedExample(
            number, example.source, _sequence(row, trained), None, kept.prompt, cut
        )

    def _ended(self, answer: Ids, *, plain: bool = False) -> Ids:
        """The answer with an end token, if it lacks one and the model has one.

        `plain` text ends with EOS, an answer in a conversation with the template's own mark.
        """
        tokenizer = self._tokenizer
        if answer and answer[-1] in tokenizer.stop_ids:
            return answer
        end = tokenizer.eos_id if plain else tokenizer.end_of_turn_id
        end = tokenizer.eos_id if end is None else end
        return answer if end is None else [*answer, end]

    def _refuse_overlong(self, length: int) -> None:
        limit = self._config.max_seq_length
        if self._config.overlong == "drop" and length > limit:
            raise BadRow(
                f"the row has {length:,} tokens, more than max_seq_length {limit:,}",
                "raise max_seq_length",
            )

    def _has_bos(self, ids: Ids) -> bool:
        return bool(ids) and ids[0] == self._tokenizer.bos_id

    def _leave_out_spaces(self, row: Ids, trained: list[bool]) -> None:
        """Do not train white space that the template puts after an end-of-turn token."""
        after = False
        for place, token in enumerate(row):
            after = after and self._is_space(token)
            if after:
                trained[place] = False
            if token == self._tokenizer.end_of_turn_id:
                after = True

    def _is_space(self, token: int) -> bool:
        if token not in self._spaces:
            text = self._tokenizer.decode([token])
            self._spaces[token] = bool(text) and text.isspace()
        return self._spaces[token]


def _texts(rendered: RenderedRow | RenderedPair) -> list[str]:
    if isinstance(rendered, RenderedPair):
        return [rendered.prompt, rendered.chosen, rendered.rejected]
    return [piece.text for piece in rendered.pieces]


def _sequence(ids: Ids, trained: list[bool]) -> types.Sequence:
    return types.Sequence(np.array(ids, np.int32), np.array(trained, np.bool_))
