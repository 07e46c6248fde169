from pathlib import Path

import pytest

from app.viewmodels.progress_vm import ProgressViewModel
from tests.app.run_events import finished, started, step, validation
from trainer_core.events import Failed, Stage

RUN = Path("/runs/one")


def running(steps: int, *, seconds: float = 2.0, total: int = 20) -> ProgressViewModel:
    vm = ProgressViewModel()
    vm.begin("Starting")
    vm.take(started(RUN, iters=total))
    for number in range(1, steps + 1):
        vm.take(step(number, seconds=seconds))
    return vm


def test_a_job_that_only_began_shows_no_figures() -> None:
    vm = ProgressViewModel()
    vm.begin("Starting")
    assert (vm.busy, vm.fraction, vm.headline) == (True, None, "Starting")
    assert (vm.steps_text, vm.eta_text, vm.speed_text, vm.memory_text) == ("", "", "", "")


def test_figures_of_a_running_run() -> None:
    vm = running(5)
    assert vm.steps_text == "5 of 20"
    assert vm.fraction == pytest.approx(0.25)
    assert vm.speed_text == "1,240 tokens/s"
    assert vm.memory_text == "1.24 GB"


def test_time_left_is_the_median_step_times_the_steps_left() -> None:
    vm = running(5)
    assert vm.remaining_seconds == pytest.approx(15 * 2.0)
    vm.take(step(6, seconds=500.0))  # one slow step does not move the median
    assert vm.remaining_seconds == pytest.approx(14 * 2.0)


def test_time_left_counts_the_validations_to_come() -> None:
    # Validations every 5 steps: at 10, 15 and at the end, 20.
    vm = running(6)
    vm.take(validation(5, seconds=10.0))
    assert vm.remaining_seconds == pytest.approx(14 * 2.0 + 3 * 10.0)
    odd = running(6, total=18)  # at 10, 15, and at the end, 18
    odd.take(validation(5, seconds=10.0))
    assert odd.remaining_seconds == pytest.approx(12 * 2.0 + 3 * 10.0)


def test_only_recent_steps_count() -> None:
    vm = running(5, seconds=100.0, total=1000)
    for number in range(6, 40):
        vm.take(step(number, seconds=1.0))
    assert vm.remaining_seconds == pytest.approx(961.0)


def test_nothing_is_left_after_the_last_step() -> None:
    vm = running(20)
    assert vm.remaining_seconds == 0
    vm.take(finished(RUN, steps=20))
    vm.end("Done", "success")
    assert vm.eta_text == ""
    assert vm.fraction == 1.0


def test_a_stopped_run_keeps_its_bar_where_it_was() -> None:
    vm = running(5)
    vm.take(finished(RUN, reason="stopped", steps=5))
    vm.end("Stopped", "success")
    assert vm.fraction == pytest.approx(0.25)


def test_stages_before_training_are_named() -> None:
    vm = ProgressViewModel()
    vm.begin("Starting")
    vm.take(Stage("load"))
    assert vm.headline == "Loading the model"
    vm.take(Stage("data", "Tokenising the rows", 0.5))
    assert (vm.headline, vm.fraction) == ("Tokenising the rows", 0.5)


def test_a_validation_does_not_move_the_bar_back() -> None:
    vm = running(10)
    vm.take(Stage("validate", "Validating", 0.0))
    assert vm.fraction == pytest.approx(0.5)


def test_a_failure_turns_the_bar_red() -> None:
    vm = running(3)
    vm.take(Failed("the run does not fit in memory"))
    assert vm.level == "error"
    vm.begin("Starting")
    assert vm.level == "normal"


def test_stopping_is_shown_until_the_adapter_is_saved() -> None:
    vm = running(3)
    vm.stopping(now=False)
    vm.take(step(4))
    assert vm.headline == "Stopping after this step"
    vm.take(Stage("save", "Saving the adapter"))
    assert vm.headline == "Saving the adapter"
