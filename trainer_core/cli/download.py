"""`download`: bring a model from Hugging Face, and print its folder last."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from typing import TextIO

from trainer_core.cli.outcome import Exit
from trainer_core.cli.signals import stop_on_signals
from trainer_core.cli.streams import event_stream
from trainer_core.control import Control
from trainer_core.events import Event


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser("download", help="download a model from Hugging Face")
    parser.add_argument("model", metavar="ORG/NAME", help="its id, or the address of its page")
    parser.add_argument(
        "--revision", default="main", help="a branch, a tag or a commit (%(default)s)"
    )
    parser.add_argument(
        "--events",
        metavar="-|FILE",
        help="write every event as a JSON line; with - nothing else goes to standard output",
    )
    parser.set_defaults(command=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Download; the exit code says whether the model is there or the download was stopped."""
    from trainer_core.hub import DownloadStopped, download, model_id

    control = Control()
    said = "Stopping. Files that have come whole are kept."
    with ExitStack() as stack:
        events = stack.enter_context(event_stream(args.events, out, control))
        stack.enter_context(stop_on_signals(control, said))
        show = events or _Progress()
        try:
            folder = download(model_id(args.model), show, lambda: control.stopping, args.revision)
        except DownloadStopped:
            return Exit.STOPPED
        finally:
            if isinstance(show, _Progress):
                show.end()
    if args.events != "-":
        print(folder, file=out, flush=True)
    return Exit.DONE


class _Progress:
    """One line on a terminal; elsewhere a line for each tenth."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._tenth = -1
        self._open = False

    def __call__(self, event: Event) -> None:
        """Show how far it is."""
        tenth = int((getattr(event, "progress", None) or 0) * 10)
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{getattr(event, 'message', '')}")
            self._open = True
        elif tenth != self._tenth:
            self._tenth = tenth
            sys.stderr.write(f"{getattr(event, 'message', '')}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave the line."""
        if self._open:
            sys.stderr.write("\n")
