"""`train`: run a training and show it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TextIO

from trainer_core.cli.arguments import add_config
from trainer_core.cli.live import LiveDisplay
from trainer_core.cli.outcome import Exit
from trainer_core.cli.plain import PlainDisplay
from trainer_core.cli.signals import stop_on_signals
from trainer_core.cli.streams import event_stream
from trainer_core.config_io import load_config
from trainer_core.control import Control
from trainer_core.errors import TrainerError
from trainer_core.events import Event, Failed, Warned

Listener = Callable[[Event], None]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser("train", help="fine-tune a model")
    add_config(parser)
    parser.add_argument(
        "--events",
        metavar="-|FILE",
        help="write every event as a JSON line; with - nothing else goes to standard output",
    )
    parser.add_argument(
        "--resume",
        metavar="RUN",
        help="go on with the run in this folder from its last checkpoint, as --set resume=RUN",
    )
    parser.set_defaults(command=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Train; the exit code says whether the run was done or stopped."""
    control = Control()
    with ExitStack() as stack:
        events = stack.enter_context(event_stream(args.events, out, control))
        stack.enter_context(stop_on_signals(control))
        listeners: list[Listener] = [events] if events else []
        try:
            notes: list[Warned] = []
            resume = [f"resume={args.resume}"] if args.resume else []
            config = load_config(args.config, [*args.set, *resume], notes)
            display = _display(out, control, taken=args.events == "-")
            if isinstance(display, LiveDisplay):
                stack.enter_context(display)
            if display:
                listeners.append(display)

            def emit(event: Event) -> None:
                for listener in listeners:
                    listener(event)

            from trainer_core import backend

            backend.prepare()
            from trainer_core.run import train

            finished = train(config, emit, control, notes)
        except TrainerError as error:
            if events and not events.failed:
                events(Failed(error.what, error.why, error.try_this))
            raise
    return Exit.STOPPED if finished.reason == "stopped" else Exit.DONE


def _display(out: TextIO, control: Control, *, taken: bool) -> LiveDisplay | PlainDisplay | None:
    """A live display on a terminal, else plain lines; None if events take standard output."""
    if not taken:
        return LiveDisplay(out) if out.isatty() else PlainDisplay(out, control)
    return LiveDisplay(sys.stderr) if sys.stderr.isatty() else None
