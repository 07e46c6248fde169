"""ORPO on one preference pair: what a step costs in time and memory, by backward path, on a GPU.

    python -m tests.bench.gpu_pairs [--sizes 1024x512 4096x1024] [--ways compiled] [--layers N]

A model of Qwen3-0.6B's shape with random bfloat16 weights gets LoRA of rank 16 on every projection.
A step is loss and gradients of one pair, P prompt tokens and two answers of R tokens. The table has
the median milliseconds, the peak memory with the weights, and how far the gradients are from those
of the first way; `compare` sets Burnish beside its rivals. `--gradients` compares gradients in
float32 too, `--lengths N` trains on N pairs of other lengths. RESULTS.md keeps the figures.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models import qwen3

from tests.bench.shapes import SHAPES
from tests.bench.task import RANK, SCALE
from trainer_core import backend
from trainer_core.backward.autograd import whole_graph
from trainer_core.backward.choose import Backward
from trainer_core.backward.compiled import CompiledRanges
from trainer_core.backward.segmented import Segmented
from trainer_core.config import RunConfig
from trainer_core.data.types import Sequence as Tokens
from trainer_core.data.types import Source, TokenisedExample
from trainer_core.heads.flash import VocabularyBlocks
from trainer_core.heads.head import Head, HeadKind
from trainer_core.model.lora import Adapter, attach
from trainer_core.model.open_stack import CheckedStack, open_stack
from trainer_core.model.targets import choose
from trainer_core.objectives.objective import make_objective
from trainer_core.policy import Policy

SHAPE = SHAPES["qwen3-0.6b"]
WARM_UPS, REPEATS, FEWEST, ENOUGH_MS = 2, 9, 3, 2500.0
# Whole graphs of longer pairs than this do not fit on the GPU.
LONGEST_WHOLE = 8192

Gradients = Mapping[str, mx.array]
Step = Callable[[], tuple[mx.array, Gradients]]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to a pair's gradients; see `Segmented` for size and ahead."""

    head: HeadKind = "fused"
    share: bool = True
    size: int = 0
    compiled: bool = False
    ahead: int = 0
    chunk: int = 512
    bucket: int = 1
    joined: bool = False
    whole: bool = False

    def policy(self, checked: CheckedStack, adapter: Adapter) -> Policy:
        """The model with this head and prefix sharing."""
        stack = checked.stack
        blocks = VocabularyBlocks(stack.project_block, checked.vocabulary)
        head = Head(self.head, stack.project, self.chunk, blocks, self.ahead)
        joined = self.joined and checked.joins  # rows that are not too long for it
        return Policy(stack, adapter, head, self.share, bucket=self.bucket, joined=joined)

    def backward(self) -> Backward:
        """A fresh backward path."""
        if self.size == 0:
            return whole_graph
        if self.compiled:
            return Segmented(self.size, CompiledRanges(), self.ahead)
        return Segmented(self.size, ahead=self.ahead)


def _short(**more: Any) -> Way:
    return Way(bucket=128, ahead=1, **more)


ORACLE = "whole graph, two forwards, full head"
WAYS: dict[str, Way] = {
    ORACLE: Way(head="full", share=False, whole=True),
    "whole graph, two forwards, fused head": Way(share=False, whole=True),
    "whole graph, shared prompt, fused head": Way(bucket=128, whole=True),
    "segments of 1, eager, fused head": _short(size=1),
    "segments of 4, eager, fused head": _short(size=4),
    "segments of 1, compiled, two streams": _short(size=1, compiled=True),
    "segments of 1, compiled, fused head": _short(size=1, compiled=True, joined=True),
    "segments of 4, compiled, fused head": _short(size=4, compiled=True, joined=True),
    "segments of 1, compiled, flash head": _short(size=1, compiled=True, joined=True, head="flash"),
    "segments of 4, compiled, flash head": _short(size=4, compiled=True, joined=True, head="flash"),
    "segments of 1, compiled, exact lengths": Way(size=1, compiled=True, ahead=1, joined=True),
}


def make_model(layers: int, dtype: mx.Dtype = mx.bfloat16, bits: int | None = None) -> nn.Module:
    """The random model, frozen; the same on every call."""
    mx.random.seed(0)
    arguments = qwen3.ModelArgs.from_dict({**SHAPE, "num_hidden_layers": layers})
    model = qwen3.Model(arguments)
    # The scale of trained weights, so that logits do not vanish.
    model.model.embed_tokens.weight = 0.05 * mx.random.normal(model.model.embed_tokens.weight.shape)
    model.set_dtype(dtype)
    if bits is not None:
        nn.quantize(model, 64, bits)
    model.freeze()
    mx.eval(model.parameters())
    return model


def open_ours(model: nn.Module) -> tuple[CheckedStack, Adapter]:
    """The model's parts, and an adapter whose B is not zero so that A has a gradient."""
    adapter = attach(model, choose(model, "auto", -1).paths, rank=RANK, scale=SCALE)
    for number, layer in enumerate(adapter.layers.values()):
        layer.lora_b = 0.02 * mx.random.normal(layer.lora_b.shape, key=mx.random.key(number))
    mx.eval(adapter.parameters())
    checked = open_stack(model, "qwen3")
    for why in {checked.whole, checked.segments, checked.prefix, checked.blocks} - {""}:
        print(f"the self-check refuses a fast path: {why}")
    return checked, adapter


def make_pair(prompt: int, answer: int, row: int = 0) -> TokenisedExample:
    """Random tokens; both answers have the same length."""
    random = np.random.default_rng(row)
    first = random.integers(0, SHAPE["vocab_size"], prompt)
    sequences = []
    for _ in range(2):
        ids = np.concatenate([first, random.integers(0, SHAPE["vocab_size"], answer)])
        sequences.append(Tokens(ids.astype(np.int32), np.arange(len(ids)) >= prompt))
    return TokenisedExample(row, Source("bench", row + 1), *sequences, prompt)


def our_step(way: Way, checked: CheckedStack, adapter: Adapter, pair: TokenisedExample) -> Step:
    """Loss and gradients the way `loop` gets them."""
    objective = make_objective(RunConfig(model="m", data="d", method="orpo"))
    policy, backward = way.policy(checked, adapter), way.backward()
    rows = [objective.score(pair)]
    totals = objective.totals(rows)

    def step() -> tuple[mx.array, Gradients]:
        loss, _, gradients = backward(policy, objective, rows, totals, None, 1)
        return loss, gradients

    return step


@dataclass(frozen=True, slots=True)
class Measured:
    """Median and slowest step in milliseconds, peak in bytes, and the last result."""

    median: float
    slowest: float
    first: float
    peak: int
    loss: float
    gradients: Gradients


def measure(step: Step, repeats: int = REPEATS) -> Measured:
    """Warm up, then time whole steps: `repeats` of them, fewer if they are slow."""
    mx.clear_cache()
    mx.reset_peak_memory()
    times: list[float] = []
    while len(times) < WARM_UPS + FEWEST or (
        len(times) < WARM_UPS + repeats and sum(times[WARM_UPS:]) < ENOUGH_MS
    ):
        began = time.perf_counter()
        loss, gradients = step()
        mx.eval(loss, gradients)
        times.append(1e3 * (time.perf_counter() - began))
    kept = times[WARM_UPS:]
    peak = mx.get_peak_memory()
    return Measured(statistics.median(kept), max(kept), times[0], peak, float(loss), gradients)


def distance(got: Gradients, wanted: Gradients) -> float:
    """||got - wanted|| / ||wanted|| over all arrays."""
    pairs = [(got[name].astype(mx.float32), wanted[name].astype(mx.float32)) for name in wanted]
    off = mx.stack([mx.square(a - b).sum() for a, b in pairs]).sum()
    size = mx.stack([mx.square(b).sum() for _, b in pairs]).sum()
    return float(mx.sqrt(off / size))


def show(name: str, size: str, found: Measured, wanted: Gradients | None) -> None:
    """One row of the table."""
    off = "" if wanted is None else f"{distance(found.gradients, wanted):.1e}"
    print(
        f"| {size} | {name} | {found.median:.0f} | {found.slowest:.0f} | {found.first:.0f} "
        f"| {found.peak / 1e9:.2f} | {found.loss:.4f} | {off} |",
        flush=True,
    )


def table_head(title: str) -> None:
    """A new table."""
    print(f"\n{title}\n")
    print("| pair | way | ms | slowest | first | peak GB | loss | gradients off |")
    print("|---|---|---|---|---|---|---|---|")


def compare(sizes: Sequence[tuple[int, int]], ways: Mapping[str, Way], layers: int) -> None:
    """All ways on all sizes."""
    table_head(f"Burnish, {layers} layers, bfloat16")
    model = make_model(layers)
    checked, adapter = open_ours(model)
    for prompt, answer in sizes:
        pair, wanted = make_pair(prompt, answer), None
        for name, way in ways.items():
            if way.whole and prompt + answer > LONGEST_WHOLE:
                continue
            found = measure(our_step(way, checked, adapter, pair))
            show(name, f"{prompt} + {answer}", found, wanted)
            wanted = wanted or found.gradients
            gc.collect()
    del model, checked, adapter


def compare_gradients(ways: Mapping[str, Way]) -> None:
    """bfloat16 paths against the same weights in float32, whole graph, two forwards, full head."""
    print("\nGradients against float32, whole graph, two forwards, full head (4 layers)\n")
    print("| pair | weights | way | gradients off |\n|---|---|---|---|")
    pair = make_pair(700, 200)
    wide = make_model(4)
    wide.set_dtype(mx.float32)
    whole = WAYS[ORACLE]
    wanted: Gradients | None = None
    for label, model in (("float32", wide), ("bfloat16", make_model(4))):
        checked, adapter = open_ours(model)
        for name, way in {ORACLE: whole, **ways}.items():
            loss, gradients = our_step(way, checked, adapter, pair)()
            mx.eval(loss, gradients)
            wanted = wanted or gradients
            print(f"| 700 + 200 | {label} | {name} | {distance(gradients, wanted):.1e} |")
    checked, adapter = open_ours(make_model(2, bits=4))
    wanted = None
    for name, way in {ORACLE: whole, **ways}.items():
        loss, gradients = our_step(way, checked, adapter, pair)()
        mx.eval(loss, gradients)
        wanted = wanted or gradients
        print(f"| 700 + 200 | 4 bit | {name} | {distance(gradients, wanted):.1e} |")


def vary_lengths(count: int, way: Way, layers: int) -> None:
    """Steps on pairs of other lengths each: time, compilations, and whether memory is flat."""
    model = make_model(layers)
    checked, adapter = open_ours(model)
    backward = way.backward()
    policy = way.policy(checked, adapter)
    objective = make_objective(RunConfig(model="m", data="d", method="orpo"))
    random = np.random.default_rng(1)
    times: list[float] = []
    for number in range(count):
        pair = make_pair(int(random.integers(200, 1500)), int(random.integers(50, 500)), number)
        rows = [objective.score(pair)]
        began = time.perf_counter()
        result = backward(policy, objective, rows, objective.totals(rows), None, 1)
        mx.eval(result)
        times.append(1e3 * (time.perf_counter() - began))
        del result
        if number % (count // 5) == count // 5 - 1:
            made = getattr(getattr(backward, "ranges", None), "compilations", 0)
            part = times[-(count // 5) :]
            print(
                f"  {number + 1:4} pairs: {statistics.median(part):.0f} ms median, "
                f"{statistics.mean(part):.0f} ms mean, {made} compilations, "
                f"{mx.get_active_memory() / 1e9:.3f} GB active, "
                f"{mx.get_cache_memory() / 1e9:.2f} GB cached",
                flush=True,
            )


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["1024x512", "4096x1024", "12288x2048"])
    parser.add_argument("--ways", default="", help="only the ways whose name has this in it")
    parser.add_argument("--layers", type=int, default=SHAPE["num_hidden_layers"])
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--lengths", type=int, default=0, metavar="N")
    parser.add_argument("--bucket", type=int, default=128)
    asked = parser.parse_args()
    backend.prepare()
    device = backend.start_device()
    print(f"{device}, mlx {mx.__version__}")
    ways = {name: way for name, way in WAYS.items() if asked.ways in name}
    if asked.gradients:
        compare_gradients(ways)
    elif asked.lengths:
        way = replace(WAYS["segments of 1, compiled, fused head"], bucket=asked.bucket)
        vary_lengths(asked.lengths, way, asked.layers)
    else:
        sizes = [(int(p), int(r)) for p, r in (size.split("x") for size in asked.sizes)]
        compare(sizes, ways, asked.layers)


if __name__ == "__main__":
    main()
