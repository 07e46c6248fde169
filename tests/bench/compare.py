"""Burnish against mlx-lm's SFT trainer and mlx-lm-lora's ORPO and DPO, at equal inputs, in one run.

    python -m tests.bench.compare [--methods sft orpo dpo orpo-full] [--sizes 4096 ...]
        [--model llama-16] [--rounds 2] [--steps 3] [--only TEXT] [--no-oracle] [--no-gradients]
        [--out FOLDER] [--quick]
        [--rival-python PATH | --make-rival-env FOLDER] [--slow-blas]

Each contender trains the same random model on the same token ids with the same adapter: LoRA of
rank 16 on every projection, Adam, float32 on a CPU and bfloat16 on a GPU. A step is a whole
optimiser update by each package's own trainer. Every measurement has a process of its own; the
processes alternate over `--rounds`, back and forth, and the figures are medians over all rounds.
Peaks are MLX's. "Above" is above what was active once model and adapter were loaded.

mlx-lm comes with Burnish. mlx-lm-lora 5.10.2 brings many dependencies; where this Python cannot
import it, `--make-rival-env FOLDER` installs it into an environment of its own, and
`--rival-python PATH` names one. Without either, ORPO and DPO are measured without it.

On a Linux CPU MLX's own BLAS is slow. The rivals get Burnish's OpenBLAS, which they do not have by
themselves; `--slow-blas` measures them without it too. Sizes are T or BxT tokens for sft, and PxR
for pairs: prompt and answer. `--out` gets compare.md, compare.json and a plot for each method.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.bench.children import ChildFailed, Machine, has_module, make_model, measure
from tests.bench.contenders import Contender, Size, contenders, default_model, default_sizes
from tests.bench.gradients import distance
from tests.bench.plots import save_plots
from tests.bench.report import Table, gigabytes, seconds
from tests.bench.rival_env import rival_python
from tests.bench.shapes import SHAPES
from tests.bench.task import Result, Task, save_rows

METHODS = ("sft", "orpo", "dpo", "orpo-full")
HEAD = ("method", "tokens", "trainer", "s/step", "tokens/s", "above GB", "peak GB", "process GB")
HEAD = (*HEAD, "loss", "gradient off", "time of Burnish's", "memory of Burnish's")


@dataclass(slots=True)
class Measured:
    """All rounds of one contender on one size."""

    method: str
    size: str
    contender: Contender
    tokens: int
    rounds: list[Result] = field(default_factory=list)
    failed: str = ""
    off: float | None = None

    @property
    def seconds(self) -> float:
        """Median over the steps of all rounds."""
        return statistics.median(s for result in self.rounds for s in result.seconds)

    @property
    def above(self) -> int:
        """The highest peak above what was loaded."""
        return max(result.above for result in self.rounds)

    def cells(self, first: Measured) -> list[str]:
        """A row of the table; `first` is Burnish on the same size."""
        start = [self.method, self.size, self.contender.name]
        if self.failed or not self.rounds:
            return [*start, self.failed]
        last = self.rounds[-1]
        known = bool(first.rounds)
        return [
            *start,
            seconds(self.seconds),
            f"{self.tokens / self.seconds:,.0f}",
            gigabytes(self.above),
            gigabytes(max(result.peak for result in self.rounds)),
            gigabytes(max(result.process for result in self.rounds)),
            f"{self.rounds[0].loss:.5f}",
            "" if self.off is None else f"{self.off:.1e}",
            f"{self.seconds / first.seconds:.2f}" if known else "",
            f"{self.above / first.above:.2f}" if known else "",
            ", ".join(f"{k} {v}" for k, v in last.settings.items() if k in _SHOWN),
        ]


_SHOWN = ("segment_size", "head", "chunk_size", "prefix_sharing", "attention")


class Bench:
    """One comparison: a folder for models and rows, and how to start each contender."""

    def __init__(self, asked: argparse.Namespace, scratch: Path) -> None:
        self.asked = asked
        self.scratch = scratch
        self.rival = _rival(asked)
        self.machine: Machine | None = None
        self._models: dict[str, Path] = {}

    def model(self, name: str) -> Path:
        """The folder of a shape's model."""
        if name not in self._models:
            self._models[name] = self.scratch / name
            print(f"writing the model {name}", flush=True)
            self.machine = make_model(name, self._models[name])
        return self._models[name]

    def compare(self, method: str, model: str, size: Size, who: list[Contender]) -> list[Measured]:
        """Alternate the contenders, first to last and back."""
        rows_file = self.scratch / "rows.npz"
        rows = size.rows(SHAPES[model]["vocab_size"])
        save_rows(rows_file, rows)
        tokens = sum(row.tokens for row in rows)
        found = [Measured(method, size.text, contender, tokens) for contender in who]
        for number in range(self.asked.rounds):
            for place, one in list(enumerate(found))[:: -1 if number % 2 else 1]:
                if one.failed:
                    continue
                # The quickest way to compare gradients: once, in the first round.
                gradients = self.scratch / f"gradients-{place}.npz"
                task = Task(
                    package=one.contender.package,
                    method=method.removesuffix("-full"),
                    model=str(self.model(model)),
                    rows=str(rows_file),
                    options=one.contender.options,
                    warm_ups=self.asked.warm_ups,
                    steps=self.asked.steps,
                    gradients="" if number or self.asked.no_gradients else str(gradients),
                    fast_blas=not one.contender.name.endswith(_SLOW),
                )
                self._take(one, task)
        wanted = self.scratch / "gradients-0.npz"
        for place, one in enumerate(found):
            if place and one.rounds and found[0].rounds and not self.asked.no_gradients:
                one.off = distance(self.scratch / f"gradients-{place}.npz", wanted)
        return found

    def _take(self, one: Measured, task: Task) -> None:
        python = self.rival if task.package == "mlx-lm-lora" else sys.executable
        name = f"{one.method} {one.size} {one.contender.name}"
        try:
            assert python is not None, "contenders that cannot run were left out"
            result = measure(task, self.scratch, python)
        except ChildFailed as error:
            one.failed = str(error)
            print(f"{name}: failed: {error}", flush=True)
            return
        one.rounds.append(result)
        print(
            f"{name}: {seconds(statistics.median(result.seconds))} s, "
            f"{gigabytes(result.above)} GB above {gigabytes(result.active)} GB",
            flush=True,
        )


_SLOW = ", MLX's own BLAS"


def _rival(asked: argparse.Namespace) -> str | None:
    """A Python that has mlx-lm-lora."""
    python = sys.executable
    if asked.make_rival_env:
        python = rival_python(asked.make_rival_env)
    elif asked.rival_python:
        python = asked.rival_python
    if has_module(python, "mlx_lm_lora"):
        return python
    print(f"{python} has no mlx_lm_lora: measured without it (see --make-rival-env)", flush=True)
    return None


def _who(bench: Bench, method: str, gpu: bool) -> list[Contender]:
    found = contenders(method, gpu, two_forwards=not bench.asked.no_oracle)
    if bench.rival is None:
        found = [one for one in found if one.package != "mlx-lm-lora"]
    if bench.asked.slow_blas and not gpu:
        plain = [one for one in found if one.package != "burnish" and not one.options]
        found += [replace(one, name=one.name + _SLOW) for one in plain]
    wanted = bench.asked.only
    return [one for one in found if any(text in one.name for text in wanted)] if wanted else found


def run(asked: argparse.Namespace, scratch: Path) -> tuple[Machine, list[list[Measured]]]:
    """Everything that was asked for, one list for each method and size."""
    bench = Bench(asked, scratch)
    # The first model tells what MLX computes on, and with it which sizes make sense.
    bench.model("tiny")
    assert bench.machine is not None
    gpu = bench.machine.gpu
    found: list[list[Measured]] = []
    for method in asked.methods:
        model = "tiny" if asked.quick else asked.model or default_model(method, gpu)
        bench.model(model)
        quick = ["48"] if method == "sft" else ["24x12"]
        for text in quick if asked.quick else asked.sizes or default_sizes(method, gpu):
            size = Size(text, pairs=method != "sft")
            found.append(bench.compare(method, model, size, _who(bench, method, gpu)))
    return bench.machine, found


def main(arguments: list[str] | None = None) -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS[:3]))
    parser.add_argument("--sizes", nargs="+", help="of every method named")
    parser.add_argument("--model", choices=SHAPES)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warm-ups", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="contenders whose name has one of these in it")
    parser.add_argument("--no-oracle", action="store_true", help="leave out two forwards")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--rival-python", metavar="PATH")
    parser.add_argument("--make-rival-env", type=Path, metavar="FOLDER")
    parser.add_argument("--no-gradients", action="store_true", help="do not compare them")
    parser.add_argument("--slow-blas", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that it runs")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        machine, found = run(asked, Path(scratch))
    table = Table(f"{machine.device}, MLX {machine.mlx}", [*HEAD, "settings"])
    for group in found:
        table.rows += [one.cells(group[0]) for one in group]
    asked.out.mkdir(parents=True, exist_ok=True)
    print(f"\n{table}", flush=True)
    (asked.out / "compare.md").write_text(str(table))
    record = [[_record(one) for one in group] for group in found]
    (asked.out / "compare.json").write_text(json.dumps(record, indent=1))
    save_plots(asked.out)


def _record(one: Measured) -> dict[str, Any]:
    flat = asdict(one)
    if one.rounds:
        flat |= {"seconds": one.seconds, "above": one.above}
    return flat


if __name__ == "__main__":
    main()
