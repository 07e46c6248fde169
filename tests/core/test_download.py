"""Downloads from a stand-in for Hugging Face: whole, stopped, refused, gone on with."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub_server import COMMIT, Hub, hub_server
from trainer_core import hub as downloads
from trainer_core.errors import ModelError
from trainer_core.events import Stage, from_json_line
from trainer_core.hub import model_id

ROOT = Path(__file__).resolve().parents[2]
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


@pytest.fixture
def served(golden: Path, tmp_path: Path) -> Iterator[Hub]:
    """The small llama on loopback, with files that nobody needs beside it."""
    folder = tmp_path / "served"
    folder.mkdir()
    for name in FILES:
        shutil.copy(golden / "llama" / name, folder)
    (folder / "pytorch_model.bin").write_bytes(b"x" * 1000)
    (folder / "modeling.py").write_text("raise SystemExit")
    with hub_server(folder) as hub:
        yield hub


def environment(hub: Hub, cache: Path, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "HF_ENDPOINT": hub.address,
        "HF_HUB_CACHE": str(cache),
        "HF_HUB_OFFLINE": "0",
        **more,
    }


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "trainer_core", "download", *args]


def run(env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*args), cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def test_a_download_is_found_by_the_engine(served: Hub, tmp_path: Path, golden: Path) -> None:
    env = environment(served, tmp_path / "cache")
    done = run(env, "org/small")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.name == COMMIT
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    for name in FILES:
        assert (folder / name).read_bytes() == (golden / "llama" / name).read_bytes()
    code = "from trainer_core.model.find import resolve_model; print(resolve_model('org/small'))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**env, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()) == folder.resolve()


def test_a_stopped_download_goes_on_where_it_was(served: Hub, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    served.held = "model.safetensors"
    env = environment(served, cache)
    going = subprocess.Popen(
        command("org/small"), cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True
    )
    assert served.holding.wait(60)
    going.send_signal(signal.SIGTERM)
    assert going.stderr is not None
    while "are kept" not in (line := going.stderr.readline()):
        assert line
    served.gate.set()
    going.communicate(timeout=60)
    assert going.returncode == 3
    assert not list(cache.rglob("*.incomplete"))
    kept = {path.name for path in cache.glob("models--org--small/snapshots/*/*")}
    assert "model.safetensors" not in kept
    assert "config.json" in kept
    served.held = ""
    served.fetched.clear()
    assert run(env, "org/small").returncode == 0
    assert sorted(served.fetched) == sorted(set(FILES) - kept)


def test_events_tell_how_far_it_is(served: Hub, tmp_path: Path) -> None:
    done = run(environment(served, tmp_path / "cache"), "org/small", "--events", "-")
    events = [from_json_line(line) for line in done.stdout.splitlines()]
    assert all(isinstance(event, Stage) and event.stage == "download" for event in events)
    assert isinstance(events[-1], Stage)
    assert events[-1].progress == 1.0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("org/gated", "accept their terms"),
        ("org/none", "no such model"),
        ("org/broken", "answered 500"),
    ],
)
def test_what_is_refused_is_said(served: Hub, tmp_path: Path, name: str, said: str) -> None:
    done = run(environment(served, tmp_path / "cache"), name)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_no_network_and_no_leave_are_said(served: Hub, tmp_path: Path) -> None:
    nobody = environment(served, tmp_path / "cache", HF_ENDPOINT="http://127.0.0.1:9")
    assert "cannot be reached" in run(nobody, "org/small").stderr
    offline = environment(served, tmp_path / "cache", HF_HUB_OFFLINE="1")
    assert "HF_HUB_OFFLINE forbids it" in run(offline, "org/small").stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model.safetensors": None}, "no model*.safetensors file"),
        ({"config.json": b'{"model_type": "x", "model_file": "own.py"}'}, "own program code"),
        ({"config.json": b"{}"}, "names no model_type"),
        ({"config.json": b"<html>"}, "not valid JSON"),
    ],
)
def test_what_cannot_be_trained_is_not_downloaded(
    served: Hub, tmp_path: Path, change: dict[str, bytes | None], said: str
) -> None:
    for name, data in change.items():
        if data is None:
            del served.files[name]
        else:
            served.files[name] = data
    done = run(environment(served, tmp_path / "cache"), "org/small")
    assert done.returncode == 2
    assert said in done.stderr
    assert "model.safetensors" not in served.fetched


def test_a_disk_that_is_too_small_is_said_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ModelError, match=r"4\.10 GB are to come, and 1\.00 GB are free"):
        downloads._check_space("org/name", 4_100_000_000, tmp_path / "not" / "there")
    downloads._check_space("org/name", 900_000_000, tmp_path)


def test_leftovers_of_killed_downloads_go(tmp_path: Path) -> None:
    old, new = tmp_path / "a.1.incomplete", tmp_path / "b.2.incomplete"
    for path in (old, new):
        path.write_bytes(b"x")
    os.utime(old, (1, 1))
    downloads._remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [new.name]


@pytest.mark.parametrize(
    "text",
    [
        "org/some-name.v1",
        "  org/some-name.v1 ",
        "https://huggingface.co/org/some-name.v1",
        "huggingface.co/org/some-name.v1/",
        "https://huggingface.co/org/some-name.v1/tree/main",
        "https://hf.co/org/some-name.v1?library=mlx",
    ],
)
def test_an_id_or_an_address(text: str) -> None:
    assert model_id(text) == "org/some-name.v1"


@pytest.mark.parametrize(
    "text", ["", "name", "/home/me/model", "a/b/c", "https://a.org/x/y", "\u00f6/b"]
)
def test_no_id(text: str) -> None:
    with pytest.raises(ModelError, match="is not the id of a model"):
        model_id(text)
