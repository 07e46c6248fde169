"""`engine`: train as the process that started this one says; not for people.

Wishes come in on standard input, events go out on standard output, each as JSON lines. If the input
ends, the parent is gone: the run stops and saves.
"""

from __future__ import annotations

import argparse
import sys
import threading
from typing import TextIO

from trainer_core.cli.outcome import Exit
from trainer_core.cli.signals import stop_on_signals
from trainer_core.cli.streams import Lines
from trainer_core.control import Control
from trainer_core.events import Event, to_json_line
from trainer_core.isolation.wishes import config_in, obey


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command, without a line in the help."""
    parser = commands.add_parser("engine")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Train once."""
    del args
    control = Control()
    lines = Lines(out, control)

    def emit(event: Event) -> None:
        lines.write(to_json_line(event))

    with stop_on_signals(control, first=""):
        config = config_in(sys.stdin.readline())
        threading.Thread(target=_listen, args=(sys.stdin, control), daemon=True).start()
        from trainer_core import backend

        backend.prepare()
        from trainer_core.run import train

        finished = train(config, emit, control)
    return Exit.STOPPED if finished.reason == "stopped" else Exit.DONE


def _listen(wishes: TextIO, control: Control) -> None:
    for line in wishes:
        obey(line, control)
    control.stop()
