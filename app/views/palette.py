"""The colours of the app: warm neutrals, copper for what matters, teal for validation."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from PySide6.QtCore import Qt

SPACE = 8
"""Unit of spacing in pixels; margins and gaps are 0.5, 1, 1.5 or 2 of it."""


@dataclass(frozen=True, slots=True)
class Palette:
    """One set of colours as `#rrggbb`.

    Text colours keep 4.5:1 against the surfaces they stand on, `faint` 3:1.
    """

    name: str
    window: str
    panel: str
    raised: str
    hover: str
    border: str
    border_strong: str
    text: str
    muted: str
    faint: str
    accent: str
    accent_hover: str
    on_accent: str
    selection: str
    danger: str
    danger_surface: str
    warning: str
    warning_surface: str
    success: str
    success_surface: str
    curve_train: str
    curve_valid: str
    curve_chosen: str
    curve_rejected: str
    grid: str

    def colours(self) -> dict[str, str]:
        """Field name -> colour, for the style sheet."""
        return {k: v for k, v in asdict(self).items() if k != "name"}


# After Okabe and Ito's palette, which people with any kind of colour vision can tell apart; darker
# on light and lighter on dark ground.
_RUNS = {
    "light": (
        *("#0072b2", "#c14e00", "#00805f", "#a8447f"),
        *("#8a6d00", "#3a7fa8", "#5b3fa0", "#444444"),
    ),
    "dark": (
        *("#56b4e9", "#f08a4b", "#2fc79a", "#e59ac4"),
        *("#f0d060", "#9ad0f5", "#b9a3f0", "#dddddd"),
    ),
}
_DASHES = (
    Qt.PenStyle.SolidLine,
    Qt.PenStyle.DashLine,
    Qt.PenStyle.DotLine,
    Qt.PenStyle.DashDotLine,
)


def run_colour(palette: Palette, place: int) -> str:
    """The colour of the run at this place among those that are compared."""
    colours = _RUNS[palette.name]
    return colours[place % len(colours)]


def dash_of(place: int) -> Qt.PenStyle:
    """Its dash, which tells runs apart without colour."""
    return _DASHES[place % len(_DASHES)]


def mixed(colour: str, ground: str, share: float) -> str:
    """`colour` laid over `ground` with this opacity, as an opaque colour."""

    def channel(at: int) -> int:
        over, under = (int(text[at : at + 2], 16) for text in (colour, ground))
        return round(over * share + under * (1 - share))

    return "#" + "".join(f"{channel(at):02x}" for at in (1, 3, 5))


LIGHT = Palette(
    name="light",
    window="#f3f1ee",
    panel="#faf9f7",
    raised="#ffffff",
    hover="#ebe7e1",
    border="#dfdad3",
    border_strong="#c8c1b7",
    text="#24211d",
    muted="#655f57",
    faint="#837b71",
    accent="#a8501a",
    accent_hover="#8e4213",
    on_accent="#ffffff",
    selection="#f2d9c6",
    danger="#b3261e",
    danger_surface="#fbe9e6",
    warning="#7d5200",
    warning_surface="#fdf2d4",
    success="#2a673a",
    success_surface="#e4f1e6",
    curve_train="#b8561b",
    curve_valid="#0f6e7c",
    curve_chosen="#2e7d4f",
    curve_rejected="#b23a5b",
    grid="#ece8e2",
)

DARK = Palette(
    name="dark",
    window="#1a1917",
    panel="#21201e",
    raised="#2a2826",
    hover="#343130",
    border="#393633",
    border_strong="#524d48",
    text="#ece8e2",
    muted="#aaa399",
    faint="#8f877d",
    accent="#e58b4c",
    accent_hover="#f09c61",
    on_accent="#1f1611",
    selection="#5a3a22",
    danger="#ff8f85",
    danger_surface="#3a2220",
    warning="#f0c25a",
    warning_surface="#362e1c",
    success="#82ca93",
    success_surface="#203225",
    curve_train="#ee9556",
    curve_valid="#5cc3cf",
    curve_chosen="#82ca93",
    curve_rejected="#f08aa6",
    grid="#3d3a37",
)
