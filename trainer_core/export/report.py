"""What an export says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The proof that an exported adapter behaves like the trained one.

    Attributes:
        folder: where the adapter was written.
        prompts: the prompts it was compared on.
        logits_difference: largest difference of any logit.
        logits_scale: largest logit, to judge the difference by.
        same_choices: share of positions at which both find the same token likeliest.
        command: how to use the adapter with mlx-lm.
    """

    folder: Path
    prompts: tuple[str, ...]
    logits_difference: float
    logits_scale: float
    same_choices: float
    command: str
