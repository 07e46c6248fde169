"""The form: values as the user left them, what is wrong with them, and the run they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from PySide6.QtCore import QObject, Signal

from app.viewmodels import field_help
from app.viewmodels.alpha_link import alpha_of, scale_for
from app.viewmodels.applicability import usable_choices, why_idle
from app.viewmodels.config_problems import find_problems
from app.viewmodels.edit_history import EditHistory
from app.viewmodels.field_spec import FieldSpec, Kind, field_specs
from app.viewmodels.field_text import as_value, read_text
from app.viewmodels.hub_models import cached_models
from app.viewmodels.number_text import neighbour, read_float
from app.viewmodels.presets import Preset
from app.viewmodels.section_summary import section_summary
from trainer_core.config import RunConfig

LengthBy = Literal["iters", "epochs"]

SPECS: dict[str, FieldSpec] = field_specs()


@dataclass(frozen=True)
class _Form:
    """One state of the form; what follows from it is worked out once.

    `values` keeps what does not apply at the moment, so that it is there when it applies again.
    """

    values: dict[str, Any]
    length_by: LengthBy = "iters"
    alpha_text: str | None = None

    @property
    def other_length(self) -> LengthBy:
        """The unit that the length is not given in."""
        return "epochs" if self.length_by == "iters" else "iters"

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Option -> why it has no effect."""
        found = {key: why for key in SPECS if (why := why_idle(key, self.values))}
        unit = SPECS[self.length_by].label.lower()
        return found | {self.other_length: f"The length of the run is given in {unit}"}

    @cached_property
    def submitted(self) -> dict[str, Any]:
        """The values that make the run, without defaults, which would count as explicit."""
        return {
            key: value
            for key, value in self.values.items()
            if key not in self.reasons and value != _default(key)
        }

    def having(self, key: str, value: Any) -> _Form:
        """The form with another value of one option."""
        if key in SPECS:
            value = as_value(SPECS[key], value)
        length_by = self.length_by
        if key in ("iters", "epochs") and value is not None:
            length_by = key
        alpha_text = None if key in ("rank", "scale") else self.alpha_text
        return _Form({**self.values, key: value}, length_by, alpha_text)

    @cached_property
    def problems(self) -> dict[str, str]:
        """Option -> what is wrong."""
        found = find_problems(SPECS, self.submitted)
        if self.alpha_text is not None and "scale" not in self.reasons:
            found["scale"] = "cannot follow: alpha must be a number above 0"
        if self.length_by == "epochs" and self.values["epochs"] is None:
            found["epochs"] = "needs a value"
        return found


class ConfigViewModel(QObject):
    """The form's state. Knows no widget; text may be given for any value.

    Signals:
        changed: anything at all: a value, a problem, the lock.
        value_changed(key): the value of one option.
    """

    changed = Signal()
    value_changed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._form = _Form({key: _default(key) for key in RunConfig.model_fields})
        self._history: EditHistory[_Form] = EditHistory()
        self.ready_words = "Ready"
        self._recent: dict[str, list[str]] = {}

    @property
    def values(self) -> dict[str, Any]:
        """Option -> value as it stands in the form; text that could not be read stands as typed.

        Of steps and epochs, the one that is not used is None.
        """
        return {**self._form.values, self._form.other_length: None}

    @property
    def problems(self) -> dict[str, str]:
        """Option -> what is wrong, of the options that have an effect."""
        return dict(self._form.problems)

    @property
    def first_problem(self) -> str | None:
        """The option to look at first, or None if a run can start."""
        return next((key for key in SPECS if key in self._form.problems), None)

    @property
    def status(self) -> str:
        """`Ready`, or the first problem as a clause; while a run is on, what edits are for."""
        key = self.first_problem
        return f"{SPECS[key].label}: {self._form.problems[key]}" if key else self.ready_words

    def config(self) -> RunConfig | None:
        """The run that the form describes, or None while something is wrong."""
        return None if self._form.problems else RunConfig(**self._form.submitted)

    def set_value(self, key: str, value: Any) -> None:
        """Take a value, or text for it. Text that cannot be read is kept and becomes a problem.

        A number of steps or epochs makes that the unit of the run's length.
        """
        self._edit(self._form.having(key, value), tag=key)

    def step(self, key: str, steps: int) -> None:
        """Move a number a little, as arrow keys do; an empty field starts from its placeholder."""
        spec, value = SPECS[key], self._form.values[key]
        if value is None:
            value = read_text(spec, self.placeholder(key) or "1")
        if isinstance(value, int | float):
            self.set_value(
                key, spec.clamp(neighbour(value, steps, whole=spec.kind is not Kind.REAL))
            )

    def reset(self, key: str) -> None:
        """Give an option its default back."""
        self.set_value(key, _default(key))

    def load(self, config: RunConfig) -> None:
        """Show a configuration. Can be undone like any edit."""
        values = {key: getattr(config, key) for key in RunConfig.model_fields}
        values["resume"] = None  # a form begins runs; those that go on keep their own settings
        length_by: LengthBy = "epochs" if config.epochs is not None else "iters"
        self._edit(_Form(values, length_by), tag="")

    def apply(self, preset: Preset) -> None:
        """Take the settings of a preset. Can be undone like any edit."""
        length_by: LengthBy = "epochs" if "epochs" in preset.values else "iters"
        self._edit(_Form(preset.over(self._form.values), length_by), tag="")

    def take(self, change: Mapping[str, Any]) -> None:
        """Take several values at once. Can be undone as one edit."""
        form = self._form
        for key, value in change.items():
            form = form.having(key, value)
        self._edit(form, tag="")

    def restore(self, values: Mapping[str, Any]) -> None:
        """Show the form as it was left at another time: what `values` gave, also after JSON."""
        form = self._form
        for key, value in values.items():
            if key in RunConfig.model_fields:
                form = form.having(key, value)
        self._history = EditHistory()
        self._show(form)

    def differs(self, key: str) -> bool:
        """Whether an option can be reset to something else."""
        return not SPECS[key].required and self._form.values[key] != _default(key)

    def why_idle(self, key: str) -> str | None:
        """Why an option has no effect now, or None if it has."""
        return self._form.reasons.get(key)

    def choices(self, key: str) -> tuple[Any, ...]:
        """The values of an enumeration that can be chosen now."""
        return usable_choices(key, SPECS[key].choices, self._form.values)

    def placeholder(self, key: str) -> str:
        """What an empty field stands for."""
        return field_help.placeholder(SPECS[key], self._form.values)

    @property
    def method_note(self) -> str:
        """What the chosen method does, in a line."""
        return field_help.method_note(self._form.values)

    def matches(self, key: str, query: str) -> bool:
        """Whether an option is what somebody who types `query` looks for."""
        option = SPECS[key].option
        text = f"{key} {option.label} {option.group} {option.help}"
        text += " alpha" if key in ("rank", "scale") else ""
        return all(word in text.lower() for word in query.lower().split())

    def unit(self, key: str) -> str:
        """What stands after the value."""
        return field_help.unit(SPECS[key], self._form.values[key])

    def tool_tip(self, key: str) -> str:
        """Help on an option, and why it has no effect if it has none."""
        return field_help.tool_tip(SPECS[key], self.why_idle(key))

    def spoken_help(self, key: str) -> str:
        """The same as plain text, for a screen reader."""
        return field_help.spoken(SPECS[key], self.why_idle(key))

    def summary(self, group: str) -> str:
        """What the folded section of a group says."""
        applied = {key: _default(key) for key in RunConfig.model_fields} | self._form.submitted
        return section_summary(group, applied)

    @property
    def alpha(self) -> float | str | None:
        """Scale x rank; the text as typed while it cannot be read; None without a rank or scale."""
        if self._form.alpha_text is not None:
            return self._form.alpha_text
        return alpha_of(self._form.values["rank"], self._form.values["scale"])

    def set_alpha(self, value: float | str) -> None:
        """Set the scale so that scale x rank is `value`."""
        try:
            alpha = read_float(value) if isinstance(value, str) else value
        except ValueError:
            alpha = 0.0
        scale = scale_for(alpha, self._form.values["rank"]) if alpha > 0 else None
        if scale is None:
            self._edit(replace(self._form, alpha_text=str(value).strip()), tag="scale")
        else:
            self.set_value("scale", scale)

    def step_alpha(self, steps: int) -> None:
        """Move alpha a little, as arrow keys do."""
        if isinstance(alpha := self.alpha, float):
            self.set_alpha(max(1.0, neighbour(alpha, steps, whole=alpha.is_integer())))

    @property
    def length_by(self) -> LengthBy:
        """Whether the run's length is given in steps (`iters`) or epochs."""
        return self._form.length_by

    def set_length_by(self, key: LengthBy) -> None:
        """Give the length in the other unit; both values are kept."""
        values = self._form.values
        if key == "epochs" and values["epochs"] is None:
            values = {**values, "epochs": 1.0}
        self._edit(replace(self._form, length_by=key, values=values), tag="")

    def set_running(self, running: bool) -> None:
        """Say that a run is on: it has its own settings, and the form is the next run."""
        words = "Ready; edits are for the next run" if running else "Ready"
        if words != self.ready_words:
            self.ready_words = words
            self.changed.emit()

    @property
    def can_undo(self) -> bool:
        """Whether there is an edit to take back."""
        return self._history.can_undo

    @property
    def can_redo(self) -> bool:
        """Whether an edit was taken back."""
        return self._history.can_redo

    def undo(self) -> None:
        """Take the last edit back."""
        if self.can_undo and (form := self._history.undo(self._form)):
            self._show(form)

    def redo(self) -> None:
        """Do again what was taken back."""
        if self.can_redo and (form := self._history.redo(self._form)):
            self._show(form)

    def suggestions(self, key: str) -> list[str]:
        """What to offer for a path option: the ones used lately, then models in the cache."""
        found = [*self._recent.get(key, []), *(cached_models() if key == "model" else [])]
        return list(dict.fromkeys(found))

    def set_recent(self, key: str, paths: list[str]) -> None:
        """What was used lately for a path option, newest first."""
        self._recent[key] = list(paths)

    def recheck(self) -> None:
        """Look again at what is outside the form: files that came or went."""
        self._show(replace(self._form))

    def _edit(self, form: _Form, tag: str) -> None:
        if form == self._form:
            return
        self._history.record(self._form, tag)
        self._show(form)

    def _show(self, form: _Form) -> None:
        before, self._form = self._form, form
        for key, value in form.values.items():
            if before.values[key] != value:
                self.value_changed.emit(key)
        self.changed.emit()


def _default(key: str) -> Any:
    info = RunConfig.model_fields[key]
    return "" if info.is_required() else info.default
