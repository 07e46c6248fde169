"""Pictures of the window in its main states, made by the program itself from a real run.

    python -m app.shots FOLDER [--run RUN_FOLDER] [--steps N]

Without `--run` the sample is trained first, and a run with a broken data file is let fail. Then
every state is shown in light and dark at two sizes, by replaying what the engine said.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, QSize, QTimer
from PySide6.QtWidgets import QApplication

from app.application import Application, make_qt_application
from app.paths import AppPaths
from app.training.messages import JobDone, JobFailed
from app.viewmodels.plot_table import Page
from app.views.theme import ThemeMode
from trainer_core.events import Event, Failed, Finished, Step
from trainer_core.runfolder import RunFolder, read_events

SIZES = (QSize(1280, 800), QSize(1920, 1080))
THEMES: tuple[ThemeMode, ...] = ("light", "dark")
PAGES: tuple[Page, ...] = ("training", "diagnostics")
SETTLE_MS = 400
MOST_COMPARED = 4
SHOWN_SHARE = 0.6
"""How far the run is in the pictures of a running one."""


class Studio:
    """An app with folders of its own, and a way to wait for it."""

    def __init__(self, qt: QApplication, home: Path) -> None:
        self.home = home
        self.app = Application(qt, AppPaths(home / "config", home / "log"))
        self.app.form.set_value("output", str(home / "runs"))

    def train(self, changes: dict[str, object]) -> list[Event]:
        """Start a real run and wait for its end; returns everything the engine said."""
        events: list[Event] = []
        loop = QEventLoop()

        def on_drained(messages: list[object]) -> None:
            events.extend(message for message in messages if isinstance(message, Event))
            if any(
                isinstance(m, JobDone | JobFailed)
                and (m.job == "train" or isinstance(m, JobFailed))
                for m in messages
            ):
                loop.quit()

        for key, value in changes.items():
            self.app.form.set_value(key, value)
        self.app.session.drained.connect(on_drained)
        if not self.app.session.start_form(self.app.form):
            raise SystemExit(f"the run cannot start: {self.app.form.status}")
        loop.exec()
        self.app.session.drained.disconnect(on_drained)
        return events


def settle() -> None:
    """Let the window draw itself."""
    loop = QEventLoop()
    QTimer.singleShot(SETTLE_MS, loop.quit)
    loop.exec()


def record(qt: QApplication, steps: int) -> tuple[list[Event], Failed]:
    """Train the sample, and let a run fail on a row without an answer."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        studio = Studio(qt, home)
        studio.app.session.open()
        good = studio.train({"iters": steps, "val_rows": 8, "steps_per_eval": 10})
        broken = home / "answers.jsonl"
        broken.write_text(
            '{"prompt": "Why is the sky blue?", "chosen": "Scattering.", "rejected": "Well."}\n'
            '{"prompt": "How many moons has Mars?", "chosen": "Two."}\n',
            encoding="utf-8",
        )
        bad = studio.train({"data": str(broken)})
        studio.app.shut_down()
    failed = next((event for event in bad if isinstance(event, Failed)), None)
    if failed is None or not isinstance(good[-1], Finished):
        raise SystemExit(f"the run did not go as it should: {good[-1]}, {bad[-1]}")
    return good, failed


def take_all(qt: QApplication, out: Path, events: list[Event], failed: Failed | None) -> list[Path]:
    """Render every state in both themes and sizes; returns the files."""
    last = max((event.step for event in events if isinstance(event, Step)), default=0)
    cut = next(
        i
        for i, event in enumerate(events)
        if isinstance(event, Step) and event.step >= last * SHOWN_SHARE
    )
    made: list[Path] = []
    with tempfile.TemporaryDirectory() as folder:
        for theme in THEMES:
            for size in SIZES:
                studio = Studio(qt, Path(folder) / f"{theme}-{size.width()}")
                app, name = studio.app, f"{size.width()}x{size.height()}-{theme}"
                app.theme.set_mode(theme)
                app.window.resize(size)
                app.window.show()
                made.append(_grab(app, out / f"idle-{name}.png"))
                app.session.run.begin()
                app.session.progress.begin("Starting")
                app.session.replay(events[: cut + 1])
                made += _grab_pages(app, out, "running", name)
                app.session.replay(events[cut + 1 :])
                made += _grab_pages(app, out, "finished", name)
                made += _grab_others(app, out, name)
                app.window.close()
                if failed is not None:
                    app = Studio(qt, Path(folder) / f"{theme}-{size.width()}-error").app
                    app.theme.set_mode(theme)
                    app.window.resize(size)
                    app.window.show()
                    app.session.run.begin()
                    app.session.progress.begin("Starting")
                    app.session.replay([failed])
                    made.append(_grab(app, out / f"error-{name}.png"))
                    app.window.close()
    return made


def _grab_pages(app: Application, out: Path, state: str, name: str) -> list[Path]:
    made: list[Path] = []
    for page in PAGES:
        app.window.panels.plots.show_page(page)
        suffix = "" if page == "training" else f"-{page}"
        made.append(_grab(app, out / f"{state}{suffix}-{name}.png"))
    app.window.panels.plots.show_page("training")
    return made


def _grab_others(app: Application, out: Path, name: str) -> list[Path]:
    """The pages besides the curves, with a row under the lens and all runs compared."""
    made: list[Path] = []
    for key in app.window.pages.keys:
        if key == "train":
            continue
        app.window.pages.show_page(key)
        settle()
        if key == "data":
            app.data.select(app.data.table.row_at(0))
        if key == "runs":
            app.runs.select([record.folder for record in app.runs.records or ()][:MOST_COMPARED])
            settle()
        made.append(_grab(app, out / f"{key}-{name}.png"))
    app.data.open(Path("no-such-file.jsonl"))
    app.window.pages.show_page("data")
    made.append(_grab(app, out / f"data-error-{name}.png"))
    return made


def _grab(app: Application, path: Path) -> Path:
    settle()
    if not app.window.grab().save(str(path)):
        raise SystemExit(f"{path} cannot be written")
    return path


def main(arguments: Sequence[str]) -> int:
    """Make the pictures; prints each file."""
    parser = argparse.ArgumentParser(prog="app.shots", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--run", type=Path, help="show this run instead of training the sample")
    parser.add_argument("--steps", type=int, default=60, help="length of the sample run")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    qt = make_qt_application(["burnish"])
    qt.setQuitOnLastWindowClosed(False)
    failed: Failed | None = None
    if options.run is not None:
        events = read_events(RunFolder(options.run).events)
    else:
        events, failed = record(qt, options.steps)
    for path in take_all(qt, options.folder, events, failed):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
