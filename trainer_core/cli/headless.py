"""The whole job without a screen: ask, train, export, verify, ask again.

`packaging/dev.py run --headless` starts it; by default it works on the sample project.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from trainer_core import backend
from trainer_core.cli.arguments import add_config
from trainer_core.cli.live import LiveDisplay
from trainer_core.cli.outcome import Exit, guarded
from trainer_core.cli.plain import PlainDisplay
from trainer_core.cli.signals import stop_on_signals
from trainer_core.cli.streams import claimed_stdout
from trainer_core.config import RunConfig
from trainer_core.config_io import load_config
from trainer_core.control import Control
from trainer_core.data.example import Example, as_turns
from trainer_core.data.load import read_rows
from trainer_core.events import Event, Finished, Stage

if TYPE_CHECKING:
    from trainer_core.generate import Answer

SAMPLE_RUN = ("model=sample", "data=sample", "method=orpo", "iters=60")
_LONGEST_ANSWER = 96


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code of `train`."""
    parser = argparse.ArgumentParser(
        prog="packaging/dev.py run --headless",
        description="Train, export and verify without a screen; the sample project by default.",
    )
    add_config(parser)
    parser.add_argument(
        "--questions",
        type=int,
        default=4,
        metavar="N",
        help="held-out questions to ask (default 4)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the exported adapter goes")
    args = parser.parse_args(argv)
    with claimed_stdout() as out:
        return guarded(lambda: run(args, out))


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Do the job and print what came of it."""
    backend.prepare()
    config = load_config(args.config, [*([] if args.config else SAMPLE_RUN), *args.set])
    questions = _questions(config, args.questions)
    before = _ask(out, "Asking the model as it is", config, questions, None)
    finished = _train(config, out)
    target = args.out or Path(finished.run) / "exported"
    _export(finished, target, out)
    after = _ask(out, "Asking the model with the exported adapter", config, questions, target)
    _compare(before, after, out)
    print(f"\nRun:     {finished.run}\nAdapter: {target}", file=out, flush=True)
    return Exit.STOPPED if finished.reason == "stopped" else Exit.DONE


def _questions(config: RunConfig, count: int) -> list[str]:
    """Questions of held-out rows, or of training rows if none are held out."""
    raw = read_rows(config)
    found = [_question(example) for example in raw.valid or raw.train]
    return [question for question in found if question][: max(count, 0)]


def _question(example: Example) -> str:
    users = [turn.content for turn in as_turns(example.prompt, "user") if turn.role == "user"]
    return users[-1] if users else ""


def _ask(
    out: TextIO, what: str, config: RunConfig, questions: list[str], adapter: Path | None
) -> list[Answer]:
    if not questions:
        return []
    from trainer_core.generate import generate

    print(f"{what} ...", file=out, flush=True)
    answers = generate(
        config.model,
        questions,
        adapter=adapter,
        max_tokens=_LONGEST_ANSWER,
        raw=config.prompt_format == "raw",
    )
    return list(answers)


def _train(config: RunConfig, out: TextIO) -> Finished:
    from trainer_core.run import train

    control = Control()
    with stop_on_signals(control):
        if not out.isatty():
            return train(config, PlainDisplay(out, control), control)
        with LiveDisplay(out) as display:
            return train(config, display, control)


def _export(finished: Finished, target: Path, out: TextIO) -> None:
    from trainer_core.export.mlx import export_adapter

    print("Exporting and verifying the adapter ...", file=out, flush=True)
    began = time.monotonic()
    report = export_adapter(Path(finished.run), target, _tell)
    print(
        f"Verified in {time.monotonic() - began:.0f} s: loaded by mlx-lm, the exported adapter gives "
        f"the trained logits on {len(report.prompts)} prompts (largest difference "
        f"{report.logits_difference:.1e}, largest logit {report.logits_scale:.0f}).",
        file=out,
        flush=True,
    )


def _tell(event: Event) -> None:
    if isinstance(event, Stage):
        print(event.message or event.stage, file=sys.stderr, flush=True)


def _compare(before: list[Answer], after: list[Answer], out: TextIO) -> None:
    for old, new in zip(before, after, strict=True):
        print(f"\n? {old.prompt}", file=out)
        print(f"  before: {_one_line(old.text)}", file=out)
        print(f"  after:  {_one_line(new.text)}", file=out)
    if before:
        words = [
            sum(len(a.text.split()) for a in answers) / len(answers) for answers in (before, after)
        ]
        print(f"\nMean answer: {words[0]:.0f} words before, {words[1]:.0f} after.", file=out)


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
