"""The whole job without a screen: train, export, verify, compare answers.

`packaging/dev.py run --headless` starts it; by default it works on the sample project.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from trainer_core import backend
from trainer_core.cli.arguments import add_config
from trainer_core.cli.live import LiveDisplay
from trainer_core.cli.outcome import Exit, guarded
from trainer_core.cli.plain import PlainDisplay
from trainer_core.cli.questions import Question, questions
from trainer_core.cli.signals import stop_on_signals
from trainer_core.cli.streams import claimed_stdout
from trainer_core.config import RunConfig
from trainer_core.config_io import load_config
from trainer_core.control import Control
from trainer_core.data.load import sample_data
from trainer_core.events import Event, Finished, Stage

_LONGEST_ANSWER = 128

Say = Callable[[str], None]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit codes are those of `train`."""
    parser = argparse.ArgumentParser(
        prog="packaging/dev.py run --headless",
        description="Train, export and verify without a screen; the sample project by default.",
    )
    add_config(parser)
    parser.add_argument(
        "--questions", type=int, default=10, metavar="N", help="questions to ask (default 10)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the exported adapter goes")
    args = parser.parse_args(argv)
    with claimed_stdout() as out:
        return guarded(lambda: run(args, out))


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Do the job and print what came of it."""

    def say(text: str) -> None:
        print(text, file=out, flush=True)

    backend.prepare()
    config = load_config(args.config or sample_data("sft").parent / "sample.yaml", args.set)
    asked = questions(config, args.questions)
    finished = _train(config, out)
    target = (args.out or Path(finished.run) / "exported").expanduser()
    _export(finished, target, say)
    # The base model has not changed, so its answers can wait until the curves have moved.
    before = _ask(say, "Asking the model without the adapter", config, asked, None)
    after = _ask(say, "Asking the model with the exported adapter", config, asked, target)
    for line in compared(asked, before, after):
        say(line)
    say(f"\nRun folder:       {finished.run}\nExported adapter: {target}")
    return Exit.STOPPED if finished.reason == "stopped" else Exit.DONE


def compared(asked: list[Question], before: list[str], after: list[str]) -> list[str]:
    """The answers side by side, their mean length, and how many hold their fact."""
    lines = []
    for question, old, new in zip(asked, before, after, strict=True):
        lines += [f"\n? {question.text}", f"  before: {_flat(old)}", f"  after:  {_flat(new)}"]
    if not asked:
        return lines
    words = [sum(len(text.split()) for text in texts) / len(asked) for texts in (before, after)]
    lines.append(f"\nMean answer: {words[0]:.0f} words before, {words[1]:.0f} after.")
    judged = [index for index, question in enumerate(asked) if question.accept]
    if judged:
        right = [sum(asked[i].right(texts[i]) for i in judged) for texts in (before, after)]
        lines.append(f"Facts right: {right[0]} of {len(judged)} before, {right[1]} after.")
    return lines


def _ask(
    say: Say, what: str, config: RunConfig, asked: list[Question], adapter: Path | None
) -> list[str]:
    if not asked:
        return []
    from trainer_core.generate import generate

    say(f"{what} ({len(asked)} questions) ...")
    answers = generate(
        config.model,
        [question.text for question in asked],
        adapter=adapter,
        max_tokens=_LONGEST_ANSWER,
        raw=config.prompt_format == "raw",
    )
    return [answer.text for answer in answers]


def _train(config: RunConfig, out: TextIO) -> Finished:
    from trainer_core.run import train

    control = Control()
    with stop_on_signals(control):
        if not out.isatty():
            return train(config, PlainDisplay(out, control), control)
        with LiveDisplay(out) as display:
            return train(config, display, control)


def _export(finished: Finished, target: Path, say: Say) -> None:
    from trainer_core.export.mlx import export_adapter

    say("Exporting and verifying the adapter ...")
    began = time.monotonic()
    report = export_adapter(Path(finished.run), target, _tell)
    say(
        f"Verified in {time.monotonic() - began:.0f} s: loaded by mlx-lm, the exported adapter "
        f"gives the trained logits on {len(report.prompts)} prompts (largest difference "
        f"{report.logits_difference:.1e}, largest logit {report.logits_scale:.0f})."
    )


def _tell(event: Event) -> None:
    if isinstance(event, Stage):
        print(event.message or event.stage, file=sys.stderr, flush=True)


def _flat(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
