from pathlib import Path

from app.viewmodels.run_vm import RunState, RunViewModel
from tests.app.run_events import finished, started, step
from trainer_core.events import Failed, Paused, Resumed


def test_the_life_of_a_run(tmp_path: Path) -> None:
    vm = RunViewModel()
    assert not vm.active
    vm.begin()
    assert (vm.state, vm.active) == (RunState.STARTING, True)
    vm.take(started(tmp_path))
    assert (vm.state, vm.run_folder, vm.device) == (
        RunState.RUNNING,
        tmp_path,
        "Test processor (CPU)",
    )
    assert vm.finished_run is None
    vm.take(finished(tmp_path))
    assert (vm.state, vm.finished_run, vm.active) == (RunState.FINISHED, tmp_path, False)


def test_stopping_stays_until_the_engine_has_ended(tmp_path: Path) -> None:
    vm = RunViewModel()
    vm.begin()
    vm.stopping()
    vm.take(started(tmp_path))
    vm.take(step(1))
    assert vm.state is RunState.STOPPING
    vm.take(finished(tmp_path, reason="stopped"))
    assert vm.state is RunState.FINISHED


def test_pause_and_resume(tmp_path: Path) -> None:
    vm = RunViewModel()
    vm.begin()
    vm.take(started(tmp_path))
    vm.take(Paused(3))
    assert (vm.state, vm.active) == (RunState.PAUSED, True)
    vm.take(Resumed(3))
    assert vm.state is RunState.RUNNING


def test_a_failed_run_keeps_the_last_finished_one_for_export(tmp_path: Path) -> None:
    vm = RunViewModel()
    vm.begin()
    vm.take(started(tmp_path))
    vm.take(finished(tmp_path))
    vm.begin()
    vm.take(started(tmp_path / "gone"))
    vm.take(Failed("no"))
    assert (vm.state, vm.finished_run) == (RunState.FAILED, tmp_path)
    assert vm.run_folder is None  # the engine removed the folder of a run that never trained


def test_a_run_without_any_ending_has_failed() -> None:
    vm = RunViewModel()
    vm.begin()
    vm.end()
    assert vm.state is RunState.FAILED
    vm.end()
    assert vm.state is RunState.FAILED
