"""Presets: what they change in a form and what they leave."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from PySide6.QtWidgets import QMenu

from app.viewmodels.presets import FOLDER, Preset, presets
from tests.app.config_examples import ready_form
from tests.app.test_commands import Build, build

__all__ = ["build"]


def preset(name: str) -> Preset:
    return next(found for found in presets() if found.name == name)


def test_the_five_that_are_promised() -> None:
    names = [found.name for found in presets()]
    assert names == ["Careful", "Long context", "Low memory", "Preference", "Quick try"]


@pytest.mark.parametrize("chosen", presets(), ids=lambda found: found.name)
@pytest.mark.parametrize("method", ["sft", "dpo", "orpo"])
def test_each_gives_a_form_that_can_start(chosen: Preset, method: str) -> None:
    form = ready_form()
    form.set_value("method", method)
    form.apply(chosen)
    config = form.config()
    assert config is not None, form.status
    assert config.method == chosen.values.get("method", method)
    for key, value in chosen.values.items():
        assert getattr(config, key) == value


def test_the_file_is_what_is_applied() -> None:
    for path in FOLDER.glob("*.yaml"):
        wanted = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert any(dict(found.values) == wanted for found in presets())


def test_model_data_and_output_stay_and_the_rest_is_reset() -> None:
    form = ready_form()
    form.set_value("run_name", "mine")
    form.set_value("rank", 99)
    form.set_value("grad_clip", 0.5)
    form.apply(preset("Low memory"))
    config = form.config()
    assert config is not None
    assert (config.model, config.data, config.run_name) == ("sample", "sample", "mine")
    assert (config.rank, config.grad_clip, config.segment_size) == (8, 1.0, 1)
    form.undo()
    before = form.config()
    assert before is not None
    assert (before.rank, before.grad_clip, before.segment_size) == (99, 0.5, "auto")


def test_epochs_are_shown_where_a_preset_counts_in_them() -> None:
    form = ready_form()
    form.apply(preset("Careful"))
    assert form.length_by == "epochs"
    form.apply(preset("Quick try"))
    assert form.length_by == "iters"


@pytest.mark.gui
def test_the_menu_gives_them_to_the_form(build: Build, tmp_path: Path) -> None:
    app = build()
    menu = next(m for m in app.window.findChildren(QMenu) if m.title() == "&Presets")
    assert [action.text() for action in menu.actions()] == [found.name for found in presets()]
    next(action for action in menu.actions() if action.text() == "Low memory").trigger()
    config = app.form.config()
    assert config is not None
    assert (config.head, config.segment_size) == ("flash", 1)
    assert any("Low memory" in line.text for line in app.session.log.lines)
