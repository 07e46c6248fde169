"""Configuration files of mlx-lm and mlx-lm-lora: every key, three files each, and a real run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core import foreign_page
from trainer_core.config import RunConfig
from trainer_core.config_file import ConfigFile
from trainer_core.config_io import load_config, problems
from trainer_core.errors import ConfigError
from trainer_core.events import Warned
from trainer_core.foreign.mlx_lm import MLX_LM
from trainer_core.foreign.mlx_lm_lora import MLX_LM_LORA
from trainer_core.foreign.translate import TRAINERS, trainer_of, translate
from trainer_core.runfolder import read_events

FILES = Path(__file__).parent / "foreign_files"
GOLDEN = Path(__file__).parents[1] / "golden" / "llama"

# Of mlx_lm_lora.train.CONFIG_DEFAULTS in mlx-lm-lora 5.10.2, which brings too much to be installed.
MLX_LM_LORA_KEYS = [
    "adapter_path",
    "alpha",
    "batch_size",
    "beta",
    "clip_epsilon_logits",
    "config",
    "data",
    "delta",
    "dpo_cpo_loss_type",
    "dsla_loss",
    "efficient_long_context",
    "epochs",
    "epsilon",
    "epsilon_high",
    "fuse",
    "grad_checkpoint",
    "gradient_accumulation_steps",
    "group_size",
    "grpo_loss_type",
    "importance_sampling_level",
    "iters",
    "judge",
    "judge_config",
    "klpo_kl_estimator",
    "klpo_mc_samples",
    "klpo_route",
    "klpo_tail_floor",
    "klpo_top_k",
    "lambda_mse",
    "lambda_mse_target",
    "latent_gamma",
    "latent_layer",
    "latent_margin",
    "latent_pooling",
    "latent_variant",
    "latent_weight",
    "learning_rate",
    "lm_studio_name",
    "load_in_4bits",
    "load_in_6bits",
    "load_in_8bits",
    "load_in_mxfp4",
    "lora_parameters",
    "lr_schedule",
    "mask_prompt",
    "max_completion_length",
    "max_seq_length",
    "micro_batch_size",
    "model",
    "num_layers",
    "optimizer",
    "optimizer_config",
    "qat_bits",
    "qat_enable",
    "qat_group_size",
    "qat_interval",
    "qat_mode",
    "qat_start_step",
    "recurrence_chunk_size",
    "reference_model_path",
    "resume_adapter_file",
    "reward_functions",
    "reward_functions_file",
    "reward_scaling",
    "reward_weights",
    "save_every",
    "seed",
    "sft_loss_type",
    "steps_per_eval",
    "steps_per_report",
    "tau_mse_target",
    "temperature",
    "test",
    "test_batches",
    "train",
    "train_mode",
    "train_type",
    "val_batches",
]

# What each file asks for where that is not our default, by hand.
COMMON = {"grad_clip": 0.0, "steps_per_report": 10, "steps_per_eval": 200}
WANTED: dict[str, dict[str, Any]] = {
    "mlx-lm-full": {
        **COMMON,
        "model": "/models/Mistral-7B",
        "data": "/data/wikisql",
        "adam_betas": (0.9, 0.98),
        "adam_eps": 1e-6,
        "weight_decay": 0.05,
        "num_layers": 16,
        "batch_size": 4,
        "iters": 1000,
        "val_rows": 100,
        "learning_rate": 1e-5,
        "warmup_steps": 100,
        "lr_floor": 0.01,
        "target_modules": ["self_attn.q_proj", "self_attn.v_proj"],
        "rank": 8,
        "scale": 20.0,
        "loss_on": "everything",
    },
    "mlx-lm-minimal": {
        **COMMON,
        "model": "mlx-community/Llama-3.2-1B-Instruct-4bit",
        "data": "./data",
        "iters": 600,
        "optimizer": "adam",
        "num_layers": 16,
        "batch_size": 4,
        "val_rows": 100,
        "learning_rate": 1e-5,
        "lr_schedule": "constant",
        "rank": 8,
        "scale": 20.0,
        "loss_on": "everything",
    },
    "mlx-lm-dora": {
        **COMMON,
        "model": "Qwen/Qwen2.5-0.5B-Instruct",
        "data": "data",
        "fine_tune_type": "dora",
        "loss_on": "last",
        "batch_size": 2,
        "grad_accumulation_steps": 8,
        "iters": 300,
        "learning_rate": 2e-4,
        "lr_schedule": "constant",
        "val_rows": 0,
        "optimizer": "sgd",
        "weight_decay": 0.0,
        "columns": {"prompt": "question", "completion": "answer"},
        "rank": 32,
        "scale": 10.0,
        "dropout": 0.05,
    },
    "mlx-lm-lora-orpo": {
        **COMMON,
        "model": "Qwen/Qwen3-0.6B",
        "data": "preferences/",
        "method": "orpo",
        "sft_scope": "response",
        "orpo_lambda": 0.25,
        "grad_accumulation_steps": 4,
        "epochs": 2,
        "learning_rate": 8e-6,
        "lr_schedule": "constant",
        "max_seq_length": 4096,
        "num_layers": 8,
        "val_rows": 10,
        "grad_checkpoint": True,
        "optimizer": "adam",
        "scale": 10.0,
    },
    "mlx-lm-lora-dpo": {
        **COMMON,
        "model": "mlx-community/Josiefied-Qwen2.5-0.5B-Instruct",
        "data": "ultrafeedback",
        "method": "dpo",
        "dpo_reference": "base",
        "preference_loss": "hinge",
        "iters": 500,
        "learning_rate": 5e-6,
        "lr_schedule": "linear",
        "val_rows": 25,
        "rank": 8,
        "scale": 10.0,
    },
    "mlx-lm-lora-sft": {
        **COMMON,
        "model": "Qwen/Qwen3-0.6B",
        "data": "rows.jsonl",
        "fine_tune_type": "full",
        "learning_rate": 1e-5,
        "lr_schedule": "constant",
        "loss_on": "everything",
        "val_rows": 25,
        "iters": 100,
        "optimizer": "adam",
    },
}


def test_every_key_of_mlx_lm_is_in_the_table() -> None:
    from mlx_lm.lora import CONFIG_DEFAULTS

    assert set(CONFIG_DEFAULTS) <= set(MLX_LM)
    own = {"model", "data", "optimizer_config"}  # which name examples, or spell out nothing
    for name in set(CONFIG_DEFAULTS) - own:
        assert MLX_LM[name].default == CONFIG_DEFAULTS[name], name


def test_every_key_of_mlx_lm_lora_is_in_the_table() -> None:
    assert set(MLX_LM_LORA) == set(MLX_LM_LORA_KEYS)


@pytest.mark.parametrize("name", WANTED)
def test_a_file_asks_for_the_same_here(name: str) -> None:
    config = load_config(FILES / f"{name}.yaml")
    changed = {
        key: value
        for key, value in config.model_dump().items()
        if value != RunConfig.model_fields[key].default
    }
    assert changed.pop("lr_floor", 0.1) == pytest.approx(WANTED[name].get("lr_floor", 0.1))
    wanted = {k: v for k, v in WANTED[name].items() if k != "lr_floor"}
    if name == "mlx-lm-lora-orpo":
        del wanted["steps_per_eval"]  # 50, which is our default
        assert config.steps_per_eval == 50
    assert changed == wanted


def notes(name: str) -> str:
    found: list[Warned] = []
    load_config(FILES / f"{name}.yaml", warnings=found)
    return "\n".join(warned.message for warned in found)


def test_what_is_not_as_there_is_told() -> None:
    told = notes("mlx-lm-full")
    assert "a configuration of mlx-lm:" in told
    assert "with the last step, 900 steps after warm-up, not after 1,000" in told
    assert "warmup_init is ignored" in told
    told = notes("mlx-lm-dora")
    for word in ("test is ignored", "adapter_path is ignored", "report_to is ignored"):
        assert word in told
    assert "mlx-lm-lora" in notes("mlx-lm-lora-orpo")
    assert "adam corrects the bias" in notes("mlx-lm-lora-orpo")
    assert "fuse is ignored" in notes("mlx-lm-lora-dpo")


def refusal(tmp_path: Path, text: str) -> str:
    file = tmp_path / "theirs.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


BASE = "model: m\ndata: d\ntrain: true\n"
LORA = BASE + "train_type: lora\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BASE + "hf_dataset: {path: x}\n", "theirs.yaml, line 4: hf_dataset"),
        (BASE + "lr_schedule: {name: step_decay, arguments: [1, 2, 3]}\n", "step_decay with 3"),
        (BASE + "optimizer: sgd\noptimizer_config: {sgd: {momentum: 0.9}}\n", "sgd.momentum"),
        (BASE + "resume_adapter_file: a/0000100_adapters.safetensors\n", "line 4: resume_adapter"),
        (BASE + "lora_parameters: {rank: 0}\n", "theirs.yaml, line 4: rank = 0 is not allowed"),
        (BASE + "lora_parameters: {ranks: 8}\n", "it has no ranks"),
        (BASE + "batchsize: 4\n", "line 4: mlx-lm has no key batchsize. The nearest one is batch_"),
        (BASE + "optimizer: lion\n", "line 4: optimizer = lion is not allowed"),
        (LORA + "train_mode: grpo\n", "there is no method grpo here"),
        (LORA + "load_in_4bits: true\n", "mlx_lm.convert"),
        (LORA + "train_mode: dpo\ndpo_cpo_loss_type: dpop\n", "there is no loss dpop"),
        (LORA + "train_mode: dpo\nreference_model_path: other\n", "the reference is always"),
        (LORA + "train_mode: orpo\nreward_scaling: 0.5\n", "reward is not scaled"),
        (LORA + "qat_enable: true\n", "not quantised in training"),
    ],
)
def test_what_cannot_be_honoured_is_one_sentence_with_its_line(
    tmp_path: Path, text: str, says: str
) -> None:
    assert says in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("values", "trainer"),
    [
        ({"model": "m", "data": "d", "iters": 5}, None),
        ({"model": "m", "val_batches": 5, "rank": 8}, None),
        ({"schema_version": 1, "val_batches": 5}, None),
        ({"model": "m", "lora_parameters": {}}, "mlx-lm"),
        ({"model": "m", "mask_prompt": True}, "mlx-lm"),
        ({"model": "m", "lr_schedule": {"name": "cosine_decay"}}, "mlx-lm"),
        ({"model": "m", "lora_parameters": {}, "train_mode": "orpo"}, "mlx-lm-lora"),
        ({"model": "m", "train_type": "lora"}, "mlx-lm-lora"),
    ],
)
def test_whose_file_it_is(values: dict[str, Any], trainer: str | None) -> None:
    assert trainer_of(values) == trainer


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("val_batches: 5", "Use val_rows"),
        ("lora_parameters: {rank: 8}", "as options of their own"),
        ("train: true", "always trains"),
        ("adapter_path: x", "run_name"),
    ],
)
def test_a_key_of_theirs_in_a_file_of_ours_gets_its_hint(
    tmp_path: Path, line: str, hint: str
) -> None:
    assert hint in refusal(tmp_path, f"model: m\ndata: d\nrank: 8\n{line}\n")


def test_the_page_says_what_is_so() -> None:
    assert foreign_page.PAGE.read_text(encoding="utf-8") == foreign_page.page(), (
        "write it anew with `python -m tests.core.foreign_page`"
    )


def test_such_a_file_trains(tmp_path: Path) -> None:
    rows = [{"prompt": "2 + 2", "completion": "4"}, {"prompt": "3 + 3", "completion": "6"}]
    data = tmp_path / "data"
    data.mkdir()
    for name in ("train", "valid"):
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "lora.yaml"
    settings = {
        **{"model": str(GOLDEN), "data": "data", "train": True, "iters": 2, "num_layers": 1},
        **{"batch_size": 2, "lora_parameters": {"rank": 4, "scale": 10.0, "dropout": 0.0}},
    }
    file.write_text(yaml.safe_dump(settings))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "trainer_core", "train", str(file), "--events", "-"),
            *("--set", f"output={tmp_path / 'runs'}", "--set", "run_name=theirs"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["event"] == "started"
    assert events[1]["event"] == "warned"
    assert "a configuration of mlx-lm" in events[1]["message"]
    steps = [event for event in events if event["event"] == "step"]
    assert steps[-1]["step"] == 2
    assert steps[-1]["learning_rate"] == 1e-5
    written = load_config(tmp_path / "runs" / "theirs" / "config.yaml")
    assert (written.rank, written.scale, written.num_layers) == (4, 10.0, 1)
    assert list(read_events(tmp_path / "runs" / "theirs" / "events.jsonl"))


ODD = st.sampled_from(
    [
        *(None, True, -1, 0, 3, 0.5, float("inf"), float("nan"), "", "x", "4", "1e-5", [], [1]),
        *(["x", None], {}, {"a": 1}, {"rank": "x"}, {"keys": 3}, {"adam": 3}, {"adamw": []}),
    ]
)
NAMED = st.sampled_from(["adam", "adamw", "sgd", "cosine_decay", "linear_schedule", "dpo", "orpo"])
SCHEDULE = st.fixed_dictionaries(
    {"name": NAMED | ODD, "arguments": st.lists(ODD, max_size=4) | ODD},
    optional={"warmup": ODD, "warmup_init": ODD},
)
SETTINGS = st.dictionaries(NAMED, st.dictionaries(st.sampled_from(["betas", "eps"]), ODD) | ODD)


@settings(max_examples=50)
@given(
    trainer=st.sampled_from(sorted(TRAINERS)),
    odd=st.dictionaries(
        st.sampled_from(sorted({*MLX_LM, *MLX_LM_LORA})),
        ODD | NAMED | SCHEDULE | SETTINGS,
        max_size=4,
    ),
)
def test_whatever_a_value_is_it_is_read_or_refused(trainer: str, odd: dict[str, Any]) -> None:
    table = TRAINERS[trainer]
    values = {"model": "m", "data": "d", **{k: v for k, v in odd.items() if k in table}}
    try:
        translated = translate(ConfigFile(Path("theirs.yaml"), values), trainer)
    except ConfigError:
        return
    found = problems(translated.file.values, file=translated.file)
    assert found or RunConfig.model_validate(translated.file.values)
