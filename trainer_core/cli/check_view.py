"""The report of `check` as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer_core.cli.check import CheckReport, Plan, Probe
from trainer_core.cli.wording import size
from trainer_core.data.stats import Bin, DataStats

_PROBLEMS_SHOWN = 10
_BAR = 28


def show_report(report: CheckReport, out: TextIO) -> None:
    """Print counts, lengths, the plan, warnings and the first problems."""
    console = Console(file=out, highlight=False)
    if report.stats:
        console.print(_counts(report.stats))
        console.print(_lengths(report.stats))
        console.print(_spread(report.stats))
    if report.plan:
        console.print(_plan(report.plan))
        console.print(_memory(report.plan, report.probe))
        if report.plan.memory_advice:
            console.print(_advice(report.plan))
    for _, message, hint in report.warnings:
        console.print(Text(f"! {message}" + (f": {hint}" if hint else ""), style="yellow"))
    if report.problems:
        console.print(_problems(report))
        hidden = len(report.problems) - _PROBLEMS_SHOWN
        if hidden > 0:
            console.print(f"and {hidden:,} more; --json lists them all")


def _table(title: str, *columns: str) -> Table:
    return Table(
        *columns,
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if columns[0] else None,
        show_header=bool(columns[0]),
        padding=(0, 2, 0, 0),
        pad_edge=False,
    )


def _counts(stats: DataStats) -> Table:
    table = _table("Data", "", "")
    table.columns[1].justify = "right"
    for name, count in (
        ("rows", stats.rows),
        ("  used for training", stats.train_rows),
        ("  used for validation", stats.valid_rows),
        ("  skipped", stats.rows_skipped),
        ("  truncated", stats.rows_truncated),
        ("tokens in an epoch", stats.tokens),
        ("  of them trained", stats.supervised_tokens),
    ):
        table.add_row(name, f"{count:,}")
    return table


def _lengths(stats: DataStats) -> Table:
    table = _table("\nTokens in a sequence", "", "", "")
    table.columns[1].justify = "right"
    most = max((part.count for part in stats.histogram), default=1)
    for part in stats.histogram:
        bar = "█" * round(_BAR * part.count / most) or ("▏" if part.count else "")
        table.add_row(_range(part), f"{part.count:,}", Text(bar, style="cyan"))
    return table


def _spread(stats: DataStats) -> str:
    shares = ", ".join(f"{share:.0%} up to {n:,}" for share, n in stats.quantiles.items())
    return f"mean {stats.mean_length:,.0f}; {shares}; longest {stats.longest:,}"


def _plan(plan: Plan) -> Table:
    config = plan.config
    rows = "1 row" if plan.rows_per_step == 1 else f"{plan.rows_per_step:,} rows"
    table = _table("\nPlan", "", "")
    for name, value in (
        ("method", str(config["method"]).upper()),
        ("model", plan.model),
        ("trained", _trained(config)),
        ("steps", f"{plan.steps:,}, of {rows} each: {plan.epochs:.3g} epochs"),
        ("learning rate", f"{config['learning_rate']:g}, {config['lr_schedule']}"),
        ("head, weights", f"{config['head']}, {config['weights']}"),
        ("runs folder", str(Path(plan.output))),
    ):
        table.add_row(name, value)
    return table


def _memory(plan: Plan, probe: Probe | None) -> Table:
    """The estimate by part, largest first, and what two real steps needed."""
    enough = plan.memory_bytes <= plan.memory_available_bytes
    table = _table("\nMemory", "", "")
    table.columns[1].justify = "right"
    for part, count in sorted(plan.memory_parts.items(), key=lambda item: -item[1]):
        if count:
            table.add_row(f"  {part}", size(count))
    total = Text(size(plan.memory_bytes), style="bold" if enough else "bold yellow")
    table.add_row("estimated peak", total)
    if probe:
        table.add_row("measured in two steps", f"{size(probe.peak_bytes)}")
        table.add_row("seconds a step", f"{probe.seconds:.3g}")
    table.add_row("free", size(plan.memory_available_bytes))
    return table


def _advice(plan: Plan) -> Table:
    """Each change on top of those before it."""
    enough = plan.memory_bytes <= plan.memory_available_bytes
    title = "To need less" if enough else "To make it fit"
    table = _table(f"\n{title}, one after the other", "change", "needs", "cost")
    table.columns[1].justify = "right"
    for advice in plan.memory_advice:
        change = ", ".join(f"{name}: {value}" for name, value in advice.change.items())
        table.add_row(change, size(advice.total), advice.cost)
    return table


def _range(part: Bin) -> str:
    last = part.high - 1
    return f"{part.low:,}" if last == part.low else f"{part.low:,} to {last:,}"


def _trained(config: Mapping[str, Any]) -> str:
    """What is trained: an adapter of which shape, or all weights."""
    last = config["num_layers"]
    if config["fine_tune_type"] == "full":
        return "all weights" if last < 0 else f"all weights of the last {last} blocks"
    kind = {"lora": "LoRA", "dora": "DoRA"}[config["fine_tune_type"]]
    where = _modules(config["target_modules"])
    return f"{kind} of rank {config['rank']}, scale {config['scale']:g}, {where}"


def _modules(modules: str | list[str]) -> str:
    return "every linear of a block" if modules == "auto" else ", ".join(modules)


def _problems(report: CheckReport) -> Table:
    table = _table(f"\nProblems ({len(report.problems):,})", "file", "line", "what", "hint")
    table.columns[1].justify = "right"
    for problem in report.problems[:_PROBLEMS_SHOWN]:
        line = str(problem.line) if problem.line else ""
        cells = (Path(problem.file).name, line, problem.what, problem.hint)
        table.add_row(*map(Text, cells))
    return table
