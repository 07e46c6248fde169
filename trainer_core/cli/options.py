"""`options`: every option of a configuration, as a table made from RunConfig."""

from __future__ import annotations

import argparse
from typing import Any, TextIO

from pydantic_core import PydanticUndefined
from rich.console import Console
from rich.table import Table

from trainer_core.cli.outcome import Exit
from trainer_core.config import RunConfig, options
from trainer_core.option import GROUPS, allowed, shown


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser("options", help="list every option of a configuration")
    parser.add_argument("--markdown", action="store_true", help="as Markdown tables")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Print the options."""
    if args.markdown:
        print(option_table_markdown(), file=out, flush=True)
        return Exit.DONE
    console = Console(file=out)
    for group in GROUPS:
        table = Table(
            "option", "default", "values", "what it does", title=group, title_justify="left"
        )
        for row in _rows(group):
            table.add_row(*row)
        console.print(table)
    return Exit.DONE


def option_table_markdown() -> str:
    """All options in a Markdown table for each group, in the order of the form."""
    parts = []
    for group in GROUPS:
        lines = [
            f"### {group}",
            "",
            "| option | default | values | what it does |",
            "|---|---|---|---|",
        ]
        for name, default, values, text in _rows(group):
            cells = (f"`{name}`", default, values, text.replace("|", "\\|"))
            lines.append(f"| {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _rows(group: str) -> list[tuple[str, str, str, str]]:
    rows = []
    for name, meta in options().items():
        if meta.group != group:
            continue
        text = meta.help
        if meta.applies:
            wanted = [f"{k} is {' or '.join(map(str, v))}" for k, v in meta.applies.items()]
            text += f" Only used when {' and '.join(wanted)}."
        field = RunConfig.model_fields[name]
        unit = f" ({meta.unit})" if meta.unit else ""
        rows.append((name, _default(field.default), allowed(field) + unit, text))
    return rows


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    return "-" if value is None else shown(list(value) if isinstance(value, tuple) else value)
