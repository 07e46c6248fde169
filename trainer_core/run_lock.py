"""One process at a time trains in a run folder. A process that dies loses its lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from trainer_core.errors import TrainerError

_NAME = ".lock"
# Whoever only looks holds the lock for a moment.
_PATIENCE_S = 1.0


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder for as long as the block runs.

    Raises:
        TrainerError: another process trains in it, or nothing can be written there.
    """
    lock = FileLock(folder / _NAME, timeout=_PATIENCE_S, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise TrainerError(
            f"{folder} is in use", "another process trains in it", "stop that one first"
        ) from None
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise TrainerError(
            f"cannot write to {folder}", why, "choose another runs folder, or copy this one there"
        ) from None
    try:
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool | None:
    """Whether a process trains in a run folder now; None if nothing there tells."""
    if not (folder / _NAME).exists():
        return None
    lock = FileLock(folder / _NAME, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return True
    except (OSError, NotImplementedError):
        return None
    lock.release()
    return False
