"""Head: the one way the rest of the engine asks for log-probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

from trainer_core.heads.chunked import logps_chunked
from trainer_core.heads.flash import (
    VocabularyBlocks,
    jacobian_flash,
    logps_flash,
    values_flash,
)
from trainer_core.heads.full import Project, logps_full
from trainer_core.heads.fused import logps_and_jacobian, logps_fused
from trainer_core.heads.log_softmax import picked_log_softmax
from trainer_core.in_flight import InFlight

HeadKind = Literal["full", "chunked", "fused", "flash"]


@dataclass(frozen=True, slots=True)
class Head:
    """How hidden states become log-probabilities.

    Attributes:
        kind: see DESIGN of the heads in their modules.
        project: the model's own map from hidden states [N, D] to logits [N, V]; its weights are
            frozen.
        chunk: tokens per chunk; `full` does not use it.
        blocks: the head by blocks of the vocabulary, which `flash` needs.
        ahead: how many chunks the host may be ahead of the device; 0 for a CPU, which is the host.
    """

    kind: HeadKind
    project: Project
    chunk: int
    blocks: VocabularyBlocks | None = None
    ahead: int = 0

    def __call__(self, hidden: mx.array, targets: mx.array) -> mx.array:
        """Float32 log-probabilities [N] of targets [N], differentiable in hidden [N, D]."""
        if self.kind == "full":
            return logps_full(self.project, hidden, targets)
        if self.kind == "chunked":
            return logps_chunked(self.project, hidden, targets, self.chunk)
        if self.kind == "flash":
            return logps_flash(self._blocks, hidden, targets, self.chunk)
        return logps_fused(self.project, hidden, targets, self.chunk)

    def values(self, hidden: mx.array, targets: mx.array) -> mx.array:
        """Log-probabilities [N] without any gradient, computed chunk by chunk."""
        flow = InFlight(self.ahead)
        parts: list[mx.array] = []
        for start, stop in self._chunks(hidden.shape[0]):
            rows, wanted = hidden[start:stop], targets[start:stop]
            if self.kind == "flash":
                part, _ = values_flash(self._blocks, rows, wanted, eager=self.ahead == 0)
            else:
                part = picked_log_softmax(self.project(rows), wanted)
            flow.start([part])
            parts.append(part)
        return mx.concatenate(parts)

    def values_and_jacobian(self, hidden: mx.array, targets: mx.array) -> tuple[mx.array, mx.array]:
        """(logp [N], J [N, D]) computed chunk by chunk, for a backward driven by hand."""
        flow = InFlight(self.ahead)
        eager = self.ahead == 0
        logps: list[mx.array] = []
        jacobians: list[mx.array] = []
        for start, stop in self._chunks(hidden.shape[0]):
            rows, wanted = hidden[start:stop], targets[start:stop]
            if self.kind == "flash":
                logp, lse = values_flash(self._blocks, rows, wanted, eager=eager)
                jacobian = jacobian_flash(self._blocks, rows, wanted, lse, eager=eager)
            else:
                logp, jacobian = logps_and_jacobian(self.project, rows, wanted)
            flow.start([logp, jacobian])
            logps.append(logp)
            jacobians.append(jacobian)
        return mx.concatenate(logps), mx.concatenate(jacobians)

    @property
    def _blocks(self) -> VocabularyBlocks:
        assert self.blocks is not None, "open_stack found the head's blocks before flash was chosen"
        return self.blocks

    def _chunks(self, rows: int) -> list[tuple[int, int]]:
        size = rows if self.kind == "full" else self.chunk
        return [(start, min(start + size, rows)) for start in range(0, rows, max(size, 1))]
