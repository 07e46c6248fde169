"""`export`: write a run's adapter in mlx-lm's layout and prove that it works."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TextIO

from trainer_core.cli.outcome import Exit
from trainer_core.errors import TrainerError
from trainer_core.events import Event, Stage, Warned


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser("export", help="write a run's adapter for mlx-lm and verify it")
    parser.add_argument("run", metavar="RUN", type=Path, help="a run folder or an adapter folder")
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="the folder to write"
    )
    parser.set_defaults(command=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Export, and say what was compared."""
    folder, target = args.run.expanduser(), args.out.expanduser()
    if not folder.is_dir():
        raise TrainerError(
            f"there is no run folder {folder}", "", "Give the folder that train named"
        )
    from trainer_core import backend

    backend.prepare()
    from trainer_core.export.mlx import export_adapter

    report = export_adapter(folder, target, _tell)
    print(
        f"Exported to {report.folder}\n"
        f"mlx-lm loads it and gives the trained answers: on {len(report.prompts)} prompts no logit "
        f"differs by more than {report.logits_difference:.2g}, the largest is "
        f"{report.logits_scale:.3g}, and the likeliest token is the same at "
        f"{report.same_choices:.1%} of all places.\n"
        f"Use it:  {report.command}",
        file=out,
        flush=True,
    )
    return Exit.DONE


def _tell(event: Event) -> None:
    match event:
        case Stage():
            print(event.message or event.stage, file=sys.stderr, flush=True)
        case Warned():
            print(f"warning: {event.message}", file=sys.stderr, flush=True)
