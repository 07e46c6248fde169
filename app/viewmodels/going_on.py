"""Whether a run can go on, and the configuration with which it does."""

from __future__ import annotations

from app.reading.runs import RunRecord
from app.viewmodels.notice_vm import Notice
from app.viewmodels.wording import count
from trainer_core.config import RunConfig
from trainer_core.config_io import load_config
from trainer_core.runfolder import RunFolder


def why_not(record: RunRecord) -> str:
    """Why a run cannot go on; empty if it can."""
    if record.state == "running":
        return "It is running"
    if record.state == "early_stop":
        return "It ended because validation no longer improved; fork it to go on another way"
    return ""


def needs_more_steps(record: RunRecord) -> bool:
    """Whether it took all its steps, so that it can only go on to a higher number of them."""
    return record.state == "done"


def config_to_go_on(record: RunRecord, steps: int | None = None) -> RunConfig:
    """The run's own configuration, to go on from its last checkpoint.

    Args:
        record: the run.
        steps: how many it is to have, if that changes.

    Raises:
        TrainerError: its folder has no configuration, or one that does not fit this version.
    """
    given = {"resume": str(record.folder)} | ({"iters": steps} if steps else {})
    return load_config(None, given)


def interrupted_notice(record: RunRecord) -> Notice:
    """What is said at the start of the app of a run whose end was not its own."""
    saved = max(RunFolder(record.folder).checkpoint_steps(), default=0)
    total = record.config.get("iters")
    of = f" of {total:,}" if isinstance(total, int) else ""
    from_where = f"from step {saved:,}, where it was last saved" if saved else "from its start"
    return Notice(
        "warning",
        f"{record.title} was interrupted after {count(record.steps, 'step')}{of}",
        f"It can go on {from_where}, exactly as if nothing had happened.",
        ("continue_run", "go_runs"),
    )
