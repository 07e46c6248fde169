"""What the plots run along, a logarithmic axis, and the ways out: picture, numbers, clipboard."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QMenu, QToolButton, QWidget

from app.viewmodels.curves_vm import CurvesViewModel
from app.viewmodels.places import AXES, Axis


class PlotControls(QWidget):
    """Small controls at the right end of the plots' bar.

    Signals:
        save_asked(str): `picture`, `numbers` or `copy`.
    """

    save_asked = Signal(str)

    def __init__(self, vm: CurvesViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self.axis = QComboBox()
        for key, label in AXES:
            self.axis.addItem(label, key)
        self.axis.setAccessibleName("What the plots run along")
        self.axis.setToolTip("What the plots run along (X)")
        self.log = QToolButton()
        self.log.setText("Log")
        self.log.setCheckable(True)
        self.log.setProperty("role", "toggle")
        self.log.setToolTip("Logarithmic axis for losses, gradient norm and learning rate (L)")
        self.log.setAccessibleName("Logarithmic axis")
        self.save = QToolButton()
        self.save.setText("Save")
        self.save.setProperty("role", "toggle")
        self.save.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.menu = QMenu(self)
        dots = "\N{HORIZONTAL ELLIPSIS}"
        for key, text in (
            ("copy", "Copy picture"),
            ("picture", f"Save picture as PNG or SVG{dots}"),
            ("numbers", f"Save numbers as CSV{dots}"),
        ):
            self.menu.addAction(text, lambda key=key: self.save_asked.emit(key))
        self.save.setMenu(self.menu)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        for widget in (self.axis, self.log, self.save):
            widget.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            row.addWidget(widget)
        self.axis.activated.connect(lambda place: vm.set_axis(AXES[place][0]))
        self.log.toggled.connect(vm.set_log)
        vm.axis_changed.connect(self.refresh)

    def refresh(self) -> None:
        """Show the view-model as it is now."""
        self.axis.setCurrentIndex([key for key, _ in AXES].index(self._vm.axis))
        self.log.setChecked(self._vm.log)

    def next_axis(self) -> None:
        """Run along the next thing."""
        keys: list[Axis] = [key for key, _ in AXES]
        self._vm.set_axis(keys[(keys.index(self._vm.axis) + 1) % len(keys)])
