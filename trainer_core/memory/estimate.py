"""MLX's peak over a run, by parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainer_core.config import RunConfig
from trainer_core.memory.costs import Costs, costs_of
from trainer_core.memory.geometry import Geometry, adapted_layers, geometry_of, trained_elements
from trainer_core.memory.lengths import Lengths, Pieces, assumed, pieces_of
from trainer_core.model_files import read_json, read_tensors
from trainer_core.sensitivities import read_sensitivities

_FLOAT32 = 4
_VOCABULARY_BLOCK = 8192  # tokens that the flash head takes at a time


@dataclass(frozen=True, slots=True)
class Phase:
    """What is alive at one moment of a step, beside weights, adapter and moments.

    Attributes:
        activations: part -> elements in the model's own precision.
        wide: part -> elements in float32.
        gradients: arrays of the adapter's size, float32.
    """

    activations: dict[str, float] = field(default_factory=dict)
    wide: dict[str, float] = field(default_factory=dict)
    gradients: int = 0


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes of the parts of a run.

    Attributes:
        parameters: elements of the base model.
        stored: the weights as they are in the files.
        quantised: whether some of them are.
        dtype: the files' commonest floating type, as safetensors names it.
        adapter_parameters: elements that are trained.
        whole: whether these are the model's own weights instead of an adapter's.
        phases: moments of a step that may be the peak.
        rest: bytes that are always there.
    """

    parameters: int
    stored: int
    quantised: bool
    dtype: str
    adapter_parameters: int
    whole: bool = False
    phases: tuple[Phase, ...] = (Phase(),)
    rest: int = 0

    def weights(self, precision: str) -> int:
        """Bytes of the base weights at `keep`, `float32` or `bfloat16`."""
        each = {"float32": 4, "bfloat16": 2}.get(precision)
        return self.stored if each is None else self.parameters * each

    def parts(self, precision: str) -> dict[str, int]:
        """Bytes by part at the peak, with the base weights at this precision.

        weights, adapter, optimiser (Adam's two moments), gradients, states (kept between segments),
        layers, attention (scores), head (hidden states and Jacobian), logits, update (of the
        largest weight), and rest; without those that are not alive at the peak.
        """
        size = self._item_size(precision)
        adapter = (size if self.whole else _FLOAT32) * self.adapter_parameters
        always = {"weights": self.weights(precision), "optimiser": 2 * adapter}
        if not self.whole:
            always["adapter"] = adapter
        found = [
            {
                "gradients": phase.gradients * adapter,
                **{name: int(size * count) for name, count in phase.activations.items()},
                **{name: int(_FLOAT32 * count) for name, count in phase.wide.items()},
            }
            for phase in self.phases
        ]
        peak = max(found, key=lambda parts: sum(parts.values()))
        return {**always, **{name: n for name, n in peak.items() if n}, "rest": self.rest}

    def total(self, precision: str) -> int:
        """Bytes of the whole run with the base weights at this precision."""
        return sum(self.parts(precision).values())

    def _item_size(self, precision: str) -> int:
        """Bytes of one element of the residual stream."""
        if precision == "keep":
            return 2 if self.dtype in ("BF16", "F16") else 4
        return 4 if precision == "float32" else 2


def estimate(
    folder: Path,
    config: RunConfig,
    longest: int | Sequence[Lengths] | None = None,
    kind: str = "cpu",
) -> MemoryEstimate:
    """What a run of `config` on the model in `folder` needs.

    An option that is still `auto` counts as what it usually becomes: a fused head, the whole graph,
    shared prompts.

    Args:
        folder: a model folder with config.json and safetensors files.
        config: the run.
        longest: the longest rows, see `longest_of`, or tokens of the longest sequence, if known;
            otherwise `max_seq_length` is assumed, and of a pair that no prompt is shared.
        kind: of the device: cpu, cuda or metal.

    Raises:
        ModelError: the folder is not a model's, or its files are damaged.
    """
    shape = read_json(folder / "config.json")
    tensors = read_tensors(folder, shape)
    by_type: dict[str, int] = {}
    for tensor in tensors:
        if tensor.dtype in ("F32", "BF16", "F16"):
            by_type[tensor.dtype] = by_type.get(tensor.dtype, 0) + tensor.parameters
    rows = [assumed(config, longest)] if longest is None or isinstance(longest, int) else longest
    kl = read_sensitivities(folder) if config.rank_scaling == "by_kl" else {}
    whole = config.fine_tune_type == "full"
    adapted = [] if whole else adapted_layers(tensors, config, kl)
    # New moments and weights of the largest array before the old ones are free.
    renewed = 2.0 * max((t.parameters for t in tensors), default=0) if whole else 0.0
    geometry, costs = geometry_of(shape, tensors, adapted), costs_of(kind)
    phases = [phase for row in rows for phase in _phases(row, config, geometry, costs)]
    return MemoryEstimate(
        parameters=sum(t.parameters for t in tensors),
        stored=sum(t.stored for t in tensors),
        quantised=any(t.dtype.startswith("Q") for t in tensors),
        dtype=max(by_type, key=lambda name: by_type[name]) if by_type else "",
        adapter_parameters=trained_elements(tensors, config)
        if whole
        else sum(one.parameters for one in adapted),
        whole=whole,
        phases=(
            *phases,
            Phase(wide={"update": renewed}, gradients=2 + (config.grad_clip > 0)),
        ),
        rest=costs.rest,
    )


def _phases(row: Lengths, config: RunConfig, model: Geometry, costs: Costs) -> list[Phase]:
    """The head, and the backward of the last layers, with the longest rows side by side."""
    segment = config.segment_size if isinstance(config.segment_size, int) else 0
    pieces = pieces_of(row, config, costs.bucket)
    if segment == 0:
        many = config.batch_size
        compiled = costs.compiles and config.method == "sft"
        # The logits of a model that runs as a whole are those of every token.
        every = compiled or config.fine_tune_type == "full"
        pieces = Pieces(
            pieces.tokens * many,
            (pieces.tokens if every else pieces.scored) * many,
            pieces.squares * many,
            pieces.block * many,
            pieces.copied * many,
        )
    if config.grad_checkpoint:
        segment = 1  # between whose layers as much is kept
    whole = segment == 0
    several = config.batch_size * config.grad_accumulation_steps > 1
    held = model.layers if whole else min(segment, model.layers)
    states = 0 if whole else math.ceil(model.layers / segment) + 1
    kept, scores_kept = _kept(pieces, model, costs), _scores_kept(pieces, config, model, costs)
    between = {"states": float(states * pieces.tokens * model.width)}
    logits = {"logits": _logits(pieces.scored, config, model, costs)}
    head = Phase(
        activations={
            **between,
            "layers": kept * held * whole,
            "head": 2.0 * (pieces.tokens + pieces.scored) * model.width,
            **({} if costs.logits_float32 else logits),
        },
        wide={
            "attention": scores_kept * held * whole,
            **(logits if costs.logits_float32 else {}),
        },
        gradients=int(several),
    )
    work, scores = _backward(pieces, config, model, costs)
    layers = Phase(
        activations={**between, "layers": kept * (held - 1) + work},
        wide={"attention": scores_kept * (held - 1) + scores},
        gradients=1 + several,
    )
    return [head, layers]


def _kept(pieces: Pieces, model: Geometry, costs: Costs) -> float:
    """Elements that one layer keeps for its backward, without scores."""
    return costs.kept * (pieces.tokens * model.kept + pieces.copied * 2 * model.keys)


def _scores_kept(pieces: Pieces, config: RunConfig, model: Geometry, costs: Costs) -> float:
    """Scores that one layer keeps for its backward."""
    if not costs.quadratic or config.attention == "blocked":
        return 0.0
    return costs.scores_kept * (1 + model.soft_cap) * model.heads * sum(pieces.squares)


def _backward(
    pieces: Pieces, config: RunConfig, model: Geometry, costs: Costs
) -> tuple[float, float]:
    """(activations, scores) while one layer is differentiated: in attention or in feed-forward."""
    tokens, copied = pieces.tokens, pieces.copied * 2 * model.keys
    if not costs.quadratic:
        return costs.worked * (tokens * model.kept + copied), 0.0
    feeding = costs.worked * (tokens * (model.kept + model.feeding) + copied)
    kept = _scores_kept(pieces, config, model, costs)
    attending = tokens * model.attending + copied
    largest = max(pieces.squares)
    if config.attention == "blocked":
        attending += tokens * (6 * model.width + 4 * model.query + 4 * model.keys)
        scores = costs.blocked * model.heads * pieces.block
    else:
        beside = sum(pieces.squares) - largest
        scores = model.heads * (costs.scores * largest + costs.scores_beside * beside)
    attending *= costs.worked
    return max((feeding, kept), (attending, scores), key=sum)


def _logits(scored: int, config: RunConfig, model: Geometry, costs: Costs) -> float:
    """Elements of the logits that the head holds."""
    if config.head == "full":
        factor = costs.logits_alone if config.segment_size else costs.logits_whole
        return factor * scored * model.vocabulary
    columns = model.vocabulary if config.head != "flash" else _VOCABULARY_BLOCK
    rows = min(config.chunk_size, scored)
    return costs.logits * rows * min(columns, model.vocabulary)
