"""Our own line icons, in the colours of the palette and sharp on any screen."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.paths import resources_folder


def pixmap(name: str, colour: str, size: int = 20, ratio: float = 2.0) -> QPixmap:
    """An icon as a square of `size` logical pixels.

    Args:
        name: file in `resources/icons`, without its ending.
        colour: takes the place of `currentColor`.
        size: edge in logical pixels.
        ratio: device pixels per logical pixel.
    """
    source = (resources_folder() / "icons" / f"{name}.svg").read_text(encoding="utf-8")
    renderer = QSvgRenderer(QByteArray(source.replace("currentColor", colour).encode()))
    result = QPixmap(QSize(round(size * ratio), round(size * ratio)))
    result.fill(Qt.GlobalColor.transparent)
    painter = QPainter(result)
    renderer.render(painter, QRectF(0, 0, size * ratio, size * ratio))
    painter.end()
    result.setDevicePixelRatio(ratio)
    return result


def icon(name: str, colour: str, disabled: str) -> QIcon:
    """An icon with its look when disabled."""
    result = QIcon()
    result.addPixmap(pixmap(name, colour), QIcon.Mode.Normal)
    result.addPixmap(pixmap(name, disabled), QIcon.Mode.Disabled)
    return result
