from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.viewmodels.log_vm import MOST_LINES, LogLine, LogViewModel
from tests.app.run_events import finished, started, step, validation, whole_run
from trainer_core.events import Checkpoint, Data, Event, Failed, Paused, Sample, Stage, Warned

RUN = Path("/runs/2026-orpo")


def said(*events: Event) -> list[LogLine]:
    vm = LogViewModel(clock=lambda: "12:00:00")
    for event in events:
        vm.take(event)
    return vm.lines


@pytest.mark.parametrize(
    ("event", "text", "level"),
    [
        (
            started(RUN),
            "ORPO run 2026-orpo started on Test processor (CPU), MLX 0.32.4",
            "info",
        ),
        (
            Data(160, 158, 2, 3, 22_000, 9_000, 311, 24),
            "158 training rows of 160; 24 validation rows; 2 skipped; 3 cut to length; "
            "22,000 tokens, 9,000 of them trained; longest 311 tokens",
            "info",
        ),
        (
            validation(50),
            "Validation at step 50 on 24 rows: loss 1.5, accuracy 50%, the best so far",
            "info",
        ),
        (
            Checkpoint(50, "/runs/x/best", best=True),
            "Saved the best adapter so far at step 50 in /runs/x/best",
            "info",
        ),
        (
            Checkpoint(50, "/runs/x/step-50"),
            "Saved the checkpoint at step 50 in /runs/x/step-50",
            "info",
        ),
        (Paused(3), "Paused after step 3", "info"),
        (Sample(3, "Hi?", "Hello."), "After step 3, \u201cHi?\u201d gives: Hello.", "info"),
        (
            Warned("x", "two rows were skipped", "look at line 3"),
            "Two rows were skipped. Look at line 3.",
            "warning",
        ),
        (
            Failed("no rows", "the file is empty", "choose another"),
            "No rows: the file is empty. Choose another.",
            "error",
        ),
        (
            finished(RUN),
            "Done after 10 steps in 1 min 15 s; best at step 5. "
            "The adapter is in /runs/2026-orpo/adapter",
            "success",
        ),
    ],
)
def test_events_in_words(event: Event, text: str, level: str) -> None:
    assert said(event) == [LogLine("12:00:00", level, text)]  # type: ignore[arg-type]


def test_a_stopped_run_says_where_its_adapter_is() -> None:
    text = said(finished(RUN, reason="stopped", steps=3))[0].text
    assert text.startswith("Stopped after 3 steps")
    assert text.endswith("/runs/2026-orpo/adapter")


def test_a_long_run_gets_about_ten_lines_for_its_steps() -> None:
    lines = said(started(RUN, iters=5000), *(step(number) for number in range(1, 5001)))
    steps = [line for line in lines if line.text.startswith("Step ")]
    assert len(steps) == 11
    assert steps[0].text.startswith("Step 1 of 5,000: loss 2, accuracy 50%")
    assert steps[-1].text.startswith("Step 5,000 of 5,000")


def test_a_stage_that_reports_progress_is_said_once() -> None:
    lines = said(*(Stage("data", "Tokenising the rows", share / 10) for share in range(10)))
    assert [line.text for line in lines] == ["Tokenising the rows"]


def test_lines_arrive_together_and_are_counted(qtbot: QtBot) -> None:
    vm = LogViewModel()
    arrived: list[list[LogLine]] = []
    vm.appended.connect(arrived.append)
    for event in whole_run(RUN):
        vm.take(event)
    vm.take(Warned("x", "careful"))
    vm.flush()
    vm.flush()
    assert arrived == [vm.lines]
    assert vm.warnings == 1


def test_the_log_does_not_grow_for_ever() -> None:
    vm = LogViewModel()
    for number in range(MOST_LINES + 10):
        vm.say(str(number))
    assert len(vm.lines) == MOST_LINES
    assert vm.lines[-1].text == str(MOST_LINES + 9)
