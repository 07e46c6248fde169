"""Errors that end a run, in words that say what to do."""

from __future__ import annotations

import errno

from trainer_core.errors import OutOfMemoryError, TrainerError
from trainer_core.events import Failed
from trainer_core.redact import without_secrets
from trainer_core.runfolder import RunFolder


def failed_event(error: Exception) -> Failed:
    """What is told of an error that ends a run."""
    if isinstance(error, TrainerError):
        kind = "memory" if isinstance(error, OutOfMemoryError) else None
        what, why = without_secrets(error.what), without_secrets(error.why)
        return Failed(what, why, error.try_this, kind)
    return Failed(
        "the training engine stopped on a fault of its own",
        without_secrets(f"{type(error).__name__}: {error}"),
        "please report it with the log",
    )


def full_disk(error: Exception, run: RunFolder) -> TrainerError | None:
    """The system's refusal to write, wherever it came, as an error that says what to do."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return TrainerError(
            f"cannot write to {run.path}",
            error.strerror or "the disk is full",
            "make room on the disk or choose another runs folder; what was saved is intact",
        )
    return None


def out_of_memory(error: Exception) -> OutOfMemoryError | None:
    """The error that MLX's allocator raises, as one that says what to do."""
    text = str(error).lower()
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and any(sign in text for sign in ("unable to allocate", "out of memory", "[malloc"))
    ):
        return OutOfMemoryError(
            "the run does not fit in memory",
            str(error),
            "lower the batch size or the sequence length, or choose a smaller model",
        )
    return None
