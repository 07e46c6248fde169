"""`check`: read the data, say what would be trained, what it needs and what is wrong with it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from trainer_core.cli.arguments import add_config
from trainer_core.cli.outcome import Exit
from trainer_core.config import RunConfig, resolve
from trainer_core.config_io import load_config
from trainer_core.data.load import BadRowsError, read_rows
from trainer_core.data.stats import DataStats, summarise
from trainer_core.data.token_cache import tokenise_once
from trainer_core.data.tokenizer import load_tokenizer
from trainer_core.data.types import Dataset, Problem
from trainer_core.errors import DataError
from trainer_core.events import Warned
from trainer_core.memory.advice import Advice
from trainer_core.runfolder import default_runs_folder


@dataclass(frozen=True, slots=True)
class Plan:
    """What `train` would do with this configuration.

    Attributes:
        config: every `auto` resolved.
        model: the model's folder.
        steps: optimiser updates.
        epochs: passes over the training rows that they amount to.
        rows_per_step: rows of one update.
        memory_bytes: estimate of MLX's peak over the whole run.
        memory_parts: the same by part.
        memory_available_bytes: what can be taken now.
        memory_advice: changes that lower it, each on top of those before it, the least harmful
            first; up to the one that makes the run fit, or all if it fits already.
        output: the folder in which the run's folder would be made.
    """

    config: dict[str, Any]
    model: str
    steps: int
    epochs: float
    rows_per_step: int
    memory_bytes: int
    memory_parts: dict[str, int]
    memory_available_bytes: int
    memory_advice: list[Advice]
    output: str


@dataclass(frozen=True, slots=True)
class Probe:
    """MLX's peak in bytes over two steps on the longest rows, and the seconds of the second."""

    peak_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was found, as far as the data could be read.

    `refusal` is why `train` would refuse, or None. `warnings` are (code, message, what to try).
    `probe` is what two real steps needed, if they were asked for.
    """

    stats: DataStats | None = None
    plan: Plan | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[tuple[str, str, str]] = field(default_factory=list)
    refusal: DataError | None = None
    probe: Probe | None = None

    def as_json(self) -> dict[str, Any]:
        """The report under its documented keys; counts are 0 if no row could be used."""
        stats = asdict(self.stats) if self.stats else {}
        counts = ("rows", "rows_used", "rows_skipped", "rows_truncated", "train_rows", "valid_rows")
        counts += ("tokens", "supervised_tokens", "longest")
        unread = {"rows": len(self.problems), "rows_skipped": len(self.problems)}
        return {
            **{key: stats.get(key, unread.get(key, 0)) for key in counts},
            "lengths": {str(share): n for share, n in stats.get("quantiles", {}).items()},
            "problems": [asdict(problem) for problem in self.problems],
            "warnings": [
                {"code": code, "message": message, "try_this": hint}
                for code, message, hint in self.warnings
            ],
            "plan": asdict(self.plan) if self.plan else None,
            "probe": asdict(self.probe) if self.probe else None,
        }


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser("check", help="read the data and show the plan; train nothing")
    add_config(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--probe",
        action="store_true",
        help="load the model and take two steps on the longest rows, to measure memory and time",
    )
    parser.set_defaults(command=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Print the report. Where `train` would refuse the data, so does this, after the report."""
    from trainer_core.cli.check_view import show_report

    notes: list[Warned] = []
    report = check(load_config(args.config, args.set, notes), probe=args.probe)
    report.warnings[:0] = [(note.code, note.message, note.try_this) for note in notes]
    if args.json:
        print(json.dumps(report.as_json(), indent=2, ensure_ascii=False), file=out, flush=True)
    else:
        show_report(report, out)
    if report.refusal:
        raise _short(report.refusal)
    return Exit.DONE


def check(config: RunConfig, *, probe: bool = False) -> CheckReport:
    """Read and tokenise the data of a run and plan it, without loading the model's weights.

    With `probe` the model is loaded and two steps are taken, which leave nothing behind; not with
    data that `train` would refuse.

    With `bad_rows: error` a second reading skips the bad rows, so that the report has all of them
    and the counts that skipping would give.

    Raises:
        TrainerError: the model or the configuration is at fault. Faults of the data are in the
            report.
    """
    from trainer_core import backend

    backend.prepare()
    from trainer_core.model.find import resolve_model

    folder = resolve_model(config.model)
    try:
        return _report(config, folder, probe=probe)
    except BadRowsError as error:
        refusal = error
    except DataError as error:
        what = f"{error.what}: {error.why}" if error.why else error.what
        problem = Problem(config.data, 0, what, error.try_this)
        return CheckReport(problems=[problem], refusal=error)
    try:
        return _report(config.model_copy(update={"bad_rows": "skip"}), folder, refusal)
    except BadRowsError as worse:
        return CheckReport(problems=worse.problems, refusal=worse)


def _report(
    config: RunConfig, folder: Path, refusal: DataError | None = None, *, probe: bool = False
) -> CheckReport:
    from trainer_core.memory import longest_of
    from trainer_core.plan import make_plan

    raw = read_rows(config)
    tokenizer = load_tokenizer(folder, config)
    dataset = tokenise_once(raw, config, folder, tokenizer)
    planned = make_plan(config, folder, longest_of([*dataset.train, *dataset.valid], config))
    warnings = [*dataset.warnings, *((w.code, w.message, w.try_this) for w in planned.warnings)]
    settled, measured = planned.config, None
    if probe:
        from trainer_core.probe import probe as take_two_steps

        found = take_two_steps(config, folder, dataset, tokenizer)
        if found:
            settled, measured = found.config, Probe(found.peak, found.seconds)
    plan = _plan(settled.model_copy(update=_length(config)), folder, dataset, measured)
    return CheckReport(summarise(dataset), plan, dataset.problems, warnings, refusal, measured)


def _length(config: RunConfig) -> dict[str, Any]:
    """Options that a probe sets for itself, as the run has them."""
    names = ("iters", "epochs", "early_stop_patience", "steps_per_report", "output", "run_name")
    resolved = resolve(config)
    return {name: getattr(resolved, name) for name in names}


def _plan(config: RunConfig, folder: Path, dataset: Dataset, measured: Probe | None) -> Plan:
    from trainer_core import backend, memory
    from trainer_core.data.batches import total_steps
    from trainer_core.memory.advice import advise

    rows = len(dataset.train)
    per_step = config.batch_size * config.grad_accumulation_steps
    steps = total_steps(
        rows,
        batch_size=config.batch_size,
        accumulation=config.grad_accumulation_steps,
        epochs=config.epochs,
        iters=config.iters,
    )
    device = backend.device()
    longest = memory.longest_of([*dataset.train, *dataset.valid], config)
    needs = memory.estimate(folder, config, longest, device.kind)
    available = backend.available_bytes(device)
    total, room = needs.total(config.weights), backend.room(available)
    return Plan(
        config=config.model_dump(mode="json"),
        model=str(folder),
        steps=steps,
        epochs=steps / -(-rows // per_step),
        rows_per_step=min(per_step, rows),
        memory_bytes=total,
        memory_parts=needs.parts(config.weights),
        memory_available_bytes=available,
        memory_advice=advise(
            folder,
            config,
            config.weights,
            longest,
            device.kind,
            room if total > room else None,
            measured.peak_bytes if measured else None,
        ),
        output=config.output or str(default_runs_folder()),
    )


def _short(refusal: DataError) -> DataError:
    """The refusal as one sentence: the report above has the rows."""
    if isinstance(refusal, BadRowsError):
        return DataError(refusal.what, "", refusal.try_this)
    return refusal
