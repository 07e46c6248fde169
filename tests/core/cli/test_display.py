"""What a display makes of a run's events."""

import io
import math

import pytest
from rich.console import Console

from trainer_core.cli.live import LiveDisplay
from trainer_core.cli.plain import PlainDisplay, closing_lines
from trainer_core.cli.run_state import RunState
from trainer_core.cli.wording import duration, metric, size, sparkline
from trainer_core.config import RunConfig, resolve
from trainer_core.control import Control
from trainer_core.events import Data, Finished, Stage, Started, Step, Validation, Warned


def started(**values) -> Started:
    config = resolve(RunConfig(model="/models/m", data="d", method="orpo", **values))
    return Started("/runs/r", config.model_dump(mode="json"), "Some CPU", {})


def step(number: int, loss: float = 2.0, seconds: float = 2.0) -> Step:
    return Step(number, loss, 1.0, 1e-4, 1234.5, 10.0, 5_600_000_000, seconds, 20, 0.5, nll=1.5)


DATA = Data(12, 10, 2, 1, 3000, 1000, 400, 4)


def state(*events) -> RunState:
    made = RunState()
    for event in events:
        made.take(event)
    return made


def test_time_left_is_the_pace_of_the_latest_steps():
    made = state(started(iters=100), step(1, seconds=50), *(step(n) for n in range(2, 41)))
    assert made.seconds_left == 120  # 60 steps of 2 s; the slow first one does not count


def test_steps_of_epochs_are_counted_from_the_rows():
    made = state(started(epochs=1.5, batch_size=2, grad_accumulation_steps=2), DATA)
    assert made.total == 5  # 10 rows in windows of 4: 3 an epoch, 4.5 of them
    assert state(started(epochs=1)).total is None


def test_the_best_validation_is_kept_beside_the_latest():
    best, worse = (Validation(n, loss, 4, 0, 1.0, n == 1) for n, loss in ((1, 1.0), (2, 3.0)))
    made = state(started(), best, worse)
    assert (made.best, made.validation) == (best, worse)


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], 8, "▁▂▃▄▅▆▇█"),
        ([1, 1], 8, "▄▄"),
        ([1, math.nan, 2], 8, "▁ █"),
        ([math.nan], 8, " "),
        ([], 8, ""),
        ([0, 2, 10, 12], 2, "▁█"),
        (range(1000), 8, "▁▂▃▄▅▆▇█"),
    ],
)
def test_sparklines(values, width, line):
    assert sparkline(values, width) == line


def test_numbers_in_words():
    assert [duration(s) for s in (0.4, 59.6, 725, 11045)] == ["0:00", "1:00", "12:05", "3:04:05"]
    assert [size(n) for n in (12, 3400, 5_600_000_000, 2e12)] == [
        "12 B",
        "3 kB",
        "5.6 GB",
        "2.0 TB",
    ]
    assert [metric(v) for v in (None, 0.123456, 1234567.0)] == ["-", "0.1235", "1.235e+06"]


def plain(*events) -> list[str]:
    out = io.StringIO()
    display = PlainDisplay(out, Control())
    for event in events:
        display(event)
    return out.getvalue().splitlines()


def test_plain_lines():
    lines = plain(
        started(iters=3),
        Stage("data", "Reading"),
        Stage("data", "Reading", 0.5),
        DATA,
        step(1),
        Validation(1, 2.5, 4, 0, 1.0, True, accuracy=0.5),
        Warned("w", "something is odd", "do this"),
    )
    assert lines == [
        "ORPO on /models/m, Some CPU",
        "Reading",
        "10 rows (2 skipped, 1 truncated) and 4 for validation; "
        "3,000 tokens, 1,000 of them trained; longest 400",
        "step 1/3  loss 2  nll 1.5  1,234 tokens/s  5.6 GB  0:04 left",
        "validation after 1  loss 2.5  accuracy 0.5  best so far",
        "warning: Something is odd. Do this.",
    ]


@pytest.mark.parametrize(
    ("reason", "word"), [("done", "Done"), ("stopped", "Stopped"), ("early_stop", "early")]
)
def test_the_end_says_why_and_where(reason, word):
    lines = closing_lines(Finished(reason, 1, "/runs/a b/adapter", "/runs/a b", 61.0, 1), "m")
    assert word in lines[0]
    assert "1 step, 1:01" in lines[0]
    assert "Adapter: /runs/a b/adapter" in lines
    assert "'/runs/a b/adapter'" in lines[-2]


def test_the_live_panel_shows_all_that_matters():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with LiveDisplay(out, console) as display:
        for event in (
            started(iters=10),
            DATA,
            *(step(n, 10.0 - n) for n in range(1, 6)),
            Validation(5, 2.25, 4, 0, 1.0, True),
            Warned("w", "[red]markup[/red] is text"),
            Finished("done", 10, "/runs/r/adapter", "/runs/r", 5.0),
        ):
            display(event)
    shown = out.getvalue()
    for part in (
        "ORPO on m",
        "step 5 of 10",
        "loss",
        "nll",
        "2.25",
        "tokens/s",
        "5.6 GB",
        "█",
        "[red]markup[/red]",
        "Some CPU",
        "Adapter: /runs/r/adapter",
    ):
        assert part.capitalize() in shown or part in shown
