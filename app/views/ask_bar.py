"""Whom to ask, how, and the prompt."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QSignalBlocker, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)
from typing_extensions import override

from app.viewmodels.try_vm import TryViewModel
from app.views.field_widgets import CalmComboBox
from app.views.theme import set_role

PROMPT_LINES = 3


class WhomBar(QWidget):
    """The run and its adapter, and the settings of the answers."""

    def __init__(self, vm: TryViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self.source = _combo("Whom to ask", 190)
        self.adapter = _combo("Adapter", 96)
        self.other = QPushButton("Other adapter\N{HORIZONTAL ELLIPSIS}")
        self.other.setToolTip("Ask with an adapter in a folder, on the form's model")
        self.other.setAutoDefault(False)
        self.temperature = QDoubleSpinBox()
        self.temperature.setRange(0, 2)
        self.temperature.setSingleStep(0.1)
        self.temperature.setDecimals(1)
        self.temperature.setToolTip("0 always takes the likeliest token")
        self.longest = QSpinBox()
        self.longest.setRange(1, 4096)
        self.longest.setSingleStep(64)
        self.longest.setToolTip("Tokens of the longest answer")
        self.seed = QSpinBox()
        self.seed.setRange(0, 2**31 - 1)
        self.seed.setToolTip("Both sides draw from the same seed")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.source, 1)
        row.addWidget(self.adapter)
        row.addWidget(self.other)
        row.addSpacing(6)
        for name, box, value in (
            ("Temperature", self.temperature, vm.temperature),
            ("Longest", self.longest, vm.max_tokens),
            ("Seed", self.seed, vm.seed),
        ):
            label = QLabel(name)
            set_role(label, "field")
            label.setBuddy(box)
            box.setAccessibleName(name)
            box.setFixedWidth(64)
            box.setValue(value)  # type: ignore[arg-type]
            row.addWidget(label)
            row.addWidget(box)
        self.source.activated.connect(lambda i: vm.choose(self.source.itemData(i)))
        self.adapter.activated.connect(lambda i: vm.choose_adapter(self.adapter.itemData(i)))
        self.other.clicked.connect(self._on_other_clicked)
        self.temperature.valueChanged.connect(self._on_settings_changed)
        self.longest.valueChanged.connect(self._on_settings_changed)
        self.seed.valueChanged.connect(self._on_settings_changed)
        self.refresh()

    def refresh(self) -> None:
        """Show whom one can ask now."""
        vm = self._vm
        source, adapter = vm.source, vm.adapter
        _fill(self.source, [(s.title, s.key) for s in vm.sources], source.key if source else None)
        adapters = source.adapters if source else ()
        _fill(self.adapter, [(n.capitalize(), n) for n, _ in adapters], adapter and adapter[0])
        self.adapter.setVisible(len(adapters) > 1)

    def _on_settings_changed(self) -> None:
        self._vm.temperature = round(self.temperature.value(), 1)
        self._vm.max_tokens = self.longest.value()
        self._vm.seed = self.seed.value()

    def _on_other_clicked(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "A folder with an adapter")
        if folder:
            self._vm.add_folder(Path(folder))


class PromptBar(QWidget):
    """The prompt; Return asks, Shift and Return begins a new line."""

    def __init__(self, vm: TryViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self._last = ""
        self.prompt = QPlainTextEdit()
        self.prompt.setPlaceholderText("Ask something. Shift and Return begin a new line.")
        self.prompt.setAccessibleName("Prompt")
        self.prompt.setTabChangesFocus(True)
        lines = PROMPT_LINES * self.prompt.fontMetrics().lineSpacing()
        self.prompt.setFixedHeight(lines + 20)
        self.prompt.installEventFilter(self)
        self.ask = QPushButton("Ask")
        set_role(self.ask, "primary")
        self.always = QPushButton("At every validation")
        self.always.setCheckable(True)
        self.always.setToolTip("Let the next run answer this prompt at every validation")
        self.fixed = QLabel()
        set_role(self.fixed, "small")
        self.why = QLabel()
        self.why.setWordWrap(True)
        set_role(self.why, "small")
        for button in (self.ask, self.always):
            button.setAutoDefault(False)
        buttons = QVBoxLayout()
        buttons.addWidget(self.ask)
        buttons.addWidget(self.always)
        buttons.addStretch(1)
        row = QHBoxLayout()
        row.addWidget(self.prompt, 1)
        row.addLayout(buttons)
        below = QHBoxLayout()
        below.addWidget(self.why, 1)
        below.addWidget(self.fixed)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(row)
        column.addLayout(below)
        self.prompt.textChanged.connect(self.refresh)
        self.ask.clicked.connect(self._on_ask_clicked)
        self.always.clicked.connect(self._on_always_clicked)
        self.refresh()

    def refresh(self) -> None:
        """Show whether one can ask now."""
        vm = self._vm
        answering = vm.exchanges.waiting is not None
        text = self.prompt.toPlainText().strip()
        self.ask.setText("Stop" if answering else "Ask")
        set_role(self.ask, "" if answering else "primary")
        self.ask.setEnabled(answering or (bool(text) and not vm.obstacle))
        self.why.setText("" if answering else vm.obstacle)
        self.always.setEnabled(bool(text))
        self.always.setChecked(" ".join(text.split()) in vm.fixed)
        n = len(vm.fixed)
        words = "1 prompt is" if n == 1 else f"{n} prompts are"
        self.fixed.setText(f"{words} answered at every validation of the next run" if n else "")

    def put(self, prompt: str) -> None:
        """Ask this."""
        if self._vm.ask(prompt):
            self._last = prompt

    @override
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is not self.prompt or not isinstance(event, QKeyEvent):
            return super().eventFilter(watched, event)
        if event.type() == QEvent.Type.KeyPress and self._takes(event):
            return True
        return super().eventFilter(watched, event)

    def _takes(self, event: QKeyEvent) -> bool:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                return False
            if self.ask.isEnabled() and self._vm.exchanges.waiting is None:
                self._on_ask_clicked()
            return True
        if event.key() == Qt.Key.Key_Up and not self.prompt.toPlainText() and self._last:
            self.prompt.setPlainText(self._last)
            return True
        return False

    def _on_ask_clicked(self) -> None:
        if self._vm.exchanges.waiting is not None:
            self._vm.stop()
            return
        prompt = self.prompt.toPlainText().strip()
        if self._vm.ask(prompt):
            self._last = prompt
            self.prompt.clear()

    def _on_always_clicked(self) -> None:
        self._vm.ask_always(self.prompt.toPlainText())
        self.refresh()


def _combo(name: str, width: int) -> CalmComboBox:
    box = CalmComboBox()
    box.setAccessibleName(name)
    box.setMinimumWidth(width)
    box.setSizeAdjustPolicy(box.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    return box


def _fill(box: CalmComboBox, entries: list[tuple[str, str]], chosen: str | None) -> None:
    with QSignalBlocker(box):
        if [(box.itemText(i), box.itemData(i)) for i in range(box.count())] != entries:
            box.clear()
            for text, key in entries:
                box.addItem(text, key)
        box.setCurrentIndex(box.findData(chosen))
