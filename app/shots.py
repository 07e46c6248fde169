"""Pictures of the window in its main states, made by the program itself from a real run.

    python -m app.shots FOLDER [--run RUN_FOLDER] [--steps N]

Without `--run` the sample is trained first, its adapter is asked a question, and a run with a
broken data file is let fail. Then every state is shown in light and dark at two sizes, by replaying
what the engine said.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, QSize, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from app.application import Application, make_qt_application
from app.paths import AppPaths
from app.training.messages import JobDone, JobFailed
from app.viewmodels.exchanges import Exchange
from app.viewmodels.going_on import interrupted_notice
from app.viewmodels.plot_table import Page
from app.viewmodels.tour_vm import STEPS
from app.views.runs_page import RunsPage
from app.views.theme import ThemeMode
from trainer_core.events import Event, Failed, Finished, Paused, Resumed, Step
from trainer_core.runfolder import RunFolder, read_events

SIZES = (QSize(1280, 800), QSize(1920, 1080))
THEMES: tuple[ThemeMode, ...] = ("light", "dark")
PAGES: tuple[Page, ...] = ("training", "diagnostics")
SETTLE_MS = 400
MOST_COMPARED = 4
SHOWN_SHARE = 0.6
"""How far the run is in the pictures of a running one."""


QUESTION = "What is the boiling point of water?"
NO_MODEL = "a model/with spaces"


@dataclass(frozen=True)
class Recorded:
    """What the pictures are made of.

    Attributes:
        runs: the folder in which the run lies.
        events: everything the engine said in the run.
        failed: how a run with a broken data file ended.
        exchanges: what its adapter was asked, with the answers.
    """

    runs: Path
    events: list[Event]
    failed: Failed | None = None
    exchanges: list[Exchange] = field(default_factory=list)


class Studio:
    """An app with settings of its own, and a way to wait for it."""

    def __init__(self, qt: QApplication, home: Path, runs: Path) -> None:
        self.app = Application(qt, AppPaths(home / "config", home / "log"))
        self.app.form.set_value("output", str(runs))

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

    def ask(self, question: str) -> list[Exchange]:
        """Put a question to the newest run and wait for the answers."""
        trial = self.app.trial
        trial.wake()
        wait_until(lambda: bool(trial.sources) and bool(trial.source and trial.source.adapters))
        if not trial.ask(question):
            raise SystemExit(f"nothing can be asked: {trial.obstacle}")
        wait_until(lambda: trial.exchanges.waiting is None)
        return trial.exchanges.items


def wait_until(done: Callable[[], bool]) -> None:
    """Run the event loop until something is so."""
    loop = QEventLoop()
    timer = QTimer(interval=20)
    timer.timeout.connect(lambda: loop.quit() if done() else None)
    timer.start()
    loop.exec()


def settle() -> None:
    """Let the window draw itself."""
    loop = QEventLoop()
    QTimer.singleShot(SETTLE_MS, loop.quit)
    loop.exec()


def record(qt: QApplication, home: Path, steps: int) -> Recorded:
    """Train the sample, ask it, and let a run fail on a row without an answer."""
    studio = Studio(qt, home, home / "runs")
    studio.app.session.open()
    good = studio.train(
        {"iters": steps, "val_rows": 8, "steps_per_eval": 10, "sample_prompts": QUESTION}
    )
    exchanges = studio.ask(QUESTION)
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
    return Recorded(home / "runs", good, failed, exchanges)


def take_all(qt: QApplication, out: Path, home: Path, recorded: Recorded) -> list[Path]:
    """Render every state in both themes and sizes; returns the files."""
    made: list[Path] = []
    for theme in THEMES:
        for size in SIZES:
            name = f"{size.width()}x{size.height()}-{theme}"
            app = Studio(qt, home / name, recorded.runs).app
            _show(app, theme, size)
            made += _grab_run(app, out, name, recorded)
            made += _grab_others(app, out, name, recorded)
            app.window.close()
            app = Studio(qt, home / f"{name}-bare", home / "none").app
            _show(app, theme, size)
            made += _grab_bare(app, out, name, recorded.failed)
            app.window.close()
    return made


def _show(app: Application, theme: ThemeMode, size: QSize) -> None:
    app.theme.set_mode(theme)
    app.window.resize(size)
    app.window.show()


def _grab_run(app: Application, out: Path, name: str, recorded: Recorded) -> list[Path]:
    """The curves before, in the middle of and after the run."""
    events = recorded.events
    last = max((event.step for event in events if isinstance(event, Step)), default=0)
    shown = last * SHOWN_SHARE
    cut = next(i for i, e in enumerate(events) if isinstance(e, Step) and e.step >= shown)
    made = [_grab(app, out / f"idle-{name}.png")]
    app.session.run.begin()
    app.session.progress.begin("Starting")
    app.session.replay(events[: cut + 1])
    made += _grab_pages(app, out, "running", name)
    app.session.replay([Paused(int(shown))])
    made.append(_grab(app, out / f"paused-{name}.png"))
    app.session.replay([Resumed(int(shown))])
    app.session.replay(events[cut + 1 :])
    return made + _grab_pages(app, out, "finished", name)


def _grab_pages(app: Application, out: Path, state: str, name: str) -> list[Path]:
    made: list[Path] = []
    for page in PAGES:
        app.window.panels.plots.show_page(page)
        suffix = "" if page == "training" else f"-{page}"
        made.append(_grab(app, out / f"{state}{suffix}-{name}.png"))
    app.window.panels.plots.show_page("training")
    return made


def _grab_others(app: Application, out: Path, name: str, recorded: Recorded) -> list[Path]:
    """The pages besides the curves, each with what one looks at there, and the fit of the form."""
    made: list[Path] = []
    pages = app.window.pages
    for exchange in recorded.exchanges:
        app.trial.exchanges.add(exchange)
    for key in pages.keys:
        if key == "train":
            continue
        pages.show_page(key)
        settle()
        if key == "data":
            app.data.select(app.data.table.row_at(0))
        if key == "runs":
            app.runs.select([run.folder for run in app.runs.records or ()][:MOST_COMPARED])
            settle()
        made.append(_grab(app, out / f"{key}-{name}.png"))
    made.append(_grab_rows(app, out / f"runs-rows-{name}.png", recorded))
    pages.show_page("train")
    for run in (app.runs.records or [])[:1]:
        app.session.notices.show(interrupted_notice(run, with_the_app=True))
        made.append(_grab(app, out / f"interrupted-{name}.png"))
    app.fit_dialog.show()
    settle()
    made.append(_save(app.fit_dialog, out / f"fit-{name}.png"))
    app.fit_dialog.close()
    return made


def _grab_rows(app: Application, path: Path, recorded: Recorded) -> Path:
    """The validation rows of the run, the worst first."""
    app.window.pages.show_page("runs")
    page = app.window.panels.others["runs"]
    if not isinstance(page, RunsPage):
        raise TypeError(f"the page of runs is a {type(page).__name__}")
    good = next((e.run for e in recorded.events if isinstance(e, Finished)), None)
    app.runs.select([run.folder for run in app.runs.records or () if str(run.folder) == good])
    page.details.tabs.setCurrentWidget(page.details.judged)
    settle()
    wait_until(lambda: not app.judged.reading)
    return _grab(app, path)


def _grab_bare(app: Application, out: Path, name: str, failed: Failed | None) -> list[Path]:
    """What stands there when nothing was done yet, or when something went wrong."""
    made: list[Path] = []
    app.tour.begin()
    for step in STEPS:
        made.append(_grab(app, out / f"tour-{step.place}-{name}.png"))
        app.tour.next()
    for key in ("try", "runs"):
        app.window.pages.show_page(key)
        made.append(_grab(app, out / f"{key}-empty-{name}.png"))
    app.data.open(Path("no-such-file.jsonl"))
    app.window.pages.show_page("data")
    made.append(_grab(app, out / f"data-error-{name}.png"))
    app.models.download.start(NO_MODEL)
    app.window.pages.show_page("model")
    made.append(_grab(app, out / f"model-error-{name}.png"))
    if failed is not None:
        app.window.pages.show_page("train")
        app.session.run.begin()
        app.session.progress.begin("Starting")
        app.session.replay([failed])
        made.append(_grab(app, out / f"error-{name}.png"))
    return made


def _grab(app: Application, path: Path) -> Path:
    settle()
    return _save(app.window, path)


def _save(widget: QWidget, path: Path) -> Path:
    if not widget.grab().save(str(path)):
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
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        if options.run is not None:
            run = RunFolder(options.run)
            recorded = Recorded(run.path.parent, read_events(run.events))
        else:
            recorded = record(qt, home, options.steps)
        for path in take_all(qt, options.folder, home, recorded):
            sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
