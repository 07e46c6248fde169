"""Run folders: distinct, never half written, and read back as the run's history."""

import stat
from pathlib import Path

import pytest

from trainer_core.config import RunConfig
from trainer_core.config_io import load_config
from trainer_core.errors import TrainerError
from trainer_core.events import Finished, Started, Step, Validation, Warned
from trainer_core.runfolder import (
    EventLog,
    RunFolder,
    default_runs_folder,
    read_events,
    replaced_folder,
    write_atomically,
)


def config(folder: Path, **values) -> RunConfig:
    return RunConfig(model="org/Some Model", data="d", output=str(folder), **values)


def started(session: int = 1, resumed_from: int | None = None) -> Started:
    return Started(
        run="r", config={}, device="d", versions={}, session=session, resumed_from=resumed_from
    )


def step(number: int, loss: float) -> Step:
    return Step(number, loss, 1.0, 1e-4, 10.0, 5.0, 100, 0.1, 20, 0.5)


def record(path: Path, *events) -> Path:
    with EventLog(path) as log:
        for event in events:
            log.append(event)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_name_tells_date_method_and_model(tmp_path):
    run = RunFolder.create(config(tmp_path, method="orpo"))
    assert run.path.parent == tmp_path
    assert run.path.name.endswith("-orpo-Some-Model")
    assert run.path.name[:2] == "20"


def test_a_run_never_takes_another_runs_folder(tmp_path):
    made = [RunFolder.create(config(tmp_path, run_name="Ünï run")).path.name for _ in range(3)]
    assert made == ["Ünï run", "Ünï run-2", "Ünï run-3"]


def test_a_file_of_that_name_is_left_alone(tmp_path):
    (tmp_path / "x").write_text("mine")
    assert RunFolder.create(config(tmp_path, run_name="x")).path.name == "x-2"
    assert (tmp_path / "x").read_text() == "mine"


def test_a_model_with_a_strange_name_stays_inside_the_runs_folder(tmp_path):
    strange = RunConfig(model="/m/..", data="d", output=str(tmp_path))
    assert RunFolder.create(strange).path.parent == tmp_path


def test_the_config_in_the_folder_is_what_was_given(tmp_path):
    asked = config(tmp_path, method="dpo", rank=3)
    assert load_config(RunFolder.create(asked).config) == asked


def test_runs_go_to_the_users_data_folder_by_default(dirs):
    made = RunFolder.create(RunConfig(model="m", data="d"))
    assert made.path.parent == default_runs_folder()
    assert dirs in made.path.parents
    assert default_runs_folder().parts[-2:] == ("burnish", "runs")


def test_a_runs_folder_that_cannot_be_made_is_the_users_to_mend(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TrainerError, match="Choose another `output`"):
        RunFolder.create(config(tmp_path / "file" / "runs"))


def test_checkpoints_are_listed_by_number(tmp_path):
    run = RunFolder(tmp_path)
    for name in ("step-100", "step-20", "step-3.tmp", "other"):
        (run.checkpoints / name).mkdir(parents=True)
    assert run.checkpoint_steps() == [20, 100]
    assert run.checkpoint(20) == tmp_path / "checkpoints" / "step-20"


def test_an_atomic_write_leaves_nothing_but_the_file(tmp_path):
    path = tmp_path / "a.json"
    write_atomically(path, "old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.json"]


def test_a_replaced_folder_is_whole_or_untouched(tmp_path):
    best = tmp_path / "best"
    for content in ("one", "two"):
        with replaced_folder(best) as fresh:
            (fresh / "sub").mkdir()
            (fresh / "sub" / "weights").write_text(content)
            assert not best.exists() or content == "two"
    with pytest.raises(FileNotFoundError), replaced_folder(best) as fresh:
        (fresh / "missing" / "half").touch()
    assert names(tmp_path) == ["best"]
    assert names(best) == ["sub"]
    assert (best / "sub" / "weights").read_text() == "two"


def test_events_can_be_read_while_the_run_goes_on(tmp_path):
    path = tmp_path / "events.jsonl"
    with EventLog(path) as log:
        log.append(step(1, 2.0))
        assert read_events(path) == [step(1, 2.0)]


def test_a_later_session_replaces_the_steps_that_it_took_again(tmp_path):
    path = record(
        tmp_path / "events.jsonl",
        started(),
        step(1, 5.0),
        step(2, 4.0),
        Validation(2, 4.0, 3, 0, 0.1, True),
        Warned("w", "kept"),
        step(3, 3.0),
    )
    record(path, started(2, resumed_from=1), step(2, 2.0))
    events = read_events(path)
    assert [(e.step, e.loss) for e in events if isinstance(e, Step)] == [(1, 5.0), (2, 2.0)]
    assert not [e for e in events if isinstance(e, Validation)]
    assert Warned("w", "kept") in events
    assert [e.session for e in events if isinstance(e, Started)] == [1, 2]


@pytest.mark.parametrize("torn", [b'{"event": "st', b'{"event": "step", "step": 3}', b"\xc3"])
def test_half_a_line_of_a_crash_is_passed_over(tmp_path, torn):
    path = record(tmp_path / "events.jsonl", started(), step(1, 5.0))
    with path.open("ab") as file:
        file.write(torn)
    assert read_events(path) == [started(), step(1, 5.0)]
    record(path, started(2, resumed_from=1), step(2, 4.0))
    assert read_events(path)[-2:] == [started(2, resumed_from=1), step(2, 4.0)]


def test_damage_in_the_middle_is_an_error_with_its_line(tmp_path):
    path = record(tmp_path / "events.jsonl", step(1, 5.0))
    with path.open("ab") as file:
        file.write(b"nonsense\n")
    record(path, step(2, 4.0))
    with pytest.raises(TrainerError, match=r"events.jsonl, line 2"):
        read_events(path)


def test_events_of_a_newer_version_are_passed_over(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "telepathy", "x": 1}\n')
    record(path, Finished("done", 1, "a", "r", 1.0))
    assert read_events(path) == [Finished("done", 1, "a", "r", 1.0)]


def test_a_folder_without_events_is_an_error(tmp_path):
    with pytest.raises(TrainerError, match="No such file"):
        read_events(tmp_path / "events.jsonl")
