"""What MLX holds for each thing counted, by kind of device; each number was measured.

A factor says how many arrays of the counted size are alive at the peak. They were found by varying
one size at a time on small models (CPU, float32) and from the table of one pair on an H200 (CUDA,
bfloat16); `tests/bench/memory_configs.py` judges them on others.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """Factors of one kind of device.

    Attributes:
        bucket: lengths are padded to multiples of it.
        kept: of a layer's activations, while later layers run.
        worked: of the activations of the layer whose backward runs.
        quadratic: whether attention's backward holds all scores, queries times keys.
        scores_kept: arrays of scores that each layer keeps in a whole graph.
        scores: arrays of scores in the backward of the largest piece of a row.
        scores_beside: the same for its other pieces.
        blocked: arrays of one block's scores in blocked attention.
        logits: arrays of a chunk's logits in the head.
        logits_whole: arrays of all logits in a full head inside a whole graph.
        logits_alone: the same between segments.
        logits_float32: whether they are float32 whatever the model is.
        compiles: whether SFT's whole graph is compiled, whose head scores every position.
        rest: bytes that are always there: kernels, work spaces, graphs in flight.
    """

    bucket: int
    kept: float
    worked: float
    quadratic: bool
    scores_kept: float
    scores: float
    scores_beside: float
    blocked: float
    logits: float
    logits_whole: float
    logits_alone: float
    logits_float32: bool
    compiles: bool
    rest: int


_CPU = Costs(
    bucket=1,
    kept=1.06,
    worked=1.06,
    quadratic=True,
    scores_kept=1.12,
    scores=4.3,
    scores_beside=2.6,
    blocked=4.2,
    logits=3.4,
    logits_whole=3.4,
    logits_alone=2.5,
    logits_float32=True,
    compiles=False,
    rest=1_000_000,
)
# Arrays live until the graph of kernels they are in has run, so more are alive where a layer works.
# It keeps less than on a CPU, because compiled operations in a row keep nothing between them: 0.74
# to 0.86 where it was measured.
_GPU = Costs(
    bucket=128,
    kept=1.0,
    worked=2.3,
    quadratic=False,
    scores_kept=0.0,
    scores=0.0,
    scores_beside=0.0,
    blocked=4.2,
    logits=4.2,
    logits_whole=4.7,
    logits_alone=4.7,
    logits_float32=False,
    compiles=True,
    rest=250_000_000,
)


def costs_of(kind: str) -> Costs:
    """Those of `cpu`, `cuda` or `metal`; Metal was not measured and is taken to be as CUDA."""
    return _CPU if kind == "cpu" else _GPU
