"""`generate`: answer prompts with a model, with or without an adapter."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TextIO

from trainer_core.cli.arguments import fraction_or_more, positive
from trainer_core.cli.outcome import Exit


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser("generate", help="answer prompts with a model")
    parser.add_argument("--model", required=True, help="as the option `model` of a configuration")
    parser.add_argument("--adapter", type=Path, metavar="DIR", help="an adapter folder")
    parser.add_argument(
        "--prompt", required=True, action="append", help="a question; may be given several times"
    )
    parser.add_argument(
        "--max-tokens", type=positive, default=256, metavar="N", help="longest answer (%(default)s)"
    )
    parser.add_argument(
        "--temperature",
        type=fraction_or_more,
        default=0.0,
        metavar="T",
        help="0 always takes the likeliest token (%(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the sampling (%(default)s)")
    parser.add_argument(
        "--raw", action="store_true", help="take prompts as they are, without the chat template"
    )
    parser.set_defaults(command=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Print the answers; with several prompts, each under its prompt."""
    from trainer_core import backend

    backend.prepare()
    from trainer_core.generate import generate

    answers = generate(
        args.model,
        args.prompt,
        adapter=args.adapter.expanduser() if args.adapter else None,
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        seed=args.seed,
        raw=args.raw,
    )
    for answer in answers:
        if len(args.prompt) > 1:
            print(f"> {answer.prompt}", file=out)
        print(answer.text, file=out, flush=True)
    return Exit.DONE
