"""Whether memory stays flat over many steps on rows of varied lengths, through the real loop.

    python -m tests.bench.leak [--steps 200] [--method orpo] [--model tiny] [--longest 512]
        [--segments 1] [--out FOLDER] [--quick]

Every step takes a row of another length. The table has a line for each tenth of the run: MLX's
active memory, what its cache holds, and the slowest step. Exits with 1 if active memory at the end
is more than 1 % above that after the first tenth, or the cache is larger than MLX may let it be.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.bench.children import make_model, measure
from tests.bench.report import Table, gigabytes, seconds
from tests.bench.shapes import SHAPES
from tests.bench.task import Row, Task, random_pair, random_sequence, save_rows

PARTS = 10
GROWTH = 1.01


def varied_rows(count: int, method: str, longest: int, vocabulary: int) -> list[Row]:
    """Rows of random lengths from a sixteenth of `longest` to all of it."""
    random = np.random.default_rng(5)
    found = []
    for number, length in enumerate(random.integers(longest // 16, longest + 1, count)):
        if method == "sft":
            found.append(random_sequence(int(length), vocabulary, number))
            continue
        answer = int(random.integers(length // 8, length // 3)) + 2
        prompt = max(int(length) - answer, 2)
        found.append(random_pair(prompt, answer, vocabulary, number))
    return found


def _every_tenth_step(line: str) -> None:
    if not line.startswith("step ") or line.split(":")[0].endswith("0"):
        print(f"  {line}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--method", choices=("sft", "orpo", "dpo"), default="orpo")
    parser.add_argument("--model", choices=SHAPES)
    parser.add_argument("--longest", type=int, help="tokens; 2048 on a GPU, 256 on a CPU")
    parser.add_argument("--segments", help="segment_size instead of auto")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that it runs")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        machine = make_model("tiny", scratch / "tiny")
        name = (
            "tiny" if asked.quick else asked.model or ("qwen3-0.6b" if machine.gpu else "llama-8")
        )
        make_model(name, scratch / name)
        longest = asked.longest or (64 if asked.quick else 2048 if machine.gpu else 256)
        rows = varied_rows(asked.steps, asked.method, longest, SHAPES[name]["vocab_size"])
        save_rows(scratch / "rows.npz", rows)
        options = {} if asked.segments is None else {"segment_size": int(asked.segments)}
        task = Task(
            "burnish",
            asked.method,
            str(scratch / name),
            str(scratch / "rows.npz"),
            options,
            warm_ups=0,
            steps=asked.steps,
            one_row_a_step=True,
        )
        print(f"{asked.steps} steps of {asked.method} on {machine.device}, {name}", flush=True)
        found = measure(task, scratch, tell=_every_tenth_step)
    title = (
        f"{machine.device}, MLX {machine.mlx}, {asked.method} on {name}, segments "
        f"{found.settings['segment_size']}, up to {longest} tokens; loaded: "
        f"{gigabytes(found.active)} GB, peak {gigabytes(found.peak)} GB"
    )
    table = Table(title, ["steps", "active GB", "cache GB", "slowest s", "median s"])
    ends: list[int] = []
    for part in range(PARTS):
        start, stop = (asked.steps * n // PARTS for n in (part, part + 1))
        if start == stop:
            continue
        times = sorted(found.seconds[start:stop])
        ends.append(max(found.actives[start:stop]))
        cache = gigabytes(max(found.caches[start:stop]))
        median = seconds(times[len(times) // 2])
        table.rows.append([f"{stop}", gigabytes(ends[-1]), cache, seconds(times[-1]), median])
    grew = ends[-1] > GROWTH * ends[0]
    limit = found.settings["cache_limit"]
    over = max(found.caches) > limit
    verdict = f"Active memory {'GROWS' if grew else 'is flat'}: {ends[0]} to {ends[-1]} bytes. "
    verdict += f"The cache is {'OVER' if over else 'within'} its limit of {gigabytes(limit)} GB."
    print(f"\n{table}\n{verdict}", flush=True)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "leak.md").write_text(f"{table}\n{verdict}\n")
    return int(grew or over)


if __name__ == "__main__":
    sys.exit(main())
