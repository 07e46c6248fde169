"""`try-template`: render a chat template once, in a process that can be killed; not for people."""

from __future__ import annotations

import argparse
import sys
from typing import TextIO


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command, without a line in the help."""
    parser = commands.add_parser("try-template")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Try the template on standard input; the exit code is the verdict."""
    del args, out
    from trainer_core.data.template_trial import be_tried

    return be_tried(sys.stdin.buffer.read())
