"""Plots of a bench's figures, drawn without a screen.

`python -m tests.bench.plots FOLDER` draws those of the compare.json and growth.json in a folder,
for figures that come from a machine without pyqtgraph.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
from pathlib import Path
from typing import Any

COLOURS = ("#2166ac", "#67a9cf", "#92c5de", "#999999", "#b2182b", "#ef8a62", "#762a83", "#1b7837")
PANELS = (("seconds", "s a step", 1.0), ("above", "GB above what is loaded", 1e-9))


def save_plots(folder: Path) -> None:
    """Draw what the JSON files of a folder hold, if pyqtgraph is installed."""
    if importlib.util.find_spec("pyqtgraph") is None:
        print(f"no plots: pyqtgraph is missing; later: python -m tests.bench.plots {folder}")
        return
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    import pyqtgraph as pg

    pg.mkQApp()
    pg.setConfigOptions(background="w", foreground="k", antialias=True)
    compared, grown = folder / "compare.json", folder / "growth.json"
    if compared.exists():
        groups = json.loads(compared.read_text())
        for method in dict.fromkeys(group[0]["method"] for group in groups if group):
            own = [group for group in groups if group and group[0]["method"] == method]
            _save(_bars(method, own), folder / f"compare-{method}.png")
    if grown.exists():
        for name, series in json.loads(grown.read_text()).items():
            _save(_lines(name, series), folder / f"growth-{name}.png")


def _bars(method: str, groups: list[list[dict[str, Any]]]) -> Any:
    """Seconds and memory of every contender, side by side for each size."""
    import pyqtgraph as pg

    window: Any = pg.GraphicsLayoutWidget(size=(1100, 420))
    names = list(dict.fromkeys(one["contender"]["name"] for group in groups for one in group))
    width = 0.8 / max(len(names), 1)
    for column, (key, label, unit) in enumerate(PANELS):
        plot = window.addPlot(row=0, col=column, title=f"{method}: {label}")
        if column == 0:
            plot.addLegend(offset=(10, 5))
        for place, name in enumerate(names):
            found = [
                (at, one[key] * unit)
                for at, group in enumerate(groups)
                for one in group
                if one["contender"]["name"] == name and key in one
            ]
            x = [at + (place - len(names) / 2 + 0.5) * width for at, _ in found]
            y = [value for _, value in found]
            brush = COLOURS[place % len(COLOURS)]
            plot.addItem(pg.BarGraphItem(x=x, height=y, width=0.9 * width, brush=brush, name=name))
        ticks = [(at, f"{group[0]['size']} tokens") for at, group in enumerate(groups)]
        plot.getAxis("bottom").setTicks([ticks])
        plot.setYRange(0, _top(groups, key, unit) * (1.6 if column == 0 else 1.05))
    return window


def _lines(name: str, series: dict[str, list[dict[str, float]]]) -> Any:
    """Memory and time against what grows, both axes logarithmic."""
    import pyqtgraph as pg

    window: Any = pg.GraphicsLayoutWidget(size=(1100, 420))
    for column, (key, label, unit) in enumerate(PANELS):
        plot = window.addPlot(row=0, col=column, title=label)
        plot.setLogMode(x=True, y=True)
        plot.getViewBox().setDefaultPadding(0.06)  # or the last number has no room
        plot.showGrid(x=True, y=True, alpha=0.3)
        plot.setLabel("bottom", name)
        if column == 0:
            plot.addLegend(offset=(10, 5))
        for place, (title, points) in enumerate(series.items()):
            colour = COLOURS[(3 * place) % len(COLOURS)]
            x, y = [p["x"] for p in points], [p[key] * unit for p in points]
            pen = pg.mkPen(colour, width=2)
            plot.plot(x, y, pen=pen, symbol="o", symbolSize=7, symbolBrush=colour, name=title)
        points = [point for own in series.values() for point in own]
        plot.getAxis("bottom").setTicks([_marks(sorted({p["x"] for p in points}))])
        plot.getAxis("left").setTicks([_marks(_steps([p[key] * unit for p in points]))])
    return window


def _steps(values: list[float]) -> list[float]:
    """1, 2 and 5 of every decade that these values reach into, and one on either side."""
    values = [value for value in values if value > 0]
    if not values:
        return []
    first, last = (math.floor(math.log10(end)) for end in (min(values), max(values)))
    every = [digit * 10.0**decade for decade in range(first, last + 1) for digit in (1, 2, 5)]
    return [step for step in every if min(values) / 2 <= step <= max(values) * 2]


def _marks(values: list[float]) -> list[tuple[float, str]]:
    """Places on a logarithmic axis, and what stands there."""
    return [
        (math.log10(value), f"{value:,.3g}" if value < 1000 else f"{value:,.0f}")
        for value in values
        if value > 0
    ]


def _top(groups: list[list[dict[str, Any]]], key: str, unit: float) -> float:
    return max((one[key] * unit for group in groups for one in group if key in one), default=1.0)


def _save(window: Any, path: Path) -> None:
    from pyqtgraph.exporters import ImageExporter

    window.show()
    ImageExporter(window.scene()).export(str(path))
    window.close()
    print(f"wrote {path}", flush=True)


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    save_plots(parser.parse_args().folder)


if __name__ == "__main__":
    main()
