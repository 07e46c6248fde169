"""Reading, measuring and looking at rows: bodies of tasks in the background."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from app.reading.background import Task
from trainer_core.config import RunConfig
from trainer_core.data.example import Example
from trainer_core.data.lens import LensRow, look_at
from trainer_core.data.scan import ScannedRow, plain_text, scan_rows
from trainer_core.data.tokenise import tokenise_examples, warnings_of
from trainer_core.data.tokenizer import ChatTokenizer, load_tokenizer
from trainer_core.errors import ModelError

FIRST_BLOCK = 100
BLOCK = 1_000
MEASURED_AT_ONCE = 128
_UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True)
class Measured:
    """What tokenising found of one row.

    Attributes:
        number: the row's.
        lengths: tokens of each of its sequences, nothing cut.
        tokens: tokens that are left within the limit, of all sequences.
        trained: of these, the ones that are trained.
        cut: whether the limit took tokens.
        prompt: tokens that the sequences of a pair share, nothing cut.
        problem: why the row is not used, or an empty string.
    """

    number: int
    lengths: tuple[int, ...] = ()
    tokens: int = 0
    trained: int = 0
    cut: bool = False
    problem: str = ""
    prompt: int = 0


def read_all(task: Task, config: RunConfig) -> int:
    """Tell of all rows in blocks, the first one soon; returns how many there are.

    Raises:
        DataError: a file cannot be read at all.
    """
    rows = scan_rows(config)
    count, size = 0, FIRST_BLOCK
    with no_collection():
        while block := list(islice(_checked(task, rows), size)):
            task.tell(block)
            count += len(block)
            size = BLOCK
    return count


@contextmanager
def no_collection() -> Iterator[None]:
    """No search for cycles while many rows are made: it would stop all threads time and again.

    What was made is left out of later searches too; it goes when nothing refers to it any more.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _checked(task: Task, rows: Iterator[ScannedRow]) -> Iterator[ScannedRow]:
    for row in rows:
        task.check()
        yield row


def measure_all(
    task: Task, config: RunConfig, scanned: Sequence[ScannedRow]
) -> list[tuple[str, str, str]]:
    """Tell of the tokens of all rows in blocks; returns warnings (code, message, what to try).

    Args:
        task: asked now and then whether it is still wanted.
        config: the run.
        scanned: all rows; those that cannot be used or are left out are passed over.

    Raises:
        TrainerError: the model has no tokenizer or chat template that works.
    """
    rows = [
        (number, row.example)
        for number, row in enumerate(scanned)
        if row.example is not None and not row.left_out
    ]
    tokenizer = tokenizer_of(config)
    whole = config.model_copy(update={"max_seq_length": _UNLIMITED, "overlong": "truncate"})
    notes = None
    for first in range(0, len(rows), MEASURED_AT_ONCE):
        block = rows[first : first + MEASURED_AT_ONCE]
        made = tokenise_examples([example for _, example in block], whole, tokenizer)
        notes = made.notes if notes is None else notes + made.notes
        problems = {(p.file, p.line): p.what for p in made.refused + made.skipped}
        found = {
            number: Measured(number, problem=problem)
            for number, example in block
            if (problem := problems.get((example.source.file, example.source.line)))
        }
        for row in made.rows:
            number, example = block[row.row]
            lengths = tuple(len(s) for s in (row.chosen, row.rejected) if s is not None)
            if max(lengths) <= config.max_seq_length:
                one = Measured(number, lengths, row.tokens, row.supervised_tokens)
            else:
                one = _limited(number, example, lengths, config, tokenizer)
            shared = row.prompt_length if row.rejected is not None else 0
            found[number] = replace(one, prompt=shared)
        task.tell(list(found.values()))
    return [] if notes is None else warnings_of(notes, tokenizer)


def _limited(
    number: int,
    example: Example,
    lengths: tuple[int, ...],
    config: RunConfig,
    tokenizer: ChatTokenizer,
) -> Measured:
    made = tokenise_examples([example], config, tokenizer)
    if not made.rows:
        problem = (made.skipped + made.refused)[0].what
        return Measured(number, lengths, cut=True, problem=problem)
    (row,) = made.rows
    return Measured(number, lengths, row.tokens, row.supervised_tokens, cut=True)


def look(task: Task, config: RunConfig, example: Example) -> LensRow:
    """A row through the mask lens.

    Raises:
        TrainerError: the model has no tokenizer or chat template that works.
    """
    tokenizer = tokenizer_of(config)
    task.check()
    return look_at(example, config, tokenizer)


def find(task: Task, rows: Sequence[tuple[int, Example | None, str]], text: str) -> set[int]:
    """Numbers of the rows that have `text` in prompt, answers or problem, whatever the case.

    Args:
        task: asked now and then whether it is still wanted.
        rows: number, example and problem of each.
        text: words that must all be there.
    """
    words = text.lower().split()
    found: set[int] = set()
    for place, (number, example, problem) in enumerate(rows):
        if place % 500 == 0:
            task.check()
        parts = (example.prompt, example.chosen, example.rejected) if example else ()
        whole = "\n".join([*(plain_text(part) for part in parts), problem]).lower()
        if all(word in whole for word in words):
            found.add(number)
    return found


def tokenizer_of(config: RunConfig) -> ChatTokenizer:
    """The tokenizer of the run's model, one for the calling thread.

    Raises:
        TrainerError: there is none that can be used.
    """
    return load_tokenizer(model_folder(config.model), config)


def model_folder(model: str) -> Path:
    """The folder of a model that is there.

    Raises:
        ModelError: it is not; the sample model, which the first run makes, may be missing too.
    """
    from trainer_core.model.find import resolve_model
    from trainer_core.model.sample_model import is_complete, sample_model_folder

    if model == "sample" and not is_complete(sample_model_folder()):
        raise ModelError(
            "the sample model is not made yet", "", "it is made when the first run starts"
        )
    return resolve_model(model)
