"""Learning rates for ORPO with LoRA on the sample project, judged by what the model then answers.

    python -m tests.bench.sample_sweep --rates 1e-4 2e-4 --batch-sizes 1 2

trains once per rate and batch size, and prints a Markdown table and the answers to the held-out
questions from before and after. RESULTS.md keeps the tables that were worth keeping.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer_core import backend
from trainer_core.config import RunConfig
from trainer_core.events import Event, Validation
from trainer_core.generate import generate
from trainer_core.run import train

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample"
MAX_TOKENS = 96
HEADER = (
    "| rate | batch | val. loss | accuracy before | accuracy after | words before | words after "
    "| fewer words | facts right | seconds |\n|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Question:
    """A held-out question and the strings of which an answer must contain one, in any case."""

    text: str
    accept: tuple[str, ...]

    def is_answered_by(self, answer: str) -> bool:
        """True if an accepted string stands in the answer as a word of its own."""
        return any(
            re.search(rf"\b{re.escape(accepted)}\b", answer, re.IGNORECASE)
            for accepted in self.accept
        )


@dataclass(frozen=True, slots=True)
class Answers:
    """Greedy answers to the held-out questions, in their order."""

    texts: tuple[str, ...]

    @property
    def mean_words(self) -> float:
        """Mean length in words; an answer is cut at MAX_TOKENS tokens."""
        return sum(len(text.split()) for text in self.texts) / len(self.texts)

    def right(self, questions: Sequence[Question]) -> int:
        """How many hold the fact that was asked for."""
        return sum(q.is_answered_by(a) for q, a in zip(questions, self.texts, strict=True))


@dataclass(frozen=True, slots=True)
class Trial:
    """One training run: validations before and after, and its answers."""

    rate: float
    batch_size: int
    first: Validation
    last: Validation
    answers: Answers
    seconds: float

    def line(self, before: Answers, questions: Sequence[Question]) -> str:
        """A row of the table."""
        fewer = 1 - self.answers.mean_words / before.mean_words
        cells = [
            f"{self.rate:.0e}".replace("e-0", "e-"),
            str(self.batch_size),
            f"{self.last.loss:.3f}",
            f"{self.first.accuracy:.2f}",
            f"{self.last.accuracy:.2f}",
            f"{before.mean_words:.1f}",
            f"{self.answers.mean_words:.1f}",
            f"{fewer:.0%}",
            f"{self.answers.right(questions)}/{len(questions)}",
            f"{self.seconds:.0f}",
        ]
        return f"| {' | '.join(cells)} |"


def held_out() -> list[Question]:
    """The sample's held-out questions."""
    lines = (SAMPLE / "held_out.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [Question(row["question"], tuple(row["accept"])) for row in rows]


def ask(questions: Sequence[Question], adapter: Path | None) -> Answers:
    """Greedy answers of the sample model, with or without an adapter."""
    prompts = [question.text for question in questions]
    answers = generate("sample", prompts, adapter=adapter, max_tokens=MAX_TOKENS)
    return Answers(tuple(answer.text for answer in answers))


def try_out(config: RunConfig, questions: Sequence[Question]) -> Trial:
    """Train once and ask."""
    validations: list[Validation] = []

    def listen(event: Event) -> None:
        if isinstance(event, Validation):
            validations.append(event)

    finished = train(config, listen)
    return Trial(
        rate=config.learning_rate or 0.0,
        batch_size=config.batch_size,
        first=validations[0],
        last=validations[-1],
        answers=ask(questions, Path(finished.adapter)),
        seconds=finished.seconds,
    )


def configurations(options: argparse.Namespace, runs: str) -> Iterator[RunConfig]:
    """One configuration per batch size and rate."""
    for batch_size in options.batch_sizes:
        for rate in options.rates:
            yield RunConfig(
                model="sample",
                data="sample",
                method=options.method,
                iters=options.steps,
                learning_rate=rate,
                batch_size=batch_size,
                steps_per_eval=0,
                seed=options.seed,
                output=runs,
                run_name=f"batch-{batch_size}-rate-{rate:g}",
            )


def main() -> None:
    """Run the sweep that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-5, 1e-4, 2e-4, 4e-4, 8e-4])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--method", choices=("orpo", "dpo"), default="orpo")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    backend.prepare()
    questions = held_out()
    before = ask(questions, None)
    print(f"before: {before.right(questions)}/{len(questions)} facts right\n{HEADER}", flush=True)
    trials: list[Trial] = []
    with tempfile.TemporaryDirectory() as runs:
        for config in configurations(options, runs):
            trials.append(try_out(config, questions))
            print(trials[-1].line(before, questions), flush=True)
    for trial in trials:
        print(f"\nrate {trial.rate:g}, batch {trial.batch_size}", flush=True)
        for question, was, now in zip(questions, before.texts, trial.answers.texts, strict=True):
            print(json.dumps([question.text, was, now], ensure_ascii=False))


if __name__ == "__main__":
    main()
