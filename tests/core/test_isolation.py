"""A run in a process of its own: the same events and wishes; its death and its hang are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.core.runs import Ran, fresh_config, run
from tests.core.same_run import differences, told
from trainer_core.config import RunConfig
from trainer_core.config_io import load_config
from trainer_core.control import Control
from trainer_core.errors import OutOfMemoryError, TrainerError
from trainer_core.events import (
    Checkpoint,
    Event,
    Failed,
    Paused,
    Resumed,
    Sample,
    SamplePiece,
    Stage,
    Step,
)
from trainer_core.isolation import parent
from trainer_core.isolation.parent import train_in_process
from trainer_core.runfolder import RunFolder

STEPS = 6
LONG = 60


def short(folder: Path, **more: Any) -> RunConfig:
    return fresh_config(folder, "orpo", iters=STEPS, save_every=2, run_name="r", **more)


def isolated(
    config: RunConfig,
    control: Control | None = None,
    when: Callable[[Event], None] | None = None,
    **more: Any,
) -> Ran:
    return run(config, control, when, engine=partial(train_in_process, **more))


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_it_is_the_same_run(tmp_path: Path) -> None:
    whole = run(short(tmp_path / "here")).folder
    ran = isolated(short(tmp_path / "there"))
    assert differences(ran.folder, whole, STEPS) == []
    steps = [event for event in told(ran.folder) if event["event"] == "step"]
    assert [event.loss for event in ran.of(Step)] == [event["loss"] for event in steps]
    assert not children()


def test_wishes_reach_it(tmp_path: Path) -> None:
    control = Control()

    def when(event: Event) -> None:
        match event:
            case Step(step=1):
                control.pause()
            case Paused():
                control.sample(["the cat"], max_tokens=2)
            case Sample():
                control.resume()
            case Step(step=3):
                control.save_now()
            case Checkpoint(best=False, step=step) if step >= 3:
                control.stop()

    # So many steps that no wish can come too late.
    endless = {"iters": 100_000, "save_every": 100_000}
    ran = isolated(short(tmp_path).model_copy(update=endless), control, when)
    assert ran.finished is not None
    assert ran.finished.reason == "stopped"
    assert 3 <= ran.finished.steps < 100_000
    assert len(ran.of(Paused)) == len(ran.of(Resumed)) == len(ran.of(Sample)) == 1
    assert not ran.of(SamplePiece)


def test_a_stop_at_once_gives_the_step_up(tmp_path: Path) -> None:
    control = Control()

    def when(event: Event) -> None:
        if isinstance(event, Step) and event.step == 2:
            control.stop_now()

    ran = isolated(short(tmp_path).model_copy(update={"iters": 100_000}), control, when)
    assert ran.finished is not None
    assert ran.finished.reason == "stopped"


@pytest.mark.parametrize(
    ("number", "kind", "what"),
    [
        (signal.SIGKILL, OutOfMemoryError, "was killed from outside"),
        (signal.SIGABRT, TrainerError, "ended by signal SIGABRT"),
        (signal.SIGSEGV, TrainerError, "ended by signal SIGSEGV"),
    ],
)
def test_a_death_is_told_and_the_run_can_go_on(
    tmp_path: Path, number: signal.Signals, kind: type[TrainerError], what: str
) -> None:
    more = {"iters": LONG, "save_every": 10}  # so that it is not over when the signal comes
    whole = run(short(tmp_path / "here").model_copy(update=more)).folder
    seen: list[Event] = []

    def when(event: Event) -> None:
        seen.append(event)
        if isinstance(event, Step) and event.step == 3:
            (child,) = children()
            child.send_signal(number)
            while child.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)

    with pytest.raises(kind, match=what) as caught:
        isolated(short(tmp_path / "there").model_copy(update=more), when=when)
    assert type(caught.value) is kind
    assert "continue the run from its last checkpoint" in caught.value.try_this
    assert isinstance(seen[-1], Failed)
    assert seen[-1].kind == ("memory" if kind is OutOfMemoryError else None)
    killed = RunFolder(tmp_path / "there" / "r")
    isolated(load_config(None, {"resume": str(killed.path), "isolation": "process"}))
    assert differences(killed, whole, LONG) == []


def test_an_error_of_the_user_is_told_as_it_is(tmp_path: Path) -> None:
    seen: list[Event] = []
    with pytest.raises(TrainerError, match="there is no model at nowhere"):
        train_in_process(short(tmp_path, model="nowhere"), seen.append)
    assert [event.name for event in seen] == ["failed"]


def test_memory_that_runs_out_is_told_by_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "[METAL] Command buffer execution failed: Insufficient Memory"
    monkeypatch.setattr(
        parent.sys, "executable", str(script(tmp_path, f"echo '{said}' >&2; kill -6 $$"))
    )
    with pytest.raises(OutOfMemoryError, match="memory ran out"):
        train_in_process(short(tmp_path), lambda _: None)


def test_a_child_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent.sys, "executable", str(script(tmp_path, "exec sleep 1000")))
    with pytest.raises(TrainerError, match="told nothing for 0 minutes and was ended"):
        train_in_process(short(tmp_path), lambda _: None, hang_s=0.3)
    assert not children()


def test_a_child_that_computes_in_silence_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = "end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done; exit 1"
    monkeypatch.setattr(parent.sys, "executable", str(script(tmp_path, busy)))
    with pytest.raises(TrainerError, match="ended with exit code 1"):
        train_in_process(short(tmp_path), lambda _: None, hang_s=0.3)


@pytest.mark.parametrize("said", ["there is room for memory tests", "zoom failed"])
def test_a_word_that_looks_like_memory_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    body = f"echo '{said}' >&2; kill -6 $$"
    monkeypatch.setattr(parent.sys, "executable", str(script(tmp_path, body)))
    with pytest.raises(TrainerError, match="ended by signal SIGABRT") as caught:
        train_in_process(short(tmp_path), lambda _: None)
    assert not isinstance(caught.value, OutOfMemoryError)


def script(folder: Path, body: str) -> Path:
    file = folder / "python"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return file


def test_what_it_prints_is_no_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = '{"event": "stage", "stage": "load"}'
    body = f"echo nonsense; echo '{good}'; echo '{{\"event\": \"st'; exit 1"
    monkeypatch.setattr(parent.sys, "executable", str(script(tmp_path, body)))
    seen: list[Event] = []
    with pytest.raises(TrainerError, match="ended with exit code 1"):
        train_in_process(short(tmp_path), seen.append)
    assert isinstance(seen[0], Stage)


def test_a_child_whose_parent_is_gone_stops_and_saves(tmp_path: Path) -> None:
    """The parent is killed; nobody reads what the child says any more."""
    code = (
        "import sys, os; from trainer_core.config import RunConfig;"
        "from trainer_core.isolation.parent import train_in_process;"
        "from trainer_core.events import Step;"
        "import psutil\n"
        "def emit(e):\n"
        "    if isinstance(e, Step) and e.step == 3:\n"
        "        print(psutil.Process().children()[0].pid, flush=True); os.kill(os.getpid(), 9)\n"
        "train_in_process(RunConfig.model_validate_json(sys.argv[1]), emit)"
    )
    config = short(tmp_path).model_copy(update={"iters": 100_000})
    told_json = config.model_dump_json(exclude_unset=True)
    done = subprocess.run([sys.executable, "-c", code, told_json], capture_output=True, text=True)
    child = psutil.Process(int(done.stdout)) if psutil.pid_exists(int(done.stdout)) else None
    ends = time.monotonic() + 60
    while child is not None and child.is_running() and time.monotonic() < ends:
        if child.status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.05)
    folder = RunFolder(tmp_path / "r")
    assert (folder.adapter / "adapters.safetensors").exists()
    assert folder.checkpoint_steps()


def test_no_token_reaches_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    environment = parent.child_environment(os.environ)
    assert "hf_secret" not in environment.values()
    assert environment["PATH"] == os.environ["PATH"]


def test_no_thread_is_left(tmp_path: Path) -> None:
    before = threading.active_count()
    isolated(short(tmp_path))
    assert threading.active_count() == before
