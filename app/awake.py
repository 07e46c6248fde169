"""Keeps the computer from going to sleep while a run is on, with what the system has for it."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys

log = logging.getLogger(__name__)


def keeper_command(platform: str, process: int) -> list[str] | None:
    """The program that keeps the computer awake until it is ended; None where there is none.

    Args:
        platform: as `sys.platform`.
        process: this one; macOS' program ends with it.
    """
    if platform == "darwin":
        return ["caffeinate", "-i", "-w", str(process)]
    if platform == "linux":
        why = ["--what=idle:sleep", "--who=Burnish", "--why=A model is being trained"]
        return ["systemd-inhibit", *why, "--mode=block", "sleep", "infinity"]
    return None


class Awake:
    """Holds sleep off between `start` and `stop`. What cannot be done is only logged."""

    def __init__(self, command: list[str] | None = None) -> None:
        self._command = command or keeper_command(sys.platform, os.getpid())
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def on(self) -> bool:
        """Whether the computer is being kept awake."""
        return self._keeper is not None and self._keeper.poll() is None

    def start(self) -> None:
        """Keep the computer awake from now on."""
        if self.on or self._command is None or shutil.which(self._command[0]) is None:
            return
        try:
            self._keeper = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            log.warning("the computer may go to sleep: %s", error)

    def stop(self) -> None:
        """Let it sleep again."""
        if self._keeper is None:
            return
        try:
            # The program may have started another one, which has to end with it.
            os.killpg(self._keeper.pid, 15)
        except OSError as error:
            log.info("what kept the computer awake had ended: %s", error)
        self._keeper.wait()
        self._keeper = None
