"""How a command ends: exit codes, and what is said when something went wrong."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from datetime import datetime
from enum import IntEnum
from pathlib import Path

from platformdirs import user_log_path

from trainer_core.errors import TrainerError, VerifyError
from trainer_core.redact import without_secrets


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    OUR_FAULT = 1
    USER_INPUT = 2
    STOPPED = 3
    INTERRUPTED = 130
    READER_GONE = 141


def guarded(command: Callable[[], int]) -> int:
    """Run a command; turn what it raises into a sentence on standard error and an exit code.

    A `TrainerError` is the user's to mend. Anything else is our fault: its traceback goes to a log
    file.
    """
    try:
        return command()
    except VerifyError as error:
        _say(str(error))
        return Exit.OUR_FAULT
    except TrainerError as error:
        _say(str(error))
        return Exit.USER_INPUT
    except KeyboardInterrupt:
        _say("Interrupted.")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return Exit.READER_GONE
    except Exception as error:  # noqa: BLE001 - the one place where a fault of ours ends
        log = _log_fault(error)
        where = f"the details are in {log}" if log else traceback.format_exc()
        _say(f"Something went wrong inside Burnish ({type(error).__name__}): {where}")
        return Exit.OUR_FAULT


def _say(text: str) -> None:
    print(f"burnish: {without_secrets(text)}", file=sys.stderr, flush=True)


def _log_fault(error: Exception) -> Path | None:
    """Append the traceback to the log; None if that cannot be written either."""
    path = user_log_path("burnish", appauthor=False) / "faults.log"
    text = without_secrets("".join(traceback.format_exception(error)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {' '.join(sys.argv)}\n{text}\n")
    except OSError:
        return None
    return path
