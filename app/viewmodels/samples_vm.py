"""What the model says to the prompts of every validation, and how it changes over a run."""

from __future__ import annotations

from bisect import bisect_right

from PySide6.QtCore import QObject, Signal

from app.viewmodels.curves_vm import CurvesViewModel
from trainer_core.events import Event, Sample, Started


class SamplesViewModel(QObject):
    """Answers by prompt and step. The cursor of the curves says which are on show.

    Attributes:
        prompts: of the run on show, in their order.
        chosen: the prompt on show.

    Signals:
        changed: prompts, answers, the chosen prompt, or where the cursor stands.
    """

    changed = Signal()

    def __init__(self, curves: CurvesViewModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._curves = curves
        self.prompts: list[str] = []
        self.chosen = ""
        self._answers: dict[str, dict[int, str]] = {}
        self._dirty = False
        curves.hover_changed.connect(self._on_hover_changed)

    @property
    def steps(self) -> list[int]:
        """The steps after which the chosen prompt was answered."""
        return sorted(self._answers.get(self.chosen, {}))

    @property
    def step(self) -> int | None:
        """The step whose answer is on show: the last one up to the cursor, or the newest."""
        steps = self.steps
        if not steps:
            return None
        hover = self._curves.hover_step
        if hover is None:
            return steps[-1]
        return steps[max(bisect_right(steps, hover + 1e-9) - 1, 0)]

    @property
    def text(self) -> str:
        """The answer on show."""
        step = self.step
        return "" if step is None else self._answers[self.chosen][step]

    def choose(self, prompt: str) -> None:
        """Show the answers to another prompt."""
        if prompt in self.prompts:
            self.chosen = prompt
            self.changed.emit()

    def move(self, ways: int) -> None:
        """Put the cursor of the curves on the answer before or after."""
        steps, step = self.steps, self.step
        if step is not None:
            place = min(max(steps.index(step) + ways, 0), len(steps) - 1)
            self._curves.set_hover(float(steps[place]))

    def clear(self) -> None:
        """Forget the run on show."""
        self.prompts, self.chosen, self._answers = [], "", {}
        self._dirty = True

    def take(self, event: Event) -> None:
        """Note an event; `flush` tells the view."""
        match event:
            case Started():
                self._go_back(event.resumed_from or 0)
                self.prompts = list(event.config.get("sample_prompts") or ())
                self.chosen = self.prompts[0] if self.prompts else ""
                self._dirty = True
            case Sample(base=None) if event.prompt in self.prompts:
                self._answers.setdefault(event.prompt, {})[event.step] = event.text
                self._dirty = True
            case _:
                pass

    def _go_back(self, step: int) -> None:
        """Forget what was answered after a step; 0 forgets the run."""
        if step == 0:
            self.clear()
        for prompt, answers in self._answers.items():
            self._answers[prompt] = {at: text for at, text in answers.items() if at <= step}

    def flush(self) -> None:
        """Tell the view once about everything taken since the last time."""
        if self._dirty:
            self._dirty = False
            self.changed.emit()

    def _on_hover_changed(self) -> None:
        if self.prompts:
            self.changed.emit()
