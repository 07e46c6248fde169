"""`train` in a process of its own: events, exit codes, signals, what is written where."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from trainer_core.config_io import load_config
from trainer_core.events import Finished, Step
from trainer_core.runfolder import read_events


def golden_losses(golden: Path) -> list[float]:
    steps = json.loads((golden / "llama" / "golden_orpo.json").read_text())
    return [step["loss"] for step in (steps["steps"] if isinstance(steps, dict) else steps)]


def only_run(tmp_path: Path) -> Path:
    (run,) = (tmp_path / "runs").iterdir()
    return run


def adapter_of(run: Path) -> dict:
    return load_file(run / "adapter" / "adapters.safetensors")


def test_events_alone_reach_standard_output_and_give_trls_losses(burnish, config, golden, tmp_path):
    ran = burnish("train", config, "--set", "iters=12", "--events", "-")
    assert (ran.code, ran.err) == (0, "")
    names = [event["event"] for event in ran.events]
    assert names[0] == "started"
    assert names[-1] == "finished"
    losses = [event["loss"] for event in ran.events if event["event"] == "step"]
    assert losses == pytest.approx(golden_losses(golden), rel=1e-5)
    run = only_run(tmp_path)
    assert (run / "events.jsonl").read_text() == ran.out
    assert ran.events[-1]["adapter"] == str(run / "adapter")
    assert adapter_of(run)


def test_plain_output_has_a_line_a_step_and_says_where_the_adapter_is(burnish, config, tmp_path):
    ran = burnish("train", config)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert [line.split("  ")[0] for line in lines if line.startswith("step ")] == [
        "step 1/3",
        "step 2/3",
        "step 3/3",
    ]
    assert "\x1b" not in ran.out
    assert f"Adapter: {only_run(tmp_path) / 'adapter'}" in lines


def test_events_can_go_to_a_file_beside_the_display(burnish, config, tmp_path):
    ran = burnish("train", config, "--events", tmp_path / "ev.jsonl")
    assert ran.code == 0
    assert "step 3/3" in ran.out
    assert (tmp_path / "ev.jsonl").read_text() == (only_run(tmp_path) / "events.jsonl").read_text()


def test_options_alone_make_a_run(burnish, golden, tmp_path):
    llama = golden / "llama"
    sets = [f"model={llama}", f"data={llama / 'preference.jsonl'}", "prompt_format=raw", "iters=1"]
    sets += [f"output={tmp_path / 'runs'}", "run_name=mine", "rank=2"]
    ran = burnish("train", *(part for item in sets for part in ("--set", item)))
    assert ran.code == 0, ran.err
    assert load_config(tmp_path / "runs" / "mine" / "config.yaml").rank == 2


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("rank=0", "burnish: rank = 0 is not allowed: must be a whole number from 1 to 1024."),
        ("lerning=1", "no option lerning"),
        ("num_layers=9", "num_layers is 9, but the adapter in"),
        ("model=/nowhere", "/nowhere"),
        ("data=/nowhere.jsonl", "/nowhere.jsonl"),
        ("warm_start=/nowhere", "/nowhere"),
        ("target_modules=nope", "nope"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(burnish, config, tmp_path, setting, sentence):
    ran = burnish("train", config, "--events", "-", "--set", setting)
    assert ran.code == 2
    assert sentence in ran.err
    assert len(ran.err.splitlines()) == 1
    assert [event["event"] for event in ran.events].count("failed") == 1
    assert ran.events[-1]["event"] == "failed"
    assert not list((tmp_path / "runs").glob("*"))


def test_bad_rows_are_named_with_file_and_line(burnish, config, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\nnonsense\n')
    ran = burnish("train", config, "--set", f"data={rows}")
    assert ran.code == 2
    assert f"{rows}:2:" in ran.err
    assert "Traceback" not in ran.err


def test_a_file_for_the_events_that_cannot_be_written(burnish, config, tmp_path):
    ran = burnish("train", config, "--events", tmp_path)
    assert ran.code == 2
    assert "cannot write the events" in ran.err


@pytest.mark.parametrize("arguments", [[], ["fly"], ["train", "--speed"], ["train", "a", "b"]])
def test_wrong_arguments_are_code_2(burnish, arguments):
    ran = burnish(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "usage:" in ran.err


def test_a_fault_of_ours_is_one_sentence_code_1_and_a_log(environment, config, tmp_path):
    # A fault where nobody expects one: the engine's own function for steps is gone.
    script = (
        "import sys, trainer_core.run as run\n"
        "def broken(*_): raise ZeroDivisionError('boom')\n"
        "run.read_rows = broken\n"
        "from trainer_core.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "train", str(config)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=100,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    log = Path(done.stderr.rsplit(" ", 1)[1].strip().rstrip("."))
    assert "ZeroDivisionError: boom" in log.read_text()
    assert "Traceback" in log.read_text()


def test_stray_prints_do_not_reach_the_event_stream(environment, config):
    script = (
        "import os, sys\n"
        "import trainer_core.run as run\n"
        "real = run.read_rows\n"
        "def chatty(config):\n"
        "    print('stray print')\n"
        "    os.write(1, b'stray write\\n')\n"
        "    os.system('echo stray child')\n"
        "    return real(config)\n"
        "run.read_rows = chatty\n"
        "from trainer_core.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "train", str(config), "--events", "-"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=100,
    )
    assert done.returncode == 0
    assert all(json.loads(line)["event"] for line in done.stdout.splitlines())
    assert sorted(done.stderr.splitlines()) == ["stray child", "stray print", "stray write"]


class Running:
    """A training process whose events are read as they come."""

    def __init__(self, config: Path, environment: dict[str, str], *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "trainer_core", "train", str(config), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def wait_for_step(self, number: int) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            record = json.loads(line)
            if record["event"] == "step" and record["step"] >= number:
                return
        raise AssertionError(f"ended before step {number}: {self.process.communicate()}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_the_step_with_a_usable_adapter(environment, config, tmp_path, number):
    running = Running(config, environment, "--set", "iters=5000", "--events", "-")
    running.wait_for_step(2)
    running.process.send_signal(number)
    _, err = running.process.communicate(timeout=60)
    assert running.process.returncode == 3
    assert err.splitlines() == ["Stopping after this step. Once more to stop at once."]
    events = read_events(only_run(tmp_path) / "events.jsonl")
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.reason == "stopped"
    assert last.steps == max(e.step for e in events if isinstance(e, Step)) < 5000
    assert adapter_of(only_run(tmp_path))


def test_a_second_signal_stops_at_once_with_a_usable_adapter(environment, config, tmp_path):
    running = Running(config, environment, "--set", "iters=5000", "--events", "-")
    running.wait_for_step(1)
    running.process.send_signal(signal.SIGINT)
    running.process.send_signal(signal.SIGTERM)
    running.process.communicate(timeout=60)
    assert running.process.returncode == 3
    assert adapter_of(only_run(tmp_path))


def test_a_reader_that_goes_away_stops_the_run(environment, config, tmp_path):
    running = Running(config, environment, "--set", "iters=5000", "--events", "-")
    running.wait_for_step(1)
    assert running.process.stdout
    assert running.process.stderr
    running.process.stdout.close()
    assert running.process.wait(60) == 3
    assert running.process.stderr.read() == ""
    running.process.stderr.close()
    assert adapter_of(only_run(tmp_path))


def test_a_terminal_gets_a_live_display(environment, config, tmp_path):
    control, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "trainer_core", "train", str(config)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**environment, "TERM": "xterm-256color"},
    )
    os.close(terminal)
    shown = _read_all(control, process)
    assert process.wait(10) == 0
    for part in ("ORPO on llama", "step 3 of 3", "accuracy", "tokens/s", "▁", "\x1b["):
        assert part in shown
    assert f"Adapter: {only_run(tmp_path) / 'adapter'}" in shown.replace("\r\n", "\n")


def _read_all(control: int, process: subprocess.Popen) -> str:
    shown, end = b"", time.monotonic() + 100
    while time.monotonic() < end:
        ready, _, _ = select.select([control], [], [], 0.2)
        if ready:
            try:
                part = os.read(control, 65536)
            except OSError:  # the child has closed its end
                break
            shown += part
        elif process.poll() is not None:
            break
    os.close(control)
    return shown.decode()
