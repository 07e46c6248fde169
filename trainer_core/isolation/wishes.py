"""What the parent tells the engine's process: one JSON object a line on its standard input.

The first one is `start` with a configuration; the others are the methods of `Control`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from trainer_core.config import RunConfig
from trainer_core.control import Control, SampleRequest


def start_line(config: RunConfig) -> str:
    """The wish to train. Only options that were given are told, so that none counts as explicit."""
    given = config.model_dump(mode="json", exclude_unset=True)
    return _line("start", config=given)


def config_in(line: str) -> RunConfig:
    """The configuration of a `start` line.

    Raises:
        ValueError: it is something else.
    """
    wish = json.loads(line)
    if wish.get("wish") != "start":
        raise ValueError(f"the first wish is {wish.get('wish')}, not start")
    return RunConfig.model_validate(wish["config"])


def obey(line: str, control: Control) -> None:
    """Pass a wish on to a run."""
    wish: dict[str, Any] = json.loads(line)
    match wish.pop("wish"):
        case "ask":
            wish["prompts"] = tuple(wish["prompts"])
            control.ask(SampleRequest(**wish))
        case "stop_now":
            control.stop_now()
        case "stop" if not control.stopping:  # a second stop would mean at once
            control.stop()
        case "pause":
            control.pause()
        case "resume":
            control.resume()
        case "save":
            control.save_now()
        case "hush":
            control.hush()
        case _:
            pass


class Forwarder:
    """Turns what changes in a `Control` into lines.

    Args:
        control: the parent's.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._stopping = self._stopping_now = self._paused = self._silent = False

    def lines(self) -> list[str]:
        """What was wished since the last time."""
        control, found = self._control, []
        if control.paused != self._paused:
            self._paused = control.paused
            found.append(_line("pause" if self._paused else "resume"))
        if control.silent != self._silent:
            self._silent = control.silent
            found += [_line("hush")] if self._silent else []
        if control.take_save():
            found.append(_line("save"))
        while (request := control.take_sample()) is not None:
            found.append(_line("ask", **asdict(request)))
        if control.stopping and not self._stopping:
            self._stopping = True
            found.append(_line("stop"))
        if control.stopping_now and not self._stopping_now:
            self._stopping_now = True
            found.append(_line("stop_now"))
        return found


def _line(wish: str, **more: Any) -> str:
    return json.dumps({"wish": wish, **more}) + "\n"
