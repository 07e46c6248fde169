"""What a model is asked before and after training, and whether it still has its facts right."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from trainer_core.config import RunConfig
from trainer_core.data.example import Example, as_turns
from trainer_core.data.load import SAMPLE, read_rows, sample_data


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the words of which a right answer holds one; without any it is not judged."""

    text: str
    accept: tuple[str, ...] = ()

    def right(self, answer: str) -> bool:
        """Whether an answer holds an accepted word or phrase as a whole."""
        return any(
            re.search(rf"(?<!\w){re.escape(word)}(?!\w)", answer, re.IGNORECASE)
            for word in self.accept
        )


def questions(config: RunConfig, count: int) -> list[Question]:
    """At most `count` questions that training does not see.

    The sample project has its own, with the facts that answers must hold. Other data gives the
    questions of its validation rows, or of its training rows if none are held out.

    Raises:
        DataError: the data cannot be read.
    """
    if config.data == SAMPLE:
        found = _of_sample()
    else:
        raw = read_rows(config)
        texts = [_last_question(example) for example in raw.valid or raw.train]
        found = [Question(text) for text in texts if text]
    return found[: max(count, 0)]


def _of_sample() -> list[Question]:
    lines = (sample_data("sft").parent / "held_out.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [Question(row["question"], tuple(row["accept"])) for row in rows]


def _last_question(example: Example) -> str:
    users = [turn.content for turn in as_turns(example.prompt, "user") if turn.role == "user"]
    return users[-1] if users else ""
