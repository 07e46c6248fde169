"""The table of plots: what each shows, on which page, for which methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Page = Literal["training", "diagnostics"]
CurveRole = Literal["train", "valid", "chosen", "rejected"]

ALL = ("sft", "dpo", "cpo", "orpo")
PAIRS = ("dpo", "cpo", "orpo")


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a plot: a field of the step events or of the validation events."""

    field: str
    role: CurveRole
    label: str
    factor: float = 1.0

    @property
    def validation(self) -> bool:
        """True if its points come from validations, which are few and shown as dots."""
        return self.role == "valid"


@dataclass(frozen=True, slots=True)
class Plot:
    """One pair of axes.

    Attributes:
        methods: for which it means something, see `plotted_as`.
        smooth: noisy enough to be smoothed.
        share: values from 0 to 1, shown as per cent.
        log: values are above 0, so that a logarithmic axis makes sense.
    """

    key: str
    title: str
    help: str
    page: Page
    methods: tuple[str, ...]
    curves: tuple[Curve, ...]
    unit: str = ""
    smooth: bool = True
    share: bool = False
    log: bool = False


def plotted_as(method: str, preference_loss: str | None) -> str:
    """The method whose plots a run has: with the loss of CPO, DPO has an nll too."""
    return "cpo" if method == "dpo" and preference_loss == "cpo" else method


def _both(field: str) -> tuple[Curve, ...]:
    return (Curve(field, "train", "train"), Curve(field, "valid", "valid"))


PLOTS = (
    Plot(
        key="loss",
        title="Loss",
        help="What training makes small. A validation loss that rises while training loss falls "
        "means overfitting.",
        page="training",
        methods=ALL,
        curves=_both("loss"),
        log=True,
    ),
    Plot(
        key="nll",
        title="NLL",
        help="Negative log-likelihood per token of the preferred answers: the term of ORPO and CPO "
        "that keeps them likely.",
        page="training",
        methods=("orpo", "cpo"),
        curves=_both("nll"),
        log=True,
    ),
    Plot(
        key="or",
        title="Odds ratio loss",
        help="ORPO's second term. It falls as preferred answers outdo rejected ones.",
        page="training",
        methods=("orpo",),
        curves=_both("odds_loss"),
        log=True,
    ),
    Plot(
        key="accuracy",
        title="Accuracy",
        help="Share of pairs in which the preferred answer is the likelier one.",
        page="training",
        methods=PAIRS,
        curves=_both("accuracy"),
        share=True,
    ),
    Plot(
        key="margin",
        title="Margin",
        help="How far preferred answers are ahead of rejected ones.",
        page="diagnostics",
        methods=PAIRS,
        curves=_both("margin"),
    ),
    Plot(
        key="logps",
        title="Logps",
        help="Log-probabilities of preferred and rejected answers. Both falling is usual; the "
        "preferred ones falling faster is not.",
        page="diagnostics",
        methods=PAIRS,
        curves=(
            Curve("logps_chosen", "chosen", "chosen"),
            Curve("logps_rejected", "rejected", "rejected"),
        ),
    ),
    Plot(
        key="learning_rate",
        title="Learning rate",
        help="Of each step, after warm-up and decay.",
        page="diagnostics",
        methods=ALL,
        curves=(Curve("learning_rate", "train", "rate"),),
        smooth=False,
        log=True,
    ),
    Plot(
        key="grad_norm",
        title="Gradient norm",
        help="Before clipping. Spikes mean rows that pull hard.",
        page="diagnostics",
        methods=ALL,
        curves=(Curve("grad_norm", "train", "norm"),),
        log=True,
    ),
    Plot(
        key="tokens_per_s",
        title="Speed",
        help="Tokens of the rows as data, per second.",
        page="diagnostics",
        methods=ALL,
        curves=(Curve("tokens_per_s", "train", "speed"),),
        unit="tokens/s",
    ),
    Plot(
        key="memory",
        title="Memory",
        help="MLX's peak since the report before.",
        page="diagnostics",
        methods=ALL,
        curves=(Curve("peak_memory_bytes", "train", "peak", 1e-9),),
        unit="GB",
        smooth=False,
    ),
)
