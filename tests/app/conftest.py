"""The form that its tests look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.viewmodels.config_vm import ConfigViewModel
from app.views.config_panel import ConfigPanel
from tests.app.config_examples import ready_form


@pytest.fixture
def vm() -> ConfigViewModel:
    return ready_form()


@pytest.fixture
def panel(qtbot, vm: ConfigViewModel) -> Iterator[ConfigPanel]:
    panel = ConfigPanel(vm)
    qtbot.addWidget(panel)
    panel.resize(380, 900)
    with qtbot.waitActive(panel):
        panel.show()
        panel.activateWindow()
    return panel
