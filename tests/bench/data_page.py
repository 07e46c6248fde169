"""The data page on many rows: time to the first ones, to all, memory, and how the window moves.

python -m tests.bench.data_page [--rows 100000] [--data FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import psutil
from PySide6.QtCore import QEventLoop, QTimer

from app.application import Application, make_qt_application
from app.paths import AppPaths
from app.viewmodels.data_vm import DataViewModel

BEAT_MS = 5
OPENED_MS = 1_000
WORDS = ("the", "a", "of", "to", "and", "in", "is", "it", "you", "that", "he", "was", "for", "on")


def write_rows(path: Path, count: int) -> None:
    """Questions and answers of some 60 words."""
    draw = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            words = [draw.choice(WORDS) for _ in range(draw.randint(30, 90))]
            prompt = f"Question {number}: {' '.join(words[:20])}?"
            row = {"prompt": prompt, "completion": " ".join(words[20:]) + "."}
            file.write(json.dumps(row) + "\n")


def main() -> None:
    """Open the page and print what was seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        data = options.data or home / "rows.jsonl"
        if options.data is None:
            write_rows(data, options.rows)
        app = Application(make_qt_application([]), AppPaths(home / "config", home / "log"))
        app.form.set_value("method", "sft")
        app.form.set_value("data", str(data))
        app.open(warm_up=False)
        watch(app.data, app)
        app.window.may_close = lambda: True
        app.window.close()
        app.shut_down()


def watch(vm: DataViewModel, app: Application) -> None:
    """Turn to the page and follow it to the end."""
    settle = QEventLoop()
    QTimer.singleShot(OPENED_MS, settle.quit)
    settle.exec()
    memory = psutil.Process().memory_info().rss
    began = time.perf_counter()
    seen: dict[str, float] = {}
    beats = [began]
    loop = QEventLoop()
    beat = QTimer(interval=BEAT_MS)

    def on_beat() -> None:
        now = time.perf_counter()
        beats.append(now)
        first = vm.table.rowCount() > 0 and app.window.pages.current == "data"
        if first:
            seen.setdefault("first rows", now - began)
        if vm.summary.rows and not vm.reading:
            seen.setdefault("all rows", now - began)
            if not vm.measuring:
                seen.setdefault("all tokens", now - began)
                loop.quit()

    beat.timeout.connect(on_beat)
    beat.start()
    app.window.pages.show_page("data")
    loop.exec()
    gaps = sorted(b - a for a, b in pairwise(beats))
    print_all(seen, gaps, psutil.Process().memory_info().rss - memory, vm)


def print_all(seen: dict[str, float], gaps: list[float], memory: int, vm: DataViewModel) -> None:
    """One line each."""
    lines = [f"{name}: {seconds:.2f} s" for name, seconds in seen.items()]
    lines.append(f"rows {vm.summary.rows:,}, tokens {vm.summary.tokens:,}")
    lines.append(f"memory: {memory / 1e6:,.0f} MB more")
    at = gaps[int(len(gaps) * 0.99)]
    lines.append(f"event loop: p99 {at * 1000:.0f} ms, largest {gaps[-1] * 1000:.0f} ms")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
