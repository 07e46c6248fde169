"""A run's progress as a display that redraws itself on a terminal."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trainer_core.cli.plain import closing_lines, data_line, warning_text
from trainer_core.cli.run_state import METRICS, RunState
from trainer_core.cli.wording import duration, metric, size, sparkline
from trainer_core.events import Event

_WARNINGS_SHOWN = 4
_CURVE = 32


class LiveDisplay:
    """Listener that shows step, time left, curves, speed, memory and warnings in one panel."""

    def __init__(self, stream: TextIO, console: Console | None = None) -> None:
        self._console = console or Console(file=stream)
        self._state = RunState()
        self._live = Live(self._draw(), console=self._console, refresh_per_second=8)

    def __call__(self, event: Event) -> None:
        """Take in an event; it is drawn at the next refresh."""
        self._state.take(event)
        self._live.update(self._draw())

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()
        if self._state.finished:
            # Below the panel, unframed, so that paths can be copied.
            for line in closing_lines(self._state.finished, self._state.model):
                self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def _draw(self) -> RenderableType:
        state = self._state
        parts: list[RenderableType] = [self._head()]
        if state.series:
            parts += [Text(""), self._metrics(), Text("")]
            parts.append(self._speed())
        if state.data:
            parts.append(Text(data_line(state.data), style="dim"))
        shown = state.warnings[-_WARNINGS_SHOWN:]
        if len(state.warnings) > len(shown):
            hidden = len(state.warnings) - len(shown)
            parts.append(Text(f"{hidden} earlier warnings are in the run's events", style="yellow"))
        parts += [Text(f"! {warning_text(warning)}", style="yellow") for warning in shown]
        title = f"{state.method.upper()} on {Path(state.model).name}" if state.method else "Burnish"
        return Panel(
            Group(*parts),
            title=Text(title, style="bold"),
            subtitle=Text(state.device, style="dim"),
            title_align="left",
            subtitle_align="right",
            border_style="cyan",
            padding=(0, 1),
            width=84,
        )

    def _head(self) -> RenderableType:
        state = self._state
        if state.last is None:
            return Text(state.stage or "Starting")
        row = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=state.total or 1, completed=state.last.step, width=30)
        of = f" of {state.total}" if state.total else ""
        left = state.seconds_left
        when = "finished" if state.finished else state.stage
        if not when and left is not None:
            when = f"{duration(left)} left"
        row.add_row(bar, Text(f"step {state.last.step}{of}", style="bold"), Text(when or ""))
        return row

    def _metrics(self) -> RenderableType:
        state = self._state
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("")
        table.add_column("training", justify="right")
        table.add_column("")
        table.add_column("validation", justify="right")
        table.add_column("best", justify="right")
        for key, name in METRICS.items():
            if key in state.series:
                curve = Text(sparkline(state.series[key], _CURVE).ljust(_CURVE), style="cyan")
                now = metric(getattr(state.last, key))
                valid, best = (
                    metric(getattr(v, key)) if v else "" for v in (state.validation, state.best)
                )
                table.add_row(name, now, curve, valid, best)
        return table

    def _speed(self) -> RenderableType:
        last = self._state.last
        if last is None:
            return Text("")
        return Text(
            f"{last.tokens_per_s:,.0f} tokens/s   {last.seconds:.2f} s a step   "
            f"peak {size(last.peak_memory_bytes)}   learning rate {last.learning_rate:.3g}   "
            f"epoch {last.epoch:.2f}"
        )
