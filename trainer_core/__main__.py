"""The engine on the command line: python -m trainer_core COMMAND."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from trainer_core.cli import (
    check,
    download,
    engine,
    export,
    generate,
    options,
    sample_model,
    train,
    try_template,
)
from trainer_core.cli.outcome import guarded
from trainer_core.cli.streams import claimed_stdout

_COMMANDS = (train, check, generate, export, download, sample_model, options, engine, try_template)


def parser() -> argparse.ArgumentParser:
    """The parser of every command."""
    top = argparse.ArgumentParser(
        prog="python -m trainer_core",
        description="Fine-tune language models with MLX.",
        epilog="Exit codes: 0 done, 2 something you gave is at fault, 3 stopped with a usable "
        "adapter, 1 a fault of ours.",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = parser().parse_args(argv)
    with claimed_stdout() as out:
        return guarded(lambda: args.command(args, out))


if __name__ == "__main__":
    sys.exit(main())
