"""Fixtures for every test: folders of its own, no network, no screen."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before anything imports Qt, transformers or MLX.
os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["HF_HUB_OFFLINE"] = "1"
# Several workers share the cores; threads that wait for each other would only be in the way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from trainer_core.backend import prepare

prepare()

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden() -> Path:
    """The folder with one small model per family and what TRL made of it."""
    return GOLDEN


@pytest.fixture
def dirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Send the user's home, settings, data and cache folders to a temporary one, and return it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name, part in (
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_CACHE_HOME", ".cache"),
    ):
        monkeypatch.setenv(name, str(home / part))
    return home


@pytest.fixture(autouse=True)
def tidy(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test of the window that leaves a thread, a timer or a window behind."""
    if request.node.get_closest_marker("gui") is None:
        yield
        return
    request.getfixturevalue("qapp")
    from tests.leaks import left_behind, living

    before = living()
    yield
    # pytest holds what the fixtures made, and the frames of logged exceptions, until after this.
    request.node.funcargs.clear()
    for phase in ("setup", "call"):
        caplog.get_records(phase).clear()
    assert not left_behind(before)


@pytest.fixture(autouse=True)
def offline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections to anywhere but this machine, unless the test is marked `network`."""
    if request.node.get_closest_marker("network") is None:
        connect = socket.socket.connect

        def refuse(self: socket.socket, address: object) -> None:
            host = address[0] if isinstance(address, tuple) else None
            if self.family in (socket.AF_INET, socket.AF_INET6) and host not in _LOCAL:
                raise AssertionError(f"a test asked for the network: {address}")
            connect(self, address)  # type: ignore[arg-type]

        monkeypatch.setattr(socket.socket, "connect", refuse)


_LOCAL = ("127.0.0.1", "::1", "localhost")
