"""RunConfig: the contract of DESIGN section 5, and which values are refused."""

import pytest
from pydantic import ValidationError

from trainer_core.config import (
    RunConfig,
    inapplicable,
    options,
    resolve,
    without_inapplicable,
)
from trainer_core.fallback import refused
from trainer_core.option import GROUPS, allowed, kinds, limits

# The table of the design, by hand.
CONTRACT = {
    "columns": None,
    "valid_fraction": 0.1,
    "row_changes": None,
    "valid_data": None,
    "method": "sft",
    "fine_tune_type": "lora",
    "rank": 16,
    "scale": 2.0,
    "dropout": 0,
    "rank_scaling": "constant",
    "rs_lora": False,
    "lora_plus_ratio": 1.0,
    "target_modules": "auto",
    "num_layers": -1,
    "warm_start": None,
    "resume": None,
    "epochs": None,
    "batch_size": 1,
    "grad_accumulation_steps": 1,
    "max_seq_length": 2048,
    "group_by_length": False,
    "packing": False,
    "lr_schedule": "cosine",
    "warmup_steps": 0,
    "lr_floor": 0.1,
    "optimizer": "adamw",
    "weight_decay": 0.01,
    "adam_betas": (0.9, 0.999),
    "adam_eps": 1e-8,
    "grad_clip": 1.0,
    "orpo_lambda": 0.1,
    "dpo_beta": 0.1,
    "sft_scope": "full",
    "dpo_reference": "start",
    "preference_loss": "sigmoid",
    "label_smoothing": 0.0,
    "cpo_alpha": 1.0,
    "simpo_gamma": 0.5,
    "head": "auto",
    "chunk_size": 512,
    "segment_size": "auto",
    "prefix_sharing": "auto",
    "grad_checkpoint": False,
    "attention": "auto",
    "loss_on": "assistant",
    "prompt_format": "chat",
    "chat_template": None,
    "template_kwargs": None,
    "system_prompt": None,
    "overlong": "truncate",
    "bad_rows": "error",
    "shuffle": True,
    "seed": 0,
    "steps_per_report": 1,
    "steps_per_eval": 50,
    "sample_prompts": None,
    "sample_tokens": 64,
    "val_rows": 32,
    "save_every": 100,
    "keep_checkpoints": 3,
    "best_metric": "loss",
    "early_stop_patience": 0,
    "weights": "auto",
    "isolation": "thread",
    "output": None,
    "run_name": None,
}


def config(**values):
    return RunConfig(model="m", data="d", **values)


def test_names_and_defaults_are_the_contract():
    made = config()
    assert {name: getattr(made, name) for name in CONTRACT} == CONTRACT
    assert set(RunConfig.model_fields) == {*CONTRACT, "model", "data", "iters", "learning_rate"}


def test_model_and_data_are_required():
    with pytest.raises(ValidationError):
        RunConfig.model_validate({"model": "m"})
    with pytest.raises(ValidationError):
        RunConfig.model_validate({"data": "d"})


@pytest.mark.parametrize(("method", "rate"), [("sft", 2e-4), ("dpo", 5e-5), ("orpo", 1e-4)])
def test_resolve_fills_rate_and_steps(method, rate):
    made = resolve(config(method=method))
    assert (made.learning_rate, made.iters) == (rate, 100)


def test_resolve_keeps_what_is_given():
    made = resolve(config(learning_rate=1e-3, epochs=2))
    assert (made.learning_rate, made.iters, made.epochs) == (1e-3, None, 2)
    assert resolve(made) == made


@pytest.mark.parametrize(
    "values",
    [
        {"rank": 0},
        {"rank": True},
        {"num_layers": 0},
        {"num_layers": -2},
        {"segment_size": -1},
        {"segment_size": True},
        {"segment_size": "some"},
        {"adam_betas": (0.9, 1.0)},
        {"adam_betas": (0.9,)},
        {"target_modules": []},
        {"target_modules": ["q_proj", " "]},
        {"learning_rate": 0},
        {"learning_rate": float("nan")},
        {"scale": float("inf")},
        {"dropout": 1},
        {"model": " "},
        {"iters": 10, "epochs": 1},
        {"best_metric": "accuracy"},
        {"best_metric": "margin", "method": "sft"},
        {"method": "ppo"},
        {"nonsense": 1},
        {"columns": {}},
        {"template_kwargs": {"messages": 1}},
        {"template_kwargs": {"two words": 1}},
        {"system_prompt": " "},
        {"system_prompt": "x", "prompt_format": "raw"},
        {"columns": {"question_text": "q"}},
        {"columns": {"prompt": " "}},
        {"columns": {"prompt": "q", "chosen": "q"}},
        {"columns": "prompt"},
    ],
)
def test_bad_values_are_refused(values):
    with pytest.raises(ValidationError):
        RunConfig.model_validate({"model": "m", "data": "d"} | values)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"orpo_lambda": 0.2}, "method is orpo"),
        ({"method": "dpo", "sft_scope": "response"}, "method is orpo"),
        ({"method": "orpo", "dpo_beta": 0.2}, "method is dpo"),
        ({"method": "orpo", "loss_on": "last"}, "method is sft"),
        ({"lr_schedule": "constant", "lr_floor": 0.0}, "lr_schedule is linear or cosine"),
        ({"optimizer": "adam", "weight_decay": 0.1}, "optimizer is adamw or sgd"),
        ({"optimizer": "sgd", "adam_eps": 1e-6}, "optimizer is adamw or adam or muon"),
        ({"grad_checkpoint": True, "segment_size": 2}, "segment_size is auto or 0"),
        (
            {"method": "dpo", "grad_checkpoint": True, "prefix_sharing": "on"},
            "prefix_sharing is auto or off",
        ),
        ({"rank_scaling": "by_bits", "warm_start": "a"}, "keeps the adapter's own ranks"),
        ({"rank_scaling": "by_kl", "warm_start": "a"}, "keeps the adapter's own ranks"),
        ({"rs_lora": True, "warm_start": "a"}, "keeps the adapter's own multiplier"),
        ({"group_by_length": True}, "a batch of one row has nothing to group"),
        ({"group_by_length": True, "batch_size": 2, "packing": True}, "packed rows have no padd"),
        ({"method": "orpo", "packing": True}, "method is sft"),
        (
            {"method": "dpo", "preference_loss": "ipo", "label_smoothing": 0.1},
            "preference_loss is sigmoid or robust or cpo or simpo",
        ),
        (
            {"method": "dpo", "preference_loss": "cpo", "dpo_reference": "base"},
            "preference_loss is sigmoid or robust or hinge or ipo",
        ),
        ({"method": "orpo", "preference_loss": "ipo"}, "method is dpo"),
        ({"fine_tune_type": "full", "rank": 4}, "fine_tune_type is lora or dora"),
        ({"head": "full", "chunk_size": 64}, "head is auto or chunked or fused"),
    ],
)
def test_an_option_without_effect_is_refused(values, reason):
    with pytest.raises(ValidationError, match=reason):
        config(**values)


def test_a_form_can_drop_what_has_no_effect():
    values = {"method": "sft", "orpo_lambda": 0.5, "rank": 8}
    assert inapplicable("orpo_lambda", values) == "only used when method is orpo"
    assert inapplicable("orpo_lambda", {"method": "orpo"}) is None
    assert inapplicable("rank", values) is None
    assert without_inapplicable(values) == {"method": "sft", "rank": 8}


def test_a_value_off_goes_with_every_method():
    assert config(prefix_sharing="off").prefix_sharing == "off"


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/b",
        "a\\b",
        "..",
        ".",
        "",
        "  ",
        ".hidden",
        "a\nb",
        "a\0b",
        "a:b",
        "x" * 201,
        "é" * 101,
    ],
)
def test_a_run_name_that_is_no_plain_folder_name_is_refused(name):
    with pytest.raises(ValidationError):
        config(run_name=name)


@pytest.mark.parametrize("name", ["a", "Ünï 码 🦊", "a.b", "-x", "x" * 200])
def test_a_run_name_may_be_in_any_script(name):
    assert config(run_name=f"  {name} ").run_name == name


def test_every_option_has_what_a_form_needs():
    for name, meta in options().items():
        assert meta.label, name
        assert meta.help.endswith("."), name
        assert meta.group in GROUPS, name


def test_allowed_values_in_words():
    fields = RunConfig.model_fields
    assert allowed(fields["rank"]) == "a whole number from 1 to 1024"
    assert allowed(fields["method"]) == "sft, dpo or orpo"
    assert allowed(fields["dropout"]) == "a number of at least 0 and below 1"
    assert allowed(fields["iters"]) == "a whole number of at least 1, or null"
    assert allowed(fields["segment_size"]) == "auto or a whole number"
    assert allowed(fields["rs_lora"]) == "true or false"
    assert allowed(fields["isolation"]) == "thread or process"


def test_type_and_range_of_a_field():
    fields = RunConfig.model_fields
    assert kinds(fields["segment_size"].annotation) == ("auto", int)
    assert kinds(fields["epochs"].annotation) == (float, type(None))
    assert limits(fields["seed"]) == {"ge": 0, "lt": 2**32}


def test_an_engine_refusal_names_option_value_and_reason():
    error = refused(config(segment_size=4), "segment_size", "this model's layers cannot be split")
    assert error.key == "segment_size"
    assert str(error) == (
        "segment_size = 4 cannot be used: this model's layers cannot be split. "
        "Allowed is auto or a whole number."
    )
