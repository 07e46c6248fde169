"""SIGINT and SIGTERM as wishes: the first stops after the step, the second at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from trainer_core.control import Control

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals(
    control: Control, first: str = "Stopping after this step. Once more to stop at once."
) -> Iterator[None]:
    """Stop what looks at `control` on a signal, for as long as the block lasts.

    Args:
        control: gets the wish.
        first: said at the first signal.

    After the second signal the old handlers are back, so that a third one ends the process even if
    the engine hangs.
    """
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def wish(_number: int, _frame: FrameType | None) -> None:
        second = control.stopping
        control.stop()
        if second:
            restore()
        text = "Stopping now." if second else first
        # Not print: the signal may have come in the middle of one, which must not be entered again.
        os.write(2, f"{text}\n".encode())

    for number in _SIGNALS:
        signal.signal(number, wish)
    try:
        yield
    finally:
        restore()
