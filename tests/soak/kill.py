"""Kills a run at random moments, takes it up again, and compares it with one that was left alone.

    python -m tests.soak.kill --seed 1 -n 30

`victim.py` tells how a victim dies. It may be killed several times before it is left to finish.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.core.same_run import differences
from tests.soak.victim import STEPS, Death
from trainer_core.runfolder import RunFolder

ROOT = Path(__file__).parents[2]
KINDS = ("time", "write", "fsync", "rename", "save", "validate", "power")


def main() -> int:
    """Run the soak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-n", type=int, default=30, help="how many runs to kill")
    parser.add_argument("--method", default="dpo", choices=["sft", "dpo", "orpo"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        return soak(Path(scratch), args.seed, args.n, args.method)


def soak(scratch: Path, seed: int, count: int, method: str) -> int:
    """Kill and take up `count` runs; print a line for each; 0 if all came out the same."""
    chance = random.Random(seed)
    began = time.monotonic()
    whole = RunFolder(scratch / "whole" / "r")
    assert start(scratch / "whole", method, None, tally=scratch / "tally").wait() == 0
    lasts = time.monotonic() - began
    calls = json.loads((scratch / "tally").read_text())
    print(f"seed {seed}, {method}, {STEPS} steps; the whole run takes {lasts:.1f} s")
    print(f"calls in it: {', '.join(f'{n} {kind}' for kind, n in sorted(calls.items()))}\n")
    print(f"{'run':>3}  {'deaths':<58} {'sessions':>8}  result")
    good = 0
    for number in range(count):
        folder = RunFolder(scratch / str(number) / "r")
        deaths, sessions = [], 0
        for round_ in range(chance.choice([1, 1, 2, 3])):
            kind = KINDS[(number + round_) % len(KINDS)]
            after = chance.uniform(0.3, lasts) if kind == "time" else 0.0
            after = after or chance.randint(1, calls["fsync" if kind == "power" else kind])
            death = Death(kind, after, chance.random() < 0.5)
            process = start(folder.path.parent, method, death)
            sessions += 1
            if process.wait() == 0:
                deaths.append("(too late)")
                break
            deaths.append(f"{kind} {after:.3g}{'+' if death.late else ''}")
        else:
            assert start(folder.path.parent, method, None).wait() == 0, "it did not go on"
            sessions += 1
        wrong = differences(folder, whole, STEPS)
        good += not wrong
        result = "same" if not wrong else f"DIFFERS: {wrong[:3]}"
        print(f"{number + 1:>3}  {', '.join(deaths):<58} {sessions:>8}  {result}", flush=True)
    print(f"\n{good} of {count} taken up and equal, {time.monotonic() - began:.0f} s")
    return 0 if good == count else 1


def start(
    output: Path, method: str, death: Death | None, tally: Path | None = None
) -> subprocess.Popen[bytes]:
    """A process that begins or takes up the run in a folder, and dies as it is told."""
    told: dict[str, Any] = {
        "output": str(output),
        "method": method,
        "death": death and asdict(death),
        "tally": tally and str(tally),
    }
    command = [sys.executable, "-m", "tests.soak.victim", json.dumps(told)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    if death and death.kind == "time":
        try:
            process.wait(death.after)
        except subprocess.TimeoutExpired:
            process.kill()
    return process


if __name__ == "__main__":
    sys.exit(main())
