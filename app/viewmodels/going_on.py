"""Whether a run can go on, and the configuration with which it does."""

from __future__ import annotations

from typing import Any

from app.reading.runs import RunRecord
from app.viewmodels.notice_vm import Notice, NoticeAction
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


def config_to_go_on(
    record: RunRecord, steps: int | None = None, *, isolated: bool = False
) -> RunConfig:
    """The run's own configuration, to go on from its last checkpoint.

    Args:
        record: the run.
        steps: how many it is to have, if that changes.
        isolated: whether it is to go on in a process of its own.

    Raises:
        TrainerError: its folder has no configuration, or one that does not fit this version.
    """
    given: dict[str, Any] = {"resume": str(record.folder)}
    given |= {"iters": steps} if steps else {}
    given |= {"isolation": "process"} if isolated else {}
    return load_config(None, given)


def interrupted_notice(record: RunRecord, *, with_the_app: bool = False) -> Notice:
    """What is said at the start of the app of a run whose end was not its own.

    Args:
        record: the run.
        with_the_app: whether the app ended with it.
    """
    saved = max(RunFolder(record.folder).checkpoint_steps(), default=0)
    total = record.config.get("iters")
    of = f" of {total:,}" if isinstance(total, int) else ""
    from_where = f"from step {saved:,}, where it was last saved" if saved else "from its start"
    text = f"It can go on {from_where}, exactly as if nothing had happened."
    actions: tuple[NoticeAction, ...] = ("continue_run", "go_runs")
    if with_the_app:
        text += " Burnish ended with it; a process of its own would spare it that."
        actions = ("isolate_run", *actions)
    title = f"{record.title} was interrupted after {count(record.steps, 'step')}{of}"
    return Notice("warning", title, text, actions)
