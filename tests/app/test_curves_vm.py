import math
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.viewmodels.curves_vm import LARGEST_SMOOTHING, CurvesViewModel
from app.viewmodels.plot_table import PLOTS
from tests.app.run_events import started, step, validation

RUN = Path("/runs/one")


def keys(vm: CurvesViewModel, page: str) -> list[str]:
    return [plot.key for plot in vm.plots(page)]  # type: ignore[arg-type]


def points(vm: CurvesViewModel, key: str, role: str) -> list[tuple[float, float]]:
    plot = next(plot for plot in PLOTS if plot.key == key)
    curve = next(curve for curve in plot.curves if curve.role == role)
    series = vm.series(plot, curve)
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


@pytest.mark.parametrize(
    ("method", "training", "diagnostics"),
    [
        ("sft", ["loss"], ["learning_rate", "grad_norm", "tokens_per_s", "memory"]),
        (
            "dpo",
            ["loss", "accuracy"],
            ["margin", "logps", "learning_rate", "grad_norm", "tokens_per_s", "memory"],
        ),
        (
            "orpo",
            ["loss", "nll", "or", "accuracy"],
            ["margin", "logps", "learning_rate", "grad_norm", "tokens_per_s", "memory"],
        ),
    ],
)
def test_only_curves_that_apply_are_shown(
    method: str, training: list[str], diagnostics: list[str]
) -> None:
    vm = CurvesViewModel()
    vm.take(started(RUN, method=method))
    assert keys(vm, "training") == training
    assert keys(vm, "diagnostics") == diagnostics


def test_points_of_steps_and_validations_go_to_their_curves() -> None:
    vm = CurvesViewModel()
    vm.take(started(RUN))
    vm.take(validation(0, loss=3.0))
    vm.take(step(1, loss=2.5, peak_memory_bytes=2_000_000_000))
    vm.take(step(2, loss=2.0, accuracy=None))
    assert points(vm, "loss", "train") == [(1, 2.5), (2, 2.0)]
    assert points(vm, "loss", "valid") == [(0, 3.0)]
    assert points(vm, "memory", "train")[0] == (1, 2.0)
    assert points(vm, "accuracy", "train") == [(1, 0.5)]


def test_a_loss_that_is_no_number_is_a_gap() -> None:
    vm = CurvesViewModel()
    vm.take(step(1, loss=math.nan))
    vm.take(step(2, loss=1.0))
    assert math.isnan(points(vm, "loss", "train")[0][1])
    assert not vm.empty


def test_many_events_tell_the_view_once(qtbot: QtBot) -> None:
    vm = CurvesViewModel()
    told: list[int] = []
    vm.data_changed.connect(lambda: told.append(1))
    for number in range(1, 500):
        vm.take(step(number))
    vm.flush()
    vm.flush()
    assert told == [1]


def test_a_new_run_begins_empty_and_a_resumed_one_goes_on() -> None:
    vm = CurvesViewModel()
    vm.take(started(RUN))
    for number in range(1, 8):
        vm.take(step(number))
    for number, best in ((2, True), (6, True)):
        vm.take(validation(number, best=best))
    vm.mark(6, "an alert")
    vm.take(started(RUN, session=2, resumed_from=4))
    assert [x for x, _ in points(vm, "loss", "train")] == [1, 2, 3, 4]
    assert (vm.best_step, vm.alerts) == (2, {})
    vm.take(step(5, loss=9.0))
    assert [x for x, _ in points(vm, "loss", "train")] == [1, 2, 3, 4, 5]
    assert points(vm, "loss", "train")[-1] == (5, 9.0)
    vm.take(started(RUN, session=3, resumed_from=0))
    assert vm.empty
    vm.take(step(1))
    vm.take(started(RUN))
    assert vm.empty


def test_the_last_best_validation_is_remembered() -> None:
    vm = CurvesViewModel()
    for number, best in ((0, True), (5, True), (10, False)):
        vm.take(validation(number, best=best))
    assert vm.best_step == 5


def test_smoothing_leaves_the_learning_rate_and_validations_alone() -> None:
    vm = CurvesViewModel()
    vm.set_smoothing(5.0)
    assert vm.smoothing == LARGEST_SMOOTHING
    smoothed = {
        (plot.key, curve.role)
        for plot in PLOTS
        for curve in plot.curves
        if vm.series(plot, curve).smoothing > 0
    }
    assert ("loss", "train") in smoothed
    assert ("learning_rate", "train") not in smoothed
    assert not [role for _, role in smoothed if role == "valid"]


def test_a_new_method_asks_for_another_layout(qtbot: QtBot) -> None:
    vm = CurvesViewModel()
    with qtbot.waitSignal(vm.layout_changed, timeout=500):
        vm.take(started(RUN, method="dpo"))
    with qtbot.assertNotEmitted(vm.layout_changed):
        vm.set_method("dpo")


def test_cpo_has_an_nll_among_its_plots(qtbot: QtBot) -> None:
    vm = CurvesViewModel()
    vm.take(started(RUN, method="dpo"))
    assert "nll" not in [plot.key for plot in vm.plots("training")]
    with_nll = started(RUN, method="dpo")
    with_nll.config["preference_loss"] = "cpo"
    vm.take(with_nll)
    keys = [plot.key for plot in vm.plots("training")]
    assert "nll" in keys
    assert "accuracy" in keys
    assert "or" not in keys
