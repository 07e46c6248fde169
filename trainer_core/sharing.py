"""How many pairs had no prompt to share, said once an epoch: sharing is never silently missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainer_core.data.batches import Window
from trainer_core.events import Warned
from trainer_core.job import Job, Tell
from trainer_core.objectives.rows import ScoredRow
from trainer_core.streams.pair import shares_prompt


class SharingCount:
    """Counts the pairs of an epoch that ran as two sequences although prompts are shared.

    Args:
        job: the run; nothing is counted unless its policy shares prompts.
        tell: told at the end of an epoch in which there were any.
    """

    def __init__(self, job: Job, tell: Tell) -> None:
        self._rows: Sequence[ScoredRow] = job.train if job.policy.share_prefix else ()
        self._tell = tell
        self._epoch = 0
        self._pairs = 0
        self._unshared = 0

    def state(self) -> dict[str, int]:
        """For a checkpoint."""
        return {"epoch": self._epoch, "pairs": self._pairs, "unshared": self._unshared}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on from what `state` gave."""
        self._epoch, self._pairs = state["epoch"], state["pairs"]
        self._unshared = state["unshared"]

    def add(self, window: Window) -> None:
        """Count the pairs of one optimiser step."""
        if not self._rows:
            return
        for index in (index for batch in window.micro_batches for index in batch):
            row = self._rows[index]
            if row.rejected is not None:
                self._pairs += 1
                self._unshared += not shares_prompt(row)

    def end_epoch(self, window: Window) -> None:
        """Say what was counted, if an epoch ended with this step."""
        if int(window.epoch) > self._epoch:
            self.close()
            self._epoch = int(window.epoch)

    def close(self) -> None:
        """Say what was counted since the last epoch ended; also for one that is cut short."""
        if self._unshared:
            self._tell(
                Warned(
                    "prefix_unshared",
                    f"{self._unshared} of the {self._pairs} pairs of epoch {self._epoch + 1} had "
                    "no prompt to share and ran as two sequences",
                    "it is exact but slower; look for pairs whose prompts differ, or whose answers "
                    "are a single token",
                )
            )
        self._pairs = self._unshared = 0
