"""The computer is kept awake by a program that ends when it should."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from app.awake import Awake, keeper_command


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_program_of_each_system() -> None:
    assert keeper_command("darwin", 7) == ["caffeinate", "-i", "-w", "7"]
    linux = keeper_command("linux", 7)
    assert linux is not None
    assert linux[0] == "systemd-inhibit"
    assert "--what=idle:sleep" in linux
    assert keeper_command("win32", 7) is None


def test_it_runs_from_start_to_stop_and_takes_its_children_along(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = (
        "import os, subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(child)!r} + '.part', 'w').write(str(p.pid))\n"
        f"os.rename({str(child)!r} + '.part', {str(child)!r})\n"
        "time.sleep(600)\n"
    )
    awake = Awake([sys.executable, "-c", script])
    assert not awake.on
    awake.start()
    awake.start()
    assert awake.on
    while not child.exists():
        assert awake.on
        time.sleep(0.01)
    awake.stop()
    assert not awake.on
    awake.stop()
    end = time.monotonic() + 20
    while is_alive(int(child.read_text())):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_without_the_program_nothing_happens() -> None:
    awake = Awake(["no-such-program-at-all"])
    awake.start()
    assert not awake.on
    awake.stop()


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_one_that_ended_by_itself_is_no_error() -> None:
    awake = Awake([sys.executable, "-c", ""])
    awake.start()
    assert awake._keeper is not None
    os.waitid(os.P_PID, awake._keeper.pid, os.WEXITED | os.WNOWAIT)
    awake.stop()
    assert not awake.on
