"""A run that was stopped or killed goes on as if nothing had been."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from safetensors.numpy import load_file

from tests.core.runs import GOLDEN, Ran, fresh_config, run, small_config, warm_adapter
from tests.core.same_run import arrays, differences, told
from trainer_core.config import RunConfig
from trainer_core.config_io import load_config
from trainer_core.control import Control
from trainer_core.errors import ConfigError, TrainerError
from trainer_core.events import (
    Checkpoint,
    Data,
    Event,
    Paused,
    Resumed,
    Sample,
    Stage,
    Started,
    Step,
    Validation,
    Warned,
)
from trainer_core.run_lock import is_locked
from trainer_core.runfolder import RunFolder, read_events

STEPS = 8


class Killed(BaseException):
    """Stands for kill -9: nothing of ours catches it."""


def kill_after(config: RunConfig, step: int, event: type[Event] = Step) -> RunFolder:
    """Run until this step was told of, and be killed there."""
    seen: list[Any] = []

    def when(told: Event) -> None:
        seen.append(told)
        if isinstance(told, event) and getattr(told, "step", step) == step:
            raise Killed

    with pytest.raises(Killed):
        run(config, when=when)
    return RunFolder(Path(next(event.run for event in seen if isinstance(event, Started))))


def resumed(folder: RunFolder, **more: Any) -> Ran:
    return run(load_config(None, {"resume": str(folder.path), **more}))


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("sft", {}),
        ("orpo", {"dropout": 0.2}),
        ("dpo", {"lora_plus_ratio": 16.0, "dpo_reference": "base"}),
        ("orpo", {"rank_scaling": "by_kl", "rank": 4}),
        ("orpo", {"fine_tune_type": "dora", "rs_lora": True, "optimizer": "muon"}),
        ("sft", {"fine_tune_type": "full", "optimizer": "adafactor"}),
        ("sft", {"packing": True, "batch_size": 2, "max_seq_length": 64, "optimizer": "sgd"}),
        ("orpo", {"batch_size": 2, "group_by_length": True, "grad_accumulation_steps": 2}),
        ("dpo", {"segment_size": 1, "head": "flash", "optimizer": "adam"}),
        ("dpo", {"epochs": 1.1, "iters": None, "best_metric": "margin", "valid_fraction": 0.4}),
    ],
)
def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path, method: str, more: Any) -> None:
    given = {"iters": STEPS, "steps_per_eval": 2, "save_every": 3, "warmup_steps": 2}
    given |= {"sample_prompts": ["What is it?"], "sample_tokens": 4, **more}
    if more.get("optimizer") == "adam":
        given["weight_decay"] = RunConfig.model_fields["weight_decay"].default
    if more.get("fine_tune_type") == "full":
        given["rank"] = RunConfig.model_fields["rank"].default
    model = mixed_model(tmp_path) if more.get("rank_scaling") else GOLDEN / "llama"
    whole = run(fresh_config(tmp_path / "whole", method, model=str(model), **given)).folder
    killed = kill_after(fresh_config(tmp_path / "killed", method, model=str(model), **given), 5)
    assert resumed(killed).of(Started)[0].resumed_from == 3
    assert differences(killed, whole, STEPS) == []


def mixed_model(folder: Path) -> Path:
    """A model that records sensitivities, so that its adapter has layers of several ranks."""
    model = Path(shutil.copytree(GOLDEN / "llama", folder / "model"))
    names = list(load_file(model / "model.safetensors"))
    layers = [name.removesuffix(".weight") for name in names if "proj" in name]
    told = {layer: 0.1 * (1 + number) for number, layer in enumerate(layers)}
    (model / "sensitivities.json").write_text(json.dumps(list(told.items())))
    return model


def short(folder: Path, method: str = "orpo", **more: Any) -> RunConfig:
    return fresh_config(folder, method, **{"iters": STEPS, "save_every": 3, **more})


@pytest.mark.parametrize("at_once", [False, True])
def test_a_stopped_run_goes_on_bit_for_bit(tmp_path: Path, at_once: bool) -> None:
    prompts = {"sample_prompts": ["a", "b"], "sample_tokens": 3, "steps_per_eval": 2}
    control = Control()

    def when(event: Event) -> None:
        # At once, this leaves the validation of step 4 undone, which is then done first.
        if isinstance(event, Step) and event.step == 4:
            (control.stop_now if at_once else control.stop)()

    whole = run(short(tmp_path / "whole", **prompts)).folder
    stopped = run(short(tmp_path / "stopped", **prompts), control, when)
    assert stopped.finished is not None
    assert (stopped.finished.reason, stopped.finished.steps) == ("stopped", 4)
    again = resumed(stopped.folder)
    assert again.of(Started)[0].resumed_from == 4
    assert [event.step for event in again.of(Validation)] == ([4] if at_once else []) + [6, 8]
    assert differences(stopped.folder, whole, STEPS) == []


@pytest.mark.parametrize("method", ["sft", "dpo"])
def test_a_pause_gives_memory_back_and_changes_nothing(tmp_path: Path, method: str) -> None:
    given = {"dropout": 0.2, "sample_prompts": ["a"], "sample_tokens": 3}
    whole = run(short(tmp_path / "whole", method, **given)).folder
    control = Control()
    gc.collect()
    before = mx.get_active_memory()
    held: list[int] = []

    def when(event: Event) -> None:
        if isinstance(event, Step) and event.step in (2, 5):
            held.append(mx.get_active_memory() - before)
            control.pause()
        if isinstance(event, Paused):
            held.append(mx.get_active_memory() - before)
            if event.step == 5:
                control.sample(["the cat"], max_tokens=3)
            threading.Timer(0.2 if event.step == 2 else 1.5, control.resume).start()

    ran = run(short(tmp_path / "paused", method, **given), control, when)
    assert [event.step for event in ran.of(Paused)] == [2, 5]
    assert [event.step for event in ran.of(Resumed)] == [2, 5]
    asked = [event for event in ran.of(Sample) if event.prompt == "the cat"]
    assert [event.step for event in asked] == [5]
    weights = (GOLDEN / "llama" / "model.safetensors").stat().st_size
    assert held[0] > weights
    assert held[2] > weights
    assert held[1] < weights / 10
    assert held[3] < weights / 10
    assert len(ran.of(Started)) == 1
    assert [e for e in told(ran.folder) if e.get("prompt") != "the cat"] == told(whole)
    assert arrays(ran.folder.adapter).keys() == arrays(whole.adapter).keys()
    for name, array in arrays(whole.checkpoint(STEPS)).items():
        assert arrays(ran.folder.checkpoint(STEPS))[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("event", [Data, Validation, Checkpoint, Sample])
def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(
    tmp_path: Path, event: type[Event]
) -> None:
    prompts = {"sample_prompts": ["a"], "sample_tokens": 3}
    whole = run(short(tmp_path / "whole", "dpo", **prompts)).folder
    killed = kill_after(short(tmp_path / "killed", "dpo", **prompts), 0, event)
    assert resumed(killed).of(Started)[0].resumed_from == 0
    assert differences(killed, whole, STEPS) == []


@pytest.mark.parametrize("last", [Checkpoint, Stage])
def test_a_run_that_was_killed_after_its_last_step_only_saves(
    tmp_path: Path, last: type[Event]
) -> None:
    whole = run(short(tmp_path / "whole")).folder
    seen: list[Event] = []

    def when(event: Event) -> None:
        seen.append(event)
        steps = [e for e in seen if isinstance(e, Step)]
        saving = isinstance(event, Checkpoint) and event.step == STEPS and not event.best
        if isinstance(event, Stage) and len(steps) == STEPS and last is Stage:
            saving = event.message == "Saving the adapter"
        if saving:
            raise Killed

    with pytest.raises(Killed):
        run(short(tmp_path / "killed", run_name="r"), when=when)
    killed = RunFolder(tmp_path / "killed" / "r")
    ran = resumed(killed)
    assert not ran.of(Step)
    assert not ran.of(Validation)
    assert differences(killed, whole, STEPS) == []


def test_a_warm_start_is_not_needed_any_more(tmp_path: Path) -> None:
    warm = warm_adapter(tmp_path / "warm")
    more: dict[str, Any] = {"warm_start": str(warm), "iters": STEPS, "save_every": 3}
    whole = run(small_config(tmp_path / "whole", "dpo", **more)).folder
    killed = kill_after(small_config(tmp_path / "killed", "dpo", **more), 5)
    shutil.rmtree(warm)
    resumed(killed)
    assert differences(killed, whole, STEPS) == []
    assert load_config(killed.config).warm_start == str(warm)


def test_more_and_fewer_steps(tmp_path: Path) -> None:
    more: dict[str, Any] = {"steps_per_eval": 2, "best_metric": "margin"}
    whole = run(short(tmp_path / "whole", **more)).folder
    half = run(short(tmp_path / "half", **{**more, "iters": 4})).folder
    few = kill_after(short(tmp_path / "few", **more), 6)
    # Margins grow, so best/ is of step 6 by now, which the shorter run never comes to.
    resumed(few, iters=4)
    assert differences(few, half, 4) == []
    resumed(half, iters=STEPS)
    assert differences(half, whole, STEPS) == []


def test_a_checkpoint_that_is_cut_short_is_passed_over(tmp_path: Path) -> None:
    more: dict[str, Any] = {"save_every": 2, "keep_checkpoints": 2}
    whole = run(short(tmp_path / "whole", **more)).folder
    killed = kill_after(short(tmp_path / "killed", **more), 7)
    file = killed.checkpoint(6) / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    ran = resumed(killed)
    assert ran.of(Started)[0].resumed_from == 4
    assert [w.message for w in ran.of(Warned) if w.code == "checkpoint"]
    assert differences(killed, whole, STEPS) == []
    assert killed.checkpoint_steps() == [6, 8]


def test_warnings_are_told_once_in_a_run(tmp_path: Path) -> None:
    killed = kill_after(short(tmp_path, rank_scaling="by_bits"), 5)
    before = [event for event in read_events(killed.events) if isinstance(event, Warned)]
    assert [event.code for event in before] == ["ranks"]
    assert not resumed(killed).of(Warned)


def test_what_a_kill_left_half_written_goes(tmp_path: Path) -> None:
    killed = kill_after(short(tmp_path), 5)
    (killed.checkpoints / ".step-6.abc").mkdir()
    (killed.path / ".passport.json.x").write_text("{")
    resumed(killed)
    assert {p.name for p in killed.path.rglob(".*")} == {".lock"}


def refusal(folder: RunFolder, **more: Any) -> TrainerError:
    """The error of an attempt that changes nothing."""
    files = [killed_file for killed_file in folder.checkpoints.rglob("*.*")]
    before = [file.read_bytes() for file in files]
    with pytest.raises(TrainerError) as caught:
        resumed(folder, **more)
    assert [file.read_bytes() for file in files] == before
    return caught.value


def test_other_rows_or_another_model_are_refused(tmp_path: Path) -> None:
    rows = Path(shutil.copy(GOLDEN / "llama" / "preference.jsonl", tmp_path / "rows.jsonl"))
    model = Path(shutil.copytree(GOLDEN / "llama", tmp_path / "model"))
    killed = kill_after(short(tmp_path / "runs", data=str(rows), model=str(model)), 5)
    text = rows.read_text()
    rows.write_text(text.replace("the", "thy", 1))
    assert str(refusal(killed)).startswith("rows.jsonl changed since the run began")
    rows.write_text(text)
    tokenizer = model / "tokenizer_config.json"
    was = tokenizer.read_text()
    tokenizer.write_text(json.dumps({**json.loads(was), "add_bos_token": True}))
    weights = model / "model.safetensors"
    bytes_ = bytearray(weights.read_bytes())
    bytes_[-1] ^= 1
    weights.write_bytes(bytes_)
    assert "the model's folder changed" in str(refusal(killed))
    bytes_[-1] ^= 1
    weights.write_bytes(bytes_)
    tokenizer.write_text(was)
    # The same rows and the same model elsewhere are as good.
    rows, model = rows.rename(tmp_path / "r2.jsonl"), model.rename(tmp_path / "m2")
    assert resumed(killed, data=str(rows), model=str(model)).finished is not None


def test_another_chat_template_is_refused(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    body = "{% for m in messages %}{{ m.content }} {% endfor %}"
    template.write_text(body)
    more = {"prompt_format": "chat", "chat_template": str(template)}
    killed = kill_after(short(tmp_path / "runs", "sft", **more), 5)
    template.write_text("x " + body)
    assert "how the rows are tokenised changed" in str(refusal(killed))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rank": 5}, "rank = 5 cannot be used with resume: the run has 2"),
        ({"seed": 9}, "seed = 9 cannot be used with resume: the run has 0"),
        ({"rnak": 5}, "there is no option rnak"),
        ({"iters": 0}, "iters = 0 is not allowed"),
        ({"iters": 2}, "is done: it is at step 3 of 2"),
    ],
)
def test_what_may_not_change(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    assert message in str(refusal(kill_after(short(tmp_path), 5), **given))


def test_what_the_run_has_already_may_be_said_again(tmp_path: Path) -> None:
    killed = kill_after(short(tmp_path), 5)
    again = resumed(killed, rank="2", weights="auto", learning_rate=None, save_every=2)
    assert again.finished is not None
    assert load_config(killed.config).save_every == 2
    assert load_config(killed.config).resume is None


def test_a_run_that_is_done_or_ended_early_does_not_go_on(tmp_path: Path) -> None:
    done = run(short(tmp_path / "a", iters=3)).folder
    assert "is done: it took its 3 steps" in str(refusal(done))
    # So small a rate changes no preference, and only a higher accuracy would be better.
    still: dict[str, Any] = {"learning_rate": 1e-9, "best_metric": "accuracy"}
    ran = run(short(tmp_path / "b", early_stop_patience=1, steps_per_eval=1, **still))
    assert ran.finished is not None
    assert ran.finished.reason == "early_stop"
    assert "validation no longer improved" in str(refusal(ran.folder))


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such folder"):
        resumed(RunFolder(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="is not a run folder"):
        resumed(RunFolder(tmp_path))
    killed = kill_after(short(tmp_path, "dpo"), 5)
    killed.reference.unlink()
    assert "DPO cannot go on without it" in str(refusal(killed))
    killed.passport.write_text("{}")
    assert "nothing tells whether model and rows are the same" in str(refusal(killed))
    for step in killed.checkpoint_steps():
        (killed.checkpoint(step) / "state.json").write_text("{")
    assert "no checkpoint of" in str(refusal(killed))


def test_a_second_process_on_a_run_is_refused(tmp_path: Path) -> None:
    killed = kill_after(short(tmp_path), 5)
    hold = (
        "import sys; from pathlib import Path; from trainer_core.run_lock import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold, str(killed.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert is_locked(killed.path)
        assert "another process trains in it" in str(refusal(killed))
        other.kill()
    assert not is_locked(killed.path)
    assert resumed(killed).finished is not None


def test_a_listener_that_fails_loses_no_step(tmp_path: Path) -> None:
    def when(event: Event) -> None:
        if isinstance(event, Step) and event.step == 5:
            raise ZeroDivisionError

    whole = run(short(tmp_path / "whole")).folder
    with pytest.raises(ZeroDivisionError):
        run(short(tmp_path / "fails", run_name="r"), when=when)
    failed = RunFolder(tmp_path / "fails" / "r")
    assert failed.checkpoint_steps() == [3, 5]
    assert resumed(failed).of(Started)[0].resumed_from == 5
    assert differences(failed, whole, STEPS) == []
