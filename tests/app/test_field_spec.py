from __future__ import annotations

import pytest
from pydantic import BaseModel

from app.viewmodels.field_spec import Kind, field_spec, field_specs
from app.viewmodels.path_fields import PATH_FIELDS
from trainer_core.config import RunConfig, options
from trainer_core.option import GROUPS, option


def test_every_option_but_resume_is_shown() -> None:
    shown = set(field_specs())
    assert set(options()) - shown == {"resume"}
    assert field_specs()["isolation"].choices == ("thread", "process")


def test_every_shown_option_is_in_a_group_of_the_form() -> None:
    assert {spec.option.group for spec in field_specs().values()} <= set(GROUPS)


def test_every_shown_path_has_its_browse_button_and_check() -> None:
    shown = {key for key, spec in field_specs().items() if spec.option.path}
    assert shown == set(PATH_FIELDS)


def test_a_type_without_a_control_is_a_fault_that_shows() -> None:
    class Strange(BaseModel):
        odd: set[int] = option(set(), "Odd", "No control for this.", group="Model")

    with pytest.raises(TypeError, match="odd"):
        field_spec("odd", Strange.model_fields["odd"])


def test_range_and_clamp_follow_the_limits() -> None:
    specs = field_specs()
    assert specs["rank"].range == "at least 1, at most 1024"
    assert specs["rank"].clamp(0) == 1
    assert specs["rank"].clamp(5000) == 1024
    assert specs["learning_rate"].kind is Kind.REAL
    assert specs["learning_rate"].optional
    assert RunConfig.model_fields["model"].is_required() is specs["model"].required
