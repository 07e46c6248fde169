"""The loop: what may be asked of it while it runs, how it ends, and what it leaves behind."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from tests.core.runs import GOLDEN, fresh_config, run, small_config
from trainer_core import loop, step
from trainer_core.control import Control, SampleRequest
from trainer_core.events import (
    Checkpoint,
    Event,
    Paused,
    Resumed,
    Sample,
    SamplePiece,
    Stage,
    Step,
    Validation,
    Warned,
)
from trainer_core.model.open_policy import open_with_adapter


def at_step(number: int, do: Callable[[], None]) -> Callable[[Event], None]:
    def when(event: Event) -> None:
        if isinstance(event, Step) and event.step == number:
            do()

    return when


def loads(folder: Path) -> None:
    assert (folder / "adapters.safetensors").exists()
    open_with_adapter(GOLDEN / "llama", folder, "keep")


def written_step(folder: Path) -> int:
    return json.loads((folder / "adapter_config.json").read_text())["step"]


def test_a_run_leaves_its_adapter_the_best_and_the_newest_checkpoints(tmp_path: Path) -> None:
    ran = run(small_config(tmp_path, iters=7, save_every=1, keep_checkpoints=2, steps_per_eval=2))
    folder = ran.folder
    assert folder.checkpoint_steps() == [6, 7]
    assert written_step(folder.adapter) == 7
    for path in (folder.adapter, folder.best, folder.checkpoint(6), folder.checkpoint(7)):
        loads(path)
    assert sorted(p.name for p in folder.checkpoint(6).iterdir()) == [
        "adapter_config.json",
        "adapters.safetensors",
        "chat.json",
        "optimizer.safetensors",
        "state.json",
    ]
    state = json.loads((folder.checkpoint(6) / "state.json").read_text())
    validations = ran.of(Validation)
    assert [v.step for v in validations] == [0, 2, 4, 6, 7]
    best = min(validations, key=lambda v: v.loss)
    before = min((v for v in validations if v.step <= 6), key=lambda v: v.loss)
    assert state["step"] == 6
    assert state["best_step"] == before.step
    assert state["best_value"] == before.loss
    assert ran.finished is not None
    assert ran.finished.best_step == best.step == written_step(folder.best)
    told = ran.of(Checkpoint)
    assert [c.step for c in told if not c.best] == [1, 2, 3, 4, 5, 6, 7]
    assert [c.step for c in told if c.best] == [v.step for v in validations if v.best]
    moments = load_file(folder.checkpoint(6) / "optimizer.safetensors")
    assert int(moments["step"]) == 6


def test_without_validation_the_best_is_the_last(tmp_path: Path) -> None:
    ran = run(small_config(tmp_path, valid_fraction=0))
    assert ran.of(Validation) == []
    assert ran.finished is not None
    assert ran.finished.best_step == 3
    last = ran.folder.adapter / "adapters.safetensors"
    assert (ran.folder.best / "adapters.safetensors").read_bytes() == last.read_bytes()


@pytest.mark.parametrize("size", [(1, 1), (3, 1), (2, 3), (50, 2)])
def test_validation_does_not_depend_on_the_batch(tmp_path: Path, size: tuple[int, int]) -> None:
    batch_size, accumulation = size
    first = run(
        small_config(
            tmp_path,
            iters=1,
            valid_fraction=0.5,
            batch_size=batch_size,
            grad_accumulation_steps=accumulation,
        )
    ).of(Validation)[0]
    plain = run(small_config(tmp_path, iters=1, valid_fraction=0.5)).of(Validation)[0]
    assert (first.loss, first.nll, first.odds_loss, first.accuracy, first.margin) == (
        plain.loss,
        plain.nll,
        plain.odds_loss,
        plain.accuracy,
        plain.margin,
    )
    assert first.rows_used == 6


def test_val_rows_limits_validation(tmp_path: Path) -> None:
    for val_rows, used in ((2, 2), (0, 6), (100, 6)):
        ran = run(small_config(tmp_path, iters=1, valid_fraction=0.5, val_rows=val_rows))
        assert {v.rows_used for v in ran.of(Validation)} == {used}


def test_epochs_count_rows(tmp_path: Path) -> None:
    ran = run(
        fresh_config(tmp_path, "sft", epochs=1.5, batch_size=2, valid_fraction=0.25, shuffle=True)
    )
    # 9 rows in batches of 2 are 5 steps an epoch; a half epoch is started as 2.5 steps.
    assert [round(event.epoch, 3) for event in ran.of(Step)] == [
        *(0.222, 0.444, 0.667, 0.889, 1.0),
        *(1.222, 1.444, 1.667),
    ]


def test_reports_come_every_n_steps_and_at_the_end(tmp_path: Path) -> None:
    every = run(small_config(tmp_path, iters=5))
    some = run(small_config(tmp_path, iters=5, steps_per_report=3))
    assert [event.step for event in some.of(Step)] == [3, 5]
    steps = {event.step: event for event in every.of(Step)}
    for event in some.of(Step):
        assert (event.loss, event.tokens) == (steps[event.step].loss, steps[event.step].tokens)


def test_stops_early_when_nothing_improves(tmp_path: Path) -> None:
    config = small_config(
        tmp_path,
        iters=20,
        steps_per_eval=1,
        early_stop_patience=2,
        learning_rate=0.2,
        best_metric="loss",
    )
    ran = run(config)
    assert ran.finished is not None
    assert ran.finished.reason == "early_stop"
    validations = ran.of(Validation)
    best = max(v.step for v in validations if v.best)
    assert ran.finished.best_step == best
    assert ran.finished.steps == validations[-1].step == best + 2
    loads(ran.folder.best)


@pytest.mark.parametrize("metric", ["loss", "accuracy", "margin"])
def test_the_best_is_the_best_by_the_metric_that_was_asked_for(tmp_path: Path, metric: str) -> None:
    ran = run(
        small_config(
            tmp_path, iters=12, steps_per_eval=1, learning_rate=0.02, best_metric=metric, seed=3
        )
    )
    sign = -1 if metric == "loss" else 1
    highest: float | None = None
    wanted: list[int] = []
    for event in ran.of(Validation):
        value = sign * getattr(event, metric)
        assert value == value, "a validation was not finite"
        if highest is None or value > highest:
            highest = value
            wanted.append(event.step)
    assert [event.step for event in ran.of(Validation) if event.best] == wanted
    assert ran.finished is not None
    assert ran.finished.best_step == wanted[-1]
    assert written_step(ran.folder.best) == wanted[-1]


@pytest.mark.parametrize("method", ["sft", "dpo", "orpo"])
def test_stop_ends_after_the_step_in_hand(tmp_path: Path, method: str) -> None:
    control = Control()
    ran = run(small_config(tmp_path, method, iters=50), control, at_step(2, control.stop))
    assert ran.finished is not None
    assert (ran.finished.reason, ran.finished.steps) == ("stopped", 2)
    assert [event.step for event in ran.of(Step)] == [1, 2]
    assert written_step(ran.folder.adapter) == 2
    loads(ran.folder.adapter)


def test_a_second_stop_gives_up_the_step_in_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control()
    config = small_config(tmp_path, iters=50, grad_accumulation_steps=3)
    plain = run(small_config(tmp_path, iters=2, grad_accumulation_steps=3))
    asked: list[int] = []
    real = step.StepMetrics.add

    def add(self: step.StepMetrics, *args: object) -> None:
        real(self, *args)  # type: ignore[arg-type]
        asked.append(1)
        if len(asked) == 7:  # the first micro-batch of the third step
            control.stop()
            control.stop()

    monkeypatch.setattr(step.StepMetrics, "add", add)
    ran = run(config, control)
    assert ran.finished is not None
    assert (ran.finished.reason, ran.finished.steps) == ("stopped", 2)
    assert len(asked) == 7
    ours, theirs = ((r.folder.adapter / "adapters.safetensors").read_bytes() for r in (ran, plain))
    assert ours == theirs


def test_stop_now_gives_up_validation(tmp_path: Path) -> None:
    control = Control()

    def when(event: Event) -> None:
        if isinstance(event, Stage) and event.stage == "validate":
            control.stop_now()

    ran = run(small_config(tmp_path, valid_fraction=0.75), control, when)
    assert ran.of(Validation) == []
    assert len([event for event in ran.of(Stage) if event.stage == "validate"]) == 1
    assert ran.finished is not None
    assert (ran.finished.reason, ran.finished.steps) == ("stopped", 0)
    loads(ran.folder.adapter)


def test_a_stop_before_the_start_trains_nothing(tmp_path: Path) -> None:
    control = Control()
    control.stop()
    ran = run(small_config(tmp_path), control)
    assert ran.finished is not None
    assert (ran.finished.reason, ran.finished.steps) == ("stopped", 0)
    assert ran.of(Validation) == []
    loads(ran.folder.adapter)


def test_pauses_until_resumed_from_another_thread(tmp_path: Path) -> None:
    control = Control()
    paused, went_on = threading.Event(), threading.Event()

    def other() -> None:
        assert paused.wait(60)
        assert not went_on.is_set()
        control.resume()

    def when(event: Event) -> None:
        at_step(1, control.pause)(event)
        if isinstance(event, Paused):
            paused.set()
        if isinstance(event, Step) and event.step == 2:
            went_on.set()

    thread = threading.Thread(target=other)
    thread.start()
    ran = run(small_config(tmp_path), control, when)
    thread.join(60)
    assert went_on.is_set()
    kinds = [type(event) for event in ran.events if isinstance(event, Step | Paused | Resumed)]
    assert kinds == [Step, Paused, Resumed, Step, Step]
    assert (ran.of(Paused), ran.of(Resumed)) == ([Paused(1)], [Resumed(1)])
    same = run(small_config(tmp_path))
    assert [e.loss for e in ran.of(Step)] == [e.loss for e in same.of(Step)]


def test_a_paused_run_saves_and_answers(tmp_path: Path) -> None:
    control = Control()
    paused, saved, answered = threading.Event(), threading.Event(), threading.Event()

    def other() -> None:
        assert paused.wait(60)
        assert saved.is_set()
        control.save_now()
        control.sample(["the cat"], max_tokens=3)
        assert answered.wait(60)
        control.resume()

    def when(event: Event) -> None:
        at_step(1, control.pause)(event)
        for kind, seen in ((Paused, paused), (Sample, answered)):
            if isinstance(event, kind):
                seen.set()
        if isinstance(event, Checkpoint) and not event.best:
            saved.set()

    thread = threading.Thread(target=other)
    thread.start()
    ran = run(small_config(tmp_path, iters=2), control, when)
    thread.join(60)
    kinds = (Step, Paused, Checkpoint, Sample, Resumed)
    told = [event for event in ran.events if isinstance(event, kinds)]
    told = [type(event) for event in told if not getattr(event, "best", False)]
    assert told == [Step, Checkpoint, Paused, Sample, Resumed, Step, Checkpoint]
    assert ran.folder.checkpoint_steps() == [1, 2]


def test_a_stop_ends_a_pause(tmp_path: Path) -> None:
    control = Control()
    paused = threading.Event()

    def other() -> None:
        assert paused.wait(60)
        control.stop()

    def when(event: Event) -> None:
        at_step(1, control.pause)(event)
        if isinstance(event, Paused):
            paused.set()

    thread = threading.Thread(target=other)
    thread.start()
    ran = run(small_config(tmp_path), control, when)
    thread.join(60)
    assert ran.finished is not None
    assert (ran.finished.reason, ran.finished.steps) == ("stopped", 1)
    assert ran.of(Resumed) == []


@pytest.mark.parametrize("number", [1, 3])
def test_saves_when_asked_also_at_the_last_step(tmp_path: Path, number: int) -> None:
    control = Control()
    ran = run(small_config(tmp_path), control, at_step(number, control.save_now))
    assert [c for c in ran.of(Checkpoint) if not c.best] == [
        Checkpoint(step, str(ran.folder.checkpoint(step))) for step in sorted({number, 3})
    ]
    loads(ran.folder.checkpoint(number))


def test_saves_at_least_every_five_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_SAVE_SECONDS", 0.0)
    assert run(small_config(tmp_path)).folder.checkpoint_steps() == [1, 2, 3]


@pytest.mark.parametrize("number", [1, 3])
def test_answers_prompts_with_the_adapter_as_it_stands(tmp_path: Path, number: int) -> None:
    from trainer_core.generate import generate

    control = Control()
    ask = at_step(number, lambda: control.sample(["the cat", "ünï"], max_tokens=6))
    ran = run(small_config(tmp_path, iters=3, save_every=1, learning_rate=0.05), control, ask)
    samples = ran.of(Sample)
    assert [(s.step, s.prompt) for s in samples] == [(number, "the cat"), (number, "ünï")]
    adapter = ran.folder.adapter if number == 3 else ran.folder.checkpoint(number)
    wanted = generate(
        str(GOLDEN / "llama"), ["the cat", "ünï"], adapter=adapter, max_tokens=6, raw=True
    )
    assert [s.text for s in samples] == [answer.text for answer in wanted]
    same = run(small_config(tmp_path, iters=3, learning_rate=0.05))
    assert [e.loss for e in ran.of(Step)] == [e.loss for e in same.of(Step)]


def test_fixed_prompts_are_answered_at_every_validation(tmp_path: Path) -> None:
    config = small_config(tmp_path, iters=3, steps_per_eval=2)
    prompts = {"sample_prompts": ["the cat", "b"], "sample_tokens": 4}
    ran = run(config.model_copy(update=prompts))
    assert [(s.step, s.prompt) for s in ran.of(Sample)] == [
        (step, prompt) for step in (0, 2, 3) for prompt in ("the cat", "b")
    ]
    plain = run(config)
    assert [e.loss for e in ran.of(Step)] == [e.loss for e in plain.of(Step)]


def test_hush_leaves_the_fixed_prompts_alone(tmp_path: Path) -> None:
    control = Control()
    config = small_config(tmp_path, iters=2, sample_prompts=["the cat"], sample_tokens=4)
    ran = run(config, control, at_step(1, control.hush))
    assert [s.step for s in ran.of(Sample)] == [0, 2]


def test_a_run_is_asked_beside_its_base_model(tmp_path: Path) -> None:
    control = Control()
    request = SampleRequest(("the cat",), 6, beside_base=True, streamed=True)
    ask = at_step(2, lambda: control.ask(request))
    ran = run(small_config(tmp_path, iters=2, learning_rate=0.05), control, ask)
    at_start = run(small_config(tmp_path, iters=1, sample_prompts=["the cat"], sample_tokens=6))
    base, tuned = ran.of(Sample)
    assert base.base
    assert base.text == at_start.of(Sample)[0].text
    assert tuned.text == run_answer(ran.folder.adapter)
    assert ran.of(SamplePiece)
    assert "sample_piece" not in ran.folder.events.read_text()


def run_answer(adapter: Path) -> str:
    """What mlx-lm's generation gives for an adapter."""
    from trainer_core.generate import generate

    answers = generate(str(GOLDEN / "llama"), ["the cat"], adapter=adapter, max_tokens=6, raw=True)
    return next(iter(answers)).text


def test_a_prompt_that_cannot_be_answered_ends_no_training(tmp_path: Path) -> None:
    control = Control()
    ran = run(small_config(tmp_path), control, at_step(1, lambda: control.sample([""])))
    assert ran.finished is not None
    assert ran.finished.steps == 3
    assert "the prompt is empty" in next(w for w in ran.of(Warned) if w.code == "sample").message
