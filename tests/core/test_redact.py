"""No secret reaches a record, an event, a log or a report."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from app.crash import log_to_file
from app.diagnostics import diagnostics
from tests.core.runs import fresh_config
from trainer_core.cli.outcome import guarded
from trainer_core.events import Failed, Warned, to_json_line
from trainer_core.faults import failed_event
from trainer_core.redact import without_person, without_secrets
from trainer_core.run import train

SECRET = "s3cr3t-Value-0123456789"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("USE_TOKENS", "true")
    monkeypatch.setenv("EDITOR", "an-editor-of-some-length")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"a {SECRET} b", "a [secret] b"),
        ("hf_abcdefghijklmnop", "[secret]"),
        ("https://me:pass1234@host/x", "https://[secret]@host/x"),
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [secret]"),
        ("it is true that an-editor-of-some-length opens", None),
        ("half_finished, hf_x and https://host:8080/a@b", None),
    ],
)
def test_what_is_taken_out(text: str, left: str | None) -> None:
    assert without_secrets(text) == (text if left is None else left)


def test_events_and_failures_have_none() -> None:
    assert SECRET not in to_json_line(Warned("w", f"told {SECRET}"))
    failed = failed_event(RuntimeError(f"401 for {SECRET}"))
    assert SECRET not in failed.why
    assert isinstance(failed, Failed)


def test_a_run_folder_has_none(tmp_path: Path) -> None:
    train(fresh_config(tmp_path, iters=2), print)
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


def test_the_command_line_and_its_log_have_none(
    dirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise ZeroDivisionError(f"while using {SECRET}")

    assert guarded(fail) == 1
    assert SECRET not in capsys.readouterr().err
    (log,) = dirs.rglob("faults.log")
    assert "while using [secret]" in log.read_text()


def test_the_log_of_the_app_has_none(tmp_path: Path) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        log_to_file(tmp_path / "burnish.log")
        try:
            raise ValueError(SECRET)
        except ValueError:
            logging.getLogger("x").exception("failed with %s", SECRET)
    finally:
        for handler in [h for h in root.handlers if h not in before]:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
    text = (tmp_path / "burnish.log").read_text()
    assert "failed with [secret]" in text
    assert SECRET not in text


def test_diagnostics_have_neither_secrets_nor_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "adalovelace"))
    monkeypatch.setattr("getpass.getuser", lambda: "adalovelace")
    log = tmp_path / "burnish.log"
    log.write_text(f"old\n{'x' * 30_000}\n{Path.home()}/runs of adalovelace, {SECRET}\n")
    text = diagnostics(log, "Some CPU", ["12:00:00 Training done"])
    assert "mlx 0." in text
    assert "Device: Some CPU" in text
    assert "12:00:00 Training done" in text
    assert "~/runs of [user], [secret]" in text
    assert "adalovelace" not in text
    assert SECRET not in text
    assert "cannot be read" in diagnostics(tmp_path / "none.log", "", [])
    assert without_person("plain") == "plain"
