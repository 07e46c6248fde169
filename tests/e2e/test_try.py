"""The playground, driven as a user does, on a small llama: during a run and after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.application import Application
from app.paths import AppPaths
from app.views.try_page import TryPage
from trainer_core.generate import generate
from trainer_core.runfolder import RunFolder

pytestmark = pytest.mark.gui

RUN_MS = 120_000


@pytest.fixture
def app(qapp: QApplication, tmp_path: Path, golden: Path, dirs: Path) -> Iterator[Application]:
    app = Application(qapp, AppPaths(tmp_path / "config", tmp_path / "log"))
    app.open()
    values = {
        "model": str(golden / "llama"),
        "data": str(golden / "llama" / "preference.jsonl"),
        "method": "orpo",
        "prompt_format": "raw",
        "valid_fraction": "0.25",
        "iters": "4",
        "steps_per_eval": "2",
        "rank": "4",
        "learning_rate": "0.05",
        "output": str(tmp_path / "runs"),
    }
    for key, value in values.items():
        app.form.set_value(key, value)
    yield app
    app.session.stop_now()
    app.session.hush()
    app.window.may_close = lambda: True
    app.window.close()
    app.shut_down()
    qapp.setStyleSheet("")
    qapp.styleHints().setColorScheme(Qt.ColorScheme.Unknown)


def page_of(app: Application) -> TryPage:
    page = app.window.panels.others["try"]
    assert isinstance(page, TryPage)
    return page


def open_page(qtbot: QtBot, app: Application) -> TryPage:
    app.window.pages.show_page("try")
    page = page_of(app)
    qtbot.waitUntil(page.isVisible)
    page.whom.longest.setValue(8)
    return page


def ask(qtbot: QtBot, page: TryPage, prompt: str) -> None:
    qtbot.keyClicks(page.bar.prompt, prompt)
    qtbot.keyClick(page.bar.prompt, Qt.Key.Key_Return)


def answers(qtbot: QtBot, app: Application) -> tuple[str, str]:
    qtbot.waitUntil(lambda: app.session.exchanges.waiting is None, timeout=RUN_MS)
    card = page_of(app).cards[-1]
    assert not card.exchange.failed, card.exchange.note
    return tuple(column.text.text() for _, column in card.sides)  # type: ignore[return-value]


def said(model: Path, adapter: Path | None, prompt: str, **how: float) -> str:
    found = generate(str(model), [prompt], adapter=adapter, max_tokens=8, raw=True, **how)  # type: ignore[arg-type]
    return next(iter(found)).text


def train(qtbot: QtBot, app: Application) -> Path:
    app.window.actions_table.start.trigger()
    qtbot.waitUntil(lambda: not app.session.busy, timeout=RUN_MS)
    folder = app.session.run.finished_run
    assert folder is not None, app.session.log.text()
    return folder


def test_base_and_adapter_answer_after_a_run(qtbot: QtBot, app: Application, golden: Path) -> None:
    run = RunFolder(train(qtbot, app))
    page = open_page(qtbot, app)
    qtbot.waitUntil(lambda: page.whom.adapter.isVisible())
    ask(qtbot, page, "the cat")
    model = golden / "llama"
    wanted = (said(model, None, "the cat"), said(model, run.best, "the cat"))
    assert answers(qtbot, app) == wanted
    assert page.bar.prompt.toPlainText() == ""

    # Another adapter of the run, another seed.
    page.whom.adapter.setCurrentIndex(page.whom.adapter.findData("final"))
    page.whom.adapter.activated.emit(page.whom.adapter.currentIndex())
    page.whom.temperature.setValue(1.5)
    page.whom.seed.setValue(3)
    qtbot.mouseClick(page.cards[-1].again, Qt.MouseButton.LeftButton)
    how = {"temperature": 1.5, "seed": 3}
    wanted = (said(model, None, "the cat", **how), said(model, run.adapter, "the cat", **how))
    assert answers(qtbot, app) == wanted
    assert "final" in page.cards[-1].exchange.how


def test_a_run_answers_while_it_goes_on(qtbot: QtBot, app: Application, golden: Path) -> None:
    app.form.set_value("iters", "4000")
    page = open_page(qtbot, app)
    app.window.actions_table.start.trigger()
    qtbot.waitUntil(lambda: app.session.progress.step >= 1, timeout=RUN_MS)
    app.window.pages.show_page("try")
    assert page.whom.source.currentText() == "The run, as it stands"
    ask(qtbot, page, "the cat")
    base, _ = answers(qtbot, app)
    assert base == said(golden / "llama", None, "the cat")
    assert app.session.busy
    # Another adapter would need the memory that the run has.
    page.whom.source.setCurrentIndex(page.whom.source.count() - 1)
    page.whom.source.activated.emit(page.whom.source.currentIndex())
    qtbot.keyClicks(page.bar.prompt, "the dog")
    assert not page.bar.ask.isEnabled()
    assert "the memory is its own" in page.bar.why.text()
    app.session.stop()
    qtbot.waitUntil(lambda: not app.session.busy, timeout=RUN_MS)
    assert page.bar.ask.isEnabled()


def test_the_form_model_answers_before_any_run(
    qtbot: QtBot, app: Application, golden: Path
) -> None:
    page = open_page(qtbot, app)
    ask(qtbot, page, "the cat")
    qtbot.waitUntil(lambda: app.session.exchanges.waiting is None, timeout=RUN_MS)
    card = page.cards[-1]
    assert [column.text.text() for _, column in card.sides] == [
        said(golden / "llama", None, "the cat")
    ]


def test_start_takes_the_engine_from_an_answer(qtbot: QtBot, app: Application) -> None:
    page = open_page(qtbot, app)
    page.whom.longest.setValue(4096)
    page.whom.temperature.setValue(2.0)
    ask(qtbot, page, "the cat")
    qtbot.waitUntil(
        lambda: (w := app.session.exchanges.waiting) is None or w.tuned.begun, timeout=RUN_MS
    )
    train(qtbot, app)
    assert app.session.exchanges.waiting is None


def test_prompts_of_every_validation_are_shown_under_the_curves(
    qtbot: QtBot, app: Application
) -> None:
    page = open_page(qtbot, app)
    qtbot.keyClicks(page.bar.prompt, "the cat, the dog")
    qtbot.mouseClick(page.bar.always, Qt.MouseButton.LeftButton)
    assert app.form.values["sample_prompts"] == ["the cat, the dog"]
    assert page.bar.always.isChecked()
    train(qtbot, app)
    strip = app.window.panels.plots.samples
    assert strip.isVisible()
    assert app.session.samples.steps == [0, 2, 4], app.session.log.text()
    assert strip.where.text() == "after step 4"
    qtbot.mouseClick(strip.before, Qt.MouseButton.LeftButton)
    assert app.session.curves.hover_step == 2
    app.window.pages.show_page("try")
    qtbot.mouseClick(page.bar.always, Qt.MouseButton.LeftButton)
    assert app.form.values["sample_prompts"] is None


def test_what_cannot_be_asked_is_said_in_the_card(
    qtbot: QtBot, app: Application, tmp_path: Path
) -> None:
    page = open_page(qtbot, app)
    (tmp_path / "empty").mkdir()
    page._vm.add_folder(tmp_path / "empty")
    ask(qtbot, page, "the cat")
    qtbot.waitUntil(lambda: app.session.exchanges.waiting is None, timeout=RUN_MS)
    card = page.cards[-1]
    assert card.exchange.failed
    assert "there is no adapter in" in card.note.text().lower()
