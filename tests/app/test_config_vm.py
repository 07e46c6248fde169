from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.viewmodels.config_vm import SPECS, ConfigViewModel
from tests.app.config_examples import make_files, other_value, prepare, ready_form
from trainer_core.config import RunConfig, default_learning_rate
from trainer_core.config_io import dump_yaml, load_config


def config_of(vm: ConfigViewModel) -> RunConfig:
    config = vm.config()
    assert config is not None, vm.problems
    return config


def test_an_empty_form_cannot_start_and_says_what_is_missing() -> None:
    vm = ConfigViewModel()
    assert vm.config() is None
    assert set(vm.problems) == {"model", "data"}
    assert vm.first_problem == "model"
    assert vm.status.startswith("Model: choose a model folder")


def test_the_sample_makes_a_run_with_defaults() -> None:
    vm = ready_form()
    assert vm.status == "Ready"
    assert config_of(vm) == RunConfig(model="sample", data="sample")


@pytest.mark.parametrize("key", SPECS)
def test_every_option_reaches_the_run(key: str, tmp_path: Path) -> None:
    vm, files = ready_form(), make_files(tmp_path)
    prepare(vm, key, files)
    before = config_of(vm)
    typed, expected = other_value(SPECS[key], files)
    vm.set_value(key, typed)
    after = config_of(vm)
    assert getattr(after, key) == expected
    assert getattr(after, key) != getattr(before, key)


@pytest.mark.parametrize("key", [key for key, spec in SPECS.items() if not spec.required])
def test_every_option_can_be_reset(key: str, tmp_path: Path) -> None:
    vm, files = ready_form(), make_files(tmp_path)
    prepare(vm, key, files)
    assert not vm.differs(key) or key in ("method", "epochs")
    vm.set_value(key, other_value(SPECS[key], files)[0])
    assert vm.differs(key)
    vm.reset(key)
    assert not vm.differs(key)
    assert vm.values[key] == RunConfig.model_fields[key].default


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("learning_rate", "fast", "must be a number"),
        ("learning_rate", "2", "at most 1"),
        ("learning_rate", "0", "above 0"),
        ("rank", "1.5", "whole number"),
        ("rank", "0", "from 1 to 1024"),
        ("rank", "", "needs a value"),
        ("batch_size", "x", "whole number"),
        ("adam_betas", "0.9, 1.5", "less than 1"),
        ("adam_betas", "0.9", "number"),
        ("num_layers", "0", "no layer"),
        ("segment_size", "-2", "auto, 0 or a positive number"),
        ("run_name", "a/b", "a folder name"),
        ("dropout", "1", "below 1"),
        ("model", "/no/such/place", "no such folder"),
        ("data", "/no/such/place", "no such file"),
        ("warm_start", "/no/such/place", "no such folder"),
    ],
)
def test_a_bad_value_is_a_problem_in_plain_words(key: str, text: str, words: str) -> None:
    vm = ready_form()
    vm.set_value(key, text)
    assert vm.config() is None
    assert list(vm.problems) == [key]
    assert words in vm.problems[key]
    for jargon in ("null", "Input should", "valid integer", "type="):
        assert jargon not in vm.problems[key]


def test_text_that_cannot_be_read_is_kept_as_typed() -> None:
    vm = ready_form()
    vm.set_value("learning_rate", "1e-")
    assert vm.values["learning_rate"] == "1e-"
    vm.set_value("learning_rate", "1e-5")
    assert config_of(vm).learning_rate == 1e-5


def test_several_problems_are_all_shown() -> None:
    vm = ready_form()
    vm.set_value("rank", "none")
    vm.set_value("batch_size", "0")
    vm.set_value("data", "/no/such/place")
    assert list(vm.problems) == ["data", "rank", "batch_size"]


def test_values_are_not_lost_by_switching_the_method_back_and_forth() -> None:
    vm = ready_form()
    vm.set_value("method", "orpo")
    vm.set_value("orpo_lambda", "0.25")
    vm.set_value("sft_scope", "response")
    vm.set_value("method", "dpo")
    vm.set_value("dpo_beta", "0.3")
    vm.set_value("method", "sft")
    assert config_of(vm) == RunConfig(model="sample", data="sample")
    vm.set_value("method", "orpo")
    config = config_of(vm)
    assert (config.orpo_lambda, config.sft_scope, config.dpo_beta) == (0.25, "response", 0.1)
    vm.set_value("method", "dpo")
    assert config_of(vm).dpo_beta == 0.3


def test_a_bad_value_that_does_not_apply_keeps_nobody_from_starting() -> None:
    vm = ready_form()
    vm.set_value("method", "dpo")
    vm.set_value("dpo_beta", "much")
    assert vm.config() is None
    vm.set_value("method", "sft")
    assert vm.status == "Ready"


def test_what_does_not_apply_says_why() -> None:
    vm = ready_form()
    assert vm.why_idle("orpo_lambda") == "Only used when method is orpo"
    assert "Only used when method is orpo" in vm.tool_tip("orpo_lambda")
    vm.set_value("method", "orpo")
    assert vm.why_idle("orpo_lambda") is None


def test_without_validation_rows_its_options_are_idle(tmp_path: Path) -> None:
    vm = ready_form()
    vm.set_value("data", make_files(tmp_path)["data"])
    vm.set_value("valid_fraction", "0")
    assert vm.why_idle("steps_per_eval") == "Only used when there are validation rows"
    vm.set_value("valid_data", str(tmp_path / "rows.jsonl"))
    assert vm.why_idle("steps_per_eval") is None
    assert vm.why_idle("valid_fraction") == "Not used: the validation file is"


def test_a_data_folder_with_its_own_validation_rows_needs_no_share(tmp_path: Path) -> None:
    for name in ("train.jsonl", "valid.jsonl"):
        (tmp_path / name).write_text('{"text": "a"}\n')
    vm = ready_form()
    vm.set_value("data", str(tmp_path))
    assert vm.why_idle("valid_fraction") == "Not used: the data has its own validation rows"


def test_sft_is_not_offered_metrics_of_pairs() -> None:
    vm = ready_form()
    assert vm.choices("best_metric") == ("loss",)
    vm.set_value("method", "orpo")
    assert vm.choices("best_metric") == ("loss", "accuracy", "margin")
    vm.set_value("best_metric", "accuracy")
    vm.set_value("method", "sft")
    assert config_of(vm).best_metric == "loss"


def test_a_warm_start_brings_its_own_rank_and_scale(tmp_path: Path) -> None:
    vm = ready_form()
    vm.set_value("rank", "4")
    vm.set_value("warm_start", make_files(tmp_path)["warm_start"])
    assert "adapter" in (vm.why_idle("rank") or "")
    assert "rank" not in config_of(vm).model_fields_set


def test_defaults_are_not_submitted_as_explicit_values() -> None:
    vm = ready_form()
    vm.set_value("rank", "16")
    assert config_of(vm).model_fields_set == {"model", "data"}


def test_alpha_is_scale_times_rank_both_ways() -> None:
    vm = ready_form()
    assert vm.alpha == 32
    vm.set_alpha("8")
    assert (vm.values["scale"], vm.alpha) == (0.5, 8)
    vm.set_value("rank", "32")
    assert (vm.values["scale"], vm.alpha) == (0.5, 16)
    vm.set_value("scale", "3")
    assert vm.alpha == 96
    vm.set_value("rank", "7")
    vm.set_alpha("20")
    assert vm.alpha == 20
    assert config_of(vm).scale * 7 == pytest.approx(20)


@pytest.mark.parametrize("text", ["", "x", "0", "-4"])
def test_a_bad_alpha_is_a_problem_until_it_is_mended(text: str) -> None:
    vm = ready_form()
    vm.set_alpha(text)
    assert vm.alpha == text
    assert "alpha must be a number above 0" in vm.problems["scale"]
    vm.set_alpha("16")
    assert (vm.status, vm.values["scale"]) == ("Ready", 1.0)


def test_the_length_is_steps_or_epochs_and_both_are_kept() -> None:
    vm = ready_form()
    vm.set_value("iters", "60")
    vm.set_length_by("epochs")
    vm.set_value("epochs", "2")
    config = config_of(vm)
    assert (config.iters, config.epochs) == (None, 2.0)
    vm.set_length_by("iters")
    config = config_of(vm)
    assert (config.iters, config.epochs) == (60, None)
    vm.set_length_by("epochs")
    assert config_of(vm).epochs == 2.0


def test_epochs_need_a_number() -> None:
    vm = ready_form()
    vm.set_length_by("epochs")
    vm.set_value("epochs", "")
    assert vm.problems == {"epochs": "needs a value"}


def test_an_empty_learning_rate_stands_for_the_methods_own() -> None:
    vm = ready_form()
    for method in ("sft", "dpo", "orpo"):
        rate = default_learning_rate(method, "lora")
        vm.set_value("method", method)
        assert float(vm.placeholder("learning_rate")) == rate


def test_load_and_dump_round_trip(tmp_path: Path) -> None:
    files = make_files(tmp_path)
    config = RunConfig(
        model=files["model"], data=files["data"], method="orpo", orpo_lambda=0.2, epochs=1.5,
        learning_rate=3e-5, target_modules=["q_proj"], segment_size=0, adam_betas=(0.8, 0.9),
        prefix_sharing="off",
    )  # fmt: skip
    vm = ConfigViewModel()
    vm.load(config)
    assert config_of(vm) == config
    saved = tmp_path / "run.yaml"
    saved.write_text(dump_yaml(config_of(vm)))
    again = ConfigViewModel()
    again.load(load_config(saved))
    assert again.values == vm.values


def test_the_form_comes_back_as_it_was_left_through_json() -> None:
    vm = ready_form()
    vm.set_value("epochs", "3")
    vm.set_value("adam_betas", "0.8, 0.9")
    vm.set_value("rank", "many")
    again = ConfigViewModel()
    again.restore(json.loads(json.dumps(vm.values)))
    assert again.values == vm.values
    assert again.length_by == "epochs"
    assert not again.can_undo


def test_undo_takes_back_a_run_of_typing_at_once() -> None:
    vm = ready_form()
    for text in ("1", "1e", "1e-", "1e-5"):
        vm.set_value("learning_rate", text)
    vm.set_value("rank", "8")
    vm.undo()
    assert (vm.values["rank"], vm.values["learning_rate"]) == (16, 1e-5)
    vm.undo()
    assert vm.values["learning_rate"] is None
    vm.redo()
    assert vm.values["learning_rate"] == 1e-5
    vm.set_value("seed", "3")
    assert not vm.can_redo


def test_load_can_be_undone() -> None:
    vm = ready_form()
    vm.set_value("rank", "8")
    vm.load(RunConfig(model="sample", data="sample", rank=64))
    vm.undo()
    assert vm.values["rank"] == 8


def test_signals_tell_what_changed(qtbot) -> None:
    vm = ready_form()
    keys: list[str] = []
    vm.value_changed.connect(keys.append)
    with qtbot.waitSignal(vm.changed):
        vm.set_value("rank", "8")
    assert keys == ["rank"]
    with qtbot.assertNotEmitted(vm.changed):
        vm.set_value("rank", "8")


def test_arrow_keys_start_from_what_an_empty_field_stands_for() -> None:
    vm = ready_form()
    vm.step("learning_rate", 1)
    assert vm.values["learning_rate"] == 3e-4
    vm.step("rank", -100)
    assert vm.values["rank"] == 1
    vm.step_alpha(1)
    assert vm.alpha == 3


def test_a_file_that_appears_is_noticed(tmp_path: Path) -> None:
    vm = ready_form()
    path = tmp_path / "late.jsonl"
    vm.set_value("data", str(path))
    assert "data" in vm.problems
    path.write_text("{}\n")
    vm.recheck()
    assert vm.status == "Ready"


def test_summaries_name_the_main_choices(tmp_path: Path) -> None:
    vm = ready_form()
    assert vm.summary("LoRA") == "rank 16, alpha 32, all layers"
    vm.set_value("num_layers", "8")
    vm.set_value("method", "orpo")
    vm.set_value("batch_size", "2")
    vm.set_value("grad_accumulation_steps", "4")
    assert vm.summary("LoRA") == "rank 16, alpha 32, last 8 layers"
    assert vm.summary("Method") == "ORPO, lambda 0.1, scope full"
    assert vm.summary("Schedule") == "100 steps, rate 1e-4, batch 2 x 4"
    vm.set_value("rank", "lots")
    assert vm.summary("LoRA") == "rank lots, last 8 layers"
    for group in {spec.option.group for spec in SPECS.values()}:
        assert vm.summary(group)


def test_search_finds_by_label_key_and_help() -> None:
    vm = ready_form()
    assert vm.matches("learning_rate", "Learn RATE")
    assert vm.matches("scale", "alpha")
    assert vm.matches("sft_scope", "sft_scope")
    assert not vm.matches("seed", "alpha")
