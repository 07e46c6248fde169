import re
from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.paths import resources_folder
from app.views.icons import icon
from app.views.palette import DARK, LIGHT, Palette, mixed
from app.views.theme import Theme, style_sheet

pytestmark = pytest.mark.gui


@pytest.fixture
def theme(qapp: QApplication) -> Iterator[Theme]:
    yield Theme(qapp)
    qapp.setStyleSheet("")
    qapp.styleHints().setColorScheme(Qt.ColorScheme.Unknown)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=lambda p: p.name)
def test_text_can_be_read_on_every_surface(palette: Palette) -> None:
    for surface in (palette.window, palette.panel, palette.raised):
        for text in (palette.text, palette.muted, palette.danger, palette.warning, palette.success):
            assert contrast(text, surface) >= 4.5
        for curve in (palette.curve_train, palette.curve_valid, palette.faint):
            assert contrast(curve, surface) >= 3
    assert contrast(palette.on_accent, palette.accent) >= 4.5
    for level in ("danger", "warning", "success"):
        surface = getattr(palette, f"{level}_surface")
        assert contrast(palette.text, surface) >= 4.5
        assert contrast(getattr(palette, level), surface) >= 3


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=lambda p: p.name)
def test_the_style_sheet_is_filled_and_its_pictures_exist(palette: Palette) -> None:
    sheet = style_sheet(palette)
    assert "$" not in sheet
    pictures = re.findall(r'url\("([^"]+)"\)', sheet)
    assert pictures
    missing = [name for name in pictures if not (resources_folder() / "icons" / name).exists()]
    assert not missing


def test_a_choice_overrides_the_system_and_tells_the_painters(qtbot: QtBot, theme: Theme) -> None:
    theme.set_mode("light")
    with qtbot.waitSignal(theme.changed, timeout=1000):
        theme.set_mode("dark")
    assert theme.palette is DARK
    assert QApplication.palette().window().color().name() == DARK.window
    theme.set_mode("light")
    assert theme.palette is LIGHT


def test_icons_take_the_colours_of_the_palette(theme: Theme) -> None:
    image = icon("stop", "#ff0000", "#00ff00").pixmap(40, 40).toImage()
    assert image.pixelColor(image.width() // 2, image.height() // 2).name() == "#ff0000"


def test_mixed_colours_lie_between() -> None:
    assert mixed("#ff0000", "#0000ff", 0.0) == "#0000ff"
    assert mixed("#ff0000", "#0000ff", 1.0) == "#ff0000"
    assert mixed("#ffffff", "#000000", 0.5) == "#808080"
