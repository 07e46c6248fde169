"""How time and peak memory of one optimiser step grow with length, vocabulary and layers.

    python -m tests.bench.growth [--of length vocabulary layers] [--method orpo] [--values 256 ...]
        [--ways TEXT] [--model llama-8] [--steps 1] [--limit-gb N] [--limit-s N] [--out FOLDER]
        [--quick]

Burnish only, as `auto` runs it and in the ways that `WAYS` names. Lengths are the tokens of a row;
of a pair, a sixth of them is each answer and the rest is the prompt that both share, as in DESIGN's
table. A series ends with the first point over one of the limits. `--out` gets growth.md,
growth.json and a plot with logarithmic axes for each.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.children import ChildFailed, Machine, make_model, measure
from tests.bench.contenders import LOWEST
from tests.bench.plots import save_plots
from tests.bench.report import Table, gigabytes, seconds
from tests.bench.shapes import SHAPES
from tests.bench.task import Result, Row, Task, random_pair, random_sequence, save_rows

VALUES: dict[str, dict[str, list[int]]] = {
    "length": {
        "gpu": [256, 512, 1024, 2048, 4096, 8192, 16384],
        "cpu": [256, 512, 1024, 2048, 4096],
    },
    "vocabulary": {
        "gpu": [32768, 65536, 131072, 262144],
        "cpu": [32768, 65536, 131072, 262144],
    },
    "layers": {"gpu": [7, 14, 28, 56], "cpu": [2, 4, 8, 16]},
}
QUICK = {"length": [32, 64], "vocabulary": [128, 256], "layers": [1, 2]}
# The other two while one of them grows.
TOKENS = {"gpu": 2048, "cpu": 512}

WAYS: dict[str, dict[str, dict[str, Any]]] = {
    "gpu": {"auto": {}, "flash head": {"head": "flash"}},
    "cpu": {
        "auto": {},
        "segments of 1": LOWEST,
        "segments of 1, blocked attention": {**LOWEST, "attention": "blocked"},
    },
}


def row_of(method: str, tokens: int, vocabulary: int) -> Row:
    """One row of a length."""
    if method == "sft":
        return random_sequence(tokens, vocabulary)
    answer = max(tokens // 6, 2)
    return random_pair(tokens - answer, answer, vocabulary)


def slope(points: list[dict[str, float]], key: str) -> float | None:
    """The power with which the last half of a series grows, from its ends."""
    if len(points) < 3:
        return None
    first, last = points[len(points) // 2 - 1], points[-1]
    if min(first[key], last[key]) <= 0:
        return None
    return math.log(last[key] / first[key]) / math.log(last["x"] / first["x"])


class Growth:
    """All series of one run."""

    def __init__(self, asked: argparse.Namespace, scratch: Path) -> None:
        self.asked = asked
        self.scratch = scratch
        self.machine: Machine | None = None
        self.series: dict[str, dict[str, list[dict[str, float]]]] = {}
        self.rows: list[list[str]] = []

    def run(self) -> None:
        """Every series that was asked for."""
        machine = self.machine = make_model("tiny", self.scratch / "tiny")
        kind = "gpu" if machine.gpu else "cpu"
        name = self.asked.model or ("qwen3-0.6b" if machine.gpu else "llama-8")
        name = "tiny" if self.asked.quick else name
        for grows in self.asked.of:
            values = QUICK[grows] if self.asked.quick else VALUES[grows][kind]
            values = self.asked.values or values
            open_ways = {n: o for n, o in WAYS[kind].items() if self.asked.ways in n}
            self.series[grows] = {way: [] for way in open_ways}
            for value in values:
                self._point(grows, value, name, kind, open_ways)

    def _point(
        self, grows: str, value: int, name: str, kind: str, open_ways: dict[str, dict[str, Any]]
    ) -> None:
        """All ways at one value; a way over a limit is taken out."""
        folder = self.scratch / f"{name}-{grows}-{0 if grows == 'length' else value}"
        if not folder.exists():
            layers = value if grows == "layers" else None
            vocabulary = value if grows == "vocabulary" else None
            make_model(name, folder, layers, vocabulary)
        config = json.loads((folder / "config.json").read_text())
        tokens = value if grows == "length" else 64 if self.asked.quick else TOKENS[kind]
        rows = self.scratch / "rows.npz"
        save_rows(rows, [row_of(self.asked.method, tokens, config["vocab_size"])])
        for way, options in list(open_ways.items()):
            task = Task(
                "burnish",
                self.asked.method,
                str(folder),
                str(rows),
                options,
                steps=self.asked.steps,
            )
            try:
                found = measure(task, self.scratch)
            except ChildFailed as error:
                del open_ways[way]
                self.rows.append([grows, f"{value:,}", way, f"failed: {error}"])
                print(f"{grows} {value:,} {way}: failed: {error}", flush=True)
                continue
            self._keep(grows, value, way, found)
            over_time = statistics.median(found.seconds) > self.asked.limit_s
            if over_time or found.above > 1e9 * self.asked.limit_gb:
                del open_ways[way]
        if grows != "length":
            (folder / "model.safetensors").unlink()

    def _keep(self, grows: str, value: int, way: str, found: Result) -> None:
        took = statistics.median(found.seconds)
        point = {"x": float(value), "seconds": took, "above": float(found.above)}
        self.series[grows][way].append(point)
        chosen = f"segments {found.settings['segment_size']}, {found.settings['attention']}"
        row = [grows, f"{value:,}", way, seconds(took), gigabytes(found.above)]
        self.rows.append([*row, gigabytes(found.peak), chosen])
        print(f"{grows} {value:,} {way}: {row[3]} s, {row[4]} GB above", flush=True)

    def tables(self) -> str:
        """Figures, and the powers with which they grow."""
        assert self.machine is not None
        title = f"{self.machine.device}, MLX {self.machine.mlx}, {self.asked.method}"
        head = ["what grows", "to", "way", "s/step", "above GB", "peak GB", "chosen"]
        powers = Table("Growth of the last half, as a power", ["of", "way", "time", "memory"])
        for grows, ways in self.series.items():
            for way, points in ways.items():
                found = [slope(points, key) for key in ("seconds", "above")]
                texts = ["" if power is None else f"{power:.2f}" for power in found]
                powers.rows.append([grows, way, *texts])
        return f"{Table(title, head, self.rows)}\n{powers}"


def main(arguments: list[str] | None = None) -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--of", nargs="+", choices=VALUES, default=list(VALUES))
    parser.add_argument("--method", choices=("sft", "orpo", "dpo"), default="orpo")
    parser.add_argument("--values", nargs="+", type=int, help="of every one that is named")
    parser.add_argument("--ways", default="", help="only those whose name has this in it")
    parser.add_argument("--model", choices=SHAPES)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--limit-gb", type=float, default=120.0)
    parser.add_argument("--limit-s", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that it runs")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        growth = Growth(asked, Path(scratch))
        growth.run()
    text = growth.tables()
    print(f"\n{text}", flush=True)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "growth.md").write_text(text)
    (asked.out / "growth.json").write_text(json.dumps(growth.series, indent=1))
    save_plots(asked.out)


if __name__ == "__main__":
    main()
