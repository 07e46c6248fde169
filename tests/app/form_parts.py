"""The fields of a form as the tests find them."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication, QWidget

from app.views.config_panel import ConfigPanel
from app.views.field_widgets import (
    FieldControl,
)
from app.views.form_field import FormField, LengthField, StrengthRow


def field_of(panel: ConfigPanel, key: str) -> QWidget:
    field = next(field for section in panel.sections if (field := section.reveal(key)))
    QApplication.processEvents()  # what was folded gets its place
    return field


def frame_of(panel: ConfigPanel, key: str) -> FormField:
    field = field_of(panel, key)
    if isinstance(field, StrengthRow):
        return next(inner for inner in field.fields if inner.key == key)
    assert isinstance(field, FormField | LengthField)
    return field  # type: ignore[return-value]


def control_of(panel: ConfigPanel, key: str) -> FieldControl:
    return frame_of(panel, key).control
