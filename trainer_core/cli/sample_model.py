"""`sample-model`: make the sample model's folder and print its path last."""

from __future__ import annotations

import argparse
import sys
from typing import TextIO

from trainer_core.cli.outcome import Exit
from trainer_core.events import Event, Stage


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser("sample-model", help="make the sample model and print its folder")
    parser.set_defaults(command=run)


def run(_args: argparse.Namespace, out: TextIO) -> int:
    """Make the model unless it is there, and print its folder."""
    from trainer_core import backend

    backend.prepare()
    from trainer_core.model.sample_model import ensure_sample_model

    print(ensure_sample_model(_tell), file=out, flush=True)
    return Exit.DONE


def _tell(event: Event) -> None:
    if isinstance(event, Stage):
        print(event.message or event.stage, file=sys.stderr, flush=True)
