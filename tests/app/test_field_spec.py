from __future__ import annotations

import pytest
from pydantic import BaseModel

from app.viewmodels.field_spec import Kind, field_spec, field_specs
from app.viewmodels.path_fields import PATH_FIELDS
from trainer_core.config import RunConfig, options
from trainer_core.option import GROUPS, option


def test_an_option_is_shown_unless_this_version_leaves_no_choice() -> None:
    shown = set(field_specs())
    for key, meta in options().items():
        ways = None if meta.only is None else [value for value in meta.only if value != "auto"]
        if not meta.form:
            assert key == "resume"
            assert key not in shown
        elif ways is None or len(ways) > 1:
            assert key in shown
        elif len(meta.only or ()) == 1:
            assert key not in shown
    assert {"method", "orpo_lambda", "sft_scope", "segment_size", "head"} <= shown


def test_values_that_are_not_accepted_are_not_offered() -> None:
    specs = field_specs()
    settled = {key for key, meta in options().items() if meta.only and len(meta.only) == 1}
    assert "isolation" in settled
    assert not settled & set(specs)
    for key, spec in specs.items():
        only = options()[key].only
        assert only is None or spec.choices == only


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
