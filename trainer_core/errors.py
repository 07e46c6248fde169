"""What can go wrong, said so that a person can act on it.

Every error that is the user's to mend carries three short texts: what happened, why, and what to
try. Anything that is not a `TrainerError` is a fault of ours and goes to the log with its
traceback.
"""

from __future__ import annotations


class TrainerError(Exception):
    """A fault with a plain sentence for the user.

    Args:
        what: what happened, one clause without a full stop.
        why: the reason, or an empty string.
        try_this: what the user can do about it, or an empty string.
    """

    kind = "trainer"

    def __init__(self, what: str, why: str = "", try_this: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.try_this = try_this

    def __str__(self) -> str:
        """What, why and what to do: one line, or several if the reason is a list."""
        what, why = self.what.rstrip("."), self.why.strip().rstrip(".")
        hint = self.try_this.rstrip(".")
        hint = f"{hint[0].upper()}{hint[1:]}." if hint else ""
        if "\n" in why:
            return f"{what}:\n  {why}\n{hint}".rstrip()
        said = f"{what}: {why}." if why else f"{what}."
        return f"{said} {hint}".rstrip()


class ConfigError(TrainerError):
    """An option is unknown, out of range, or does not go with another one."""

    kind = "config"

    def __init__(self, what: str, why: str = "", try_this: str = "", *, key: str = "") -> None:
        super().__init__(what, why, try_this)
        self.key = key


class DataError(TrainerError):
    """The data file cannot be read, or its rows do not fit the method."""

    kind = "data"


class ModelError(TrainerError):
    """The model folder is missing, broken or of a kind that cannot be trained."""

    kind = "model"


class OutOfMemoryError(TrainerError):
    """The run does not fit in this machine's memory."""

    kind = "memory"


class ExportError(TrainerError):
    """An adapter could not be written to the folder that was asked for."""

    kind = "export"


class VerifyError(ExportError):
    """The written adapter does not behave like the trained one, which is a fault of ours."""
