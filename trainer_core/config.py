"""RunConfig: every option of a run, declared once.

The form of the app, `--set key=value`, the YAML file and the options table of the README are all made from
this class. Loading and the wording of errors are in `config_io`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator

from trainer_core.option import Option, option

Method = Literal["sft", "dpo", "orpo"]

PREFERENCE = ("dpo", "orpo")

DEFAULT_LEARNING_RATES: dict[str, float] = {"sft": 2e-4, "dpo": 5e-5, "orpo": 2e-4}


class RunConfig(BaseModel):
    """One run. Field names are the keys of the YAML file."""

    model_config = ConfigDict(extra="forbid", validate_default=True, frozen=True, allow_inf_nan=False)

    # Model
    model: str = option(
        label="Model",
        help="A local folder, a Hugging Face id in the local cache, or `sample` for the small model that "
        "comes with the sample project.",
        group="Model",
    )
    weights: Literal["auto", "keep", "float32", "bfloat16"] = option(
        "auto",
        label="Weights",
        help="Precision of the frozen weights while training. `auto` keeps the model's own on a GPU and "
        "uses float32 on a CPU if that fits in memory.",
        group="Model",
        advanced=True,
    )

    # Data
    data: str = option(
        label="Data",
        help="A file of rows, or a folder with train.jsonl and an optional valid.jsonl, or `sample`.",
        group="Data",
    )
    valid_data: str | None = option(
        None,
        label="Validation file",
        help="A file of validation rows. Without one, a share of the training rows is held out.",
        group="Data",
    )
    valid_fraction: float = option(
        0.1,
        label="Held-out share",
        help="Share of the rows held out for validation when there is no validation file. 0 means none.",
        group="Data",
        ge=0,
        lt=1,
    )
    max_seq_length: int = option(
        2048,
        label="Sequence length",
        help="Longest sequence, in tokens. Longer rows are cut or dropped as `overlong` says.",
        group="Data",
        unit="tokens",
        ge=16,
    )
    overlong: Literal["truncate", "drop"] = option(
        "truncate",
        label="Overlong rows",
        help="What happens to a row that is longer than the sequence length.",
        group="Data",
        advanced=True,
    )
    bad_rows: Literal["error", "skip"] = option(
        "error",
        label="Bad rows",
        help="Refuse a file with rows that cannot be used, or skip and count them.",
        group="Data",
        advanced=True,
    )
    prompt_format: Literal["chat", "raw"] = option(
        "chat",
        label="Prompt format",
        help="`chat` uses the model's chat template. `raw` takes the text as it is and adds the end token "
        "to a response that lacks it.",
        group="Data",
        advanced=True,
    )
    loss_on: Literal["assistant", "last", "everything"] = option(
        "assistant",
        label="Train on",
        help="Which tokens SFT learns: every assistant turn, only the last one, or everything.",
        group="Data",
        advanced=True,
        applies={"method": ("sft",)},
    )
    shuffle: bool = option(
        True, label="Shuffle", help="Shuffle the rows anew in every epoch.", group="Data", advanced=True
    )
    val_rows: int = option(
        32,
        label="Validation rows",
        help="At most this many validation rows are evaluated each time. 0 means all.",
        group="Data",
        unit="rows",
        advanced=True,
        ge=0,
    )

    # Method
    method: Method = option(
        "sft",
        label="Method",
        help="SFT imitates answers. DPO and ORPO learn from pairs of a preferred and a rejected answer.",
        group="Method",
    )
    orpo_lambda: float = option(
        0.1,
        label="Lambda",
        help="Weight of the odds-ratio term: loss = nll + lambda x or.",
        group="Method",
        applies={"method": ("orpo",)},
        ge=0,
    )
    sft_scope: Literal["full", "response"] = option(
        "full",
        label="NLL scope",
        help="What ORPO's nll covers: the whole chosen sequence as in the paper and TRL, or the response "
        "only.",
        group="Method",
        applies={"method": ("orpo",)},
    )
    dpo_beta: float = option(
        0.1,
        label="Beta",
        help="How strongly DPO holds the policy to its reference.",
        group="Method",
        applies={"method": ("dpo",)},
        gt=0,
    )
    dpo_reference: Literal["start", "base"] = option(
        "start",
        label="Reference",
        help="DPO's reference: the model as training starts (with a warm start, that adapter), or the base "
        "model without an adapter.",
        group="Method",
        advanced=True,
        applies={"method": ("dpo",)},
    )

    # LoRA
    fine_tune_type: Literal["lora", "dora", "full"] = option(
        "lora",
        label="Fine-tune type",
        help="What is trained.",
        group="LoRA",
        only=("lora",),
        why_only="DoRA and full fine-tuning are not part of this version",
    )
    rank: int = option(16, label="Rank", help="Rank of the adapter matrices.", group="LoRA", ge=1, le=1024)
    scale: float = option(
        2.0,
        label="Scale",
        help="Multiplies the adapter's product B A directly. Alpha, as other tools call it, is "
        "scale x rank.",
        group="LoRA",
        gt=0,
    )
    dropout: float = option(
        0.0,
        label="Dropout",
        help="Share of the adapter's inputs that are dropped while training.",
        group="LoRA",
        advanced=True,
        ge=0,
        lt=1,
    )
    target_modules: Literal["auto"] | list[str] = option(
        "auto",
        label="Target modules",
        help="Names of the linear layers to adapt, such as q_proj. `auto` takes every linear of a block "
        "except routers.",
        group="LoRA",
        advanced=True,
    )
    num_layers: int = option(
        -1,
        label="Layers",
        help="Adapt the last n blocks. -1 means all.",
        group="LoRA",
        advanced=True,
        ge=-1,
    )
    warm_start: str | None = option(
        None,
        label="Warm start",
        help="An adapter folder, of mlx-lm or PEFT, whose weights training starts from.",
        group="LoRA",
        advanced=True,
    )
    rank_scaling: Literal["constant", "by_bits", "by_kl"] = option(
        "constant",
        label="Rank scaling",
        help="Same rank everywhere, or more rank where the base is more sensitive.",
        group="LoRA",
        advanced=True,
        only=("constant",),
        why_only="rank policies are not part of this version",
    )
    rs_lora: bool = option(
        False,
        label="rsLoRA",
        help="Divide the multiplier by the root of the rank.",
        group="LoRA",
        advanced=True,
        only=(False,),
        why_only="rsLoRA is not part of this version",
    )
    lora_plus_ratio: float = option(
        1.0,
        label="LoRA+ ratio",
        help="Learning rate of B over that of A.",
        group="LoRA",
        advanced=True,
        only=(1.0,),
        why_only="LoRA+ is not part of this version",
        gt=0,
    )

    # Schedule
    iters: int | None = option(
        None,
        label="Steps",
        help="Number of optimiser updates. 100 if neither steps nor epochs are given.",
        group="Schedule",
        unit="steps",
        ge=1,
    )
    epochs: float | None = option(
        None,
        label="Epochs",
        help="Passes over the training rows, instead of a number of steps.",
        group="Schedule",
        advanced=True,
        gt=0,
    )
    learning_rate: float | None = option(
        None,
        label="Learning rate",
        help="Peak learning rate. If empty: 2e-4 for SFT and ORPO, 5e-5 for DPO.",
        group="Schedule",
        gt=0,
        le=1,
    )
    batch_size: int = option(
        1, label="Batch size", help="Rows per micro-batch.", group="Schedule", unit="rows", ge=1
    )
    grad_accumulation_steps: int = option(
        1,
        label="Accumulation",
        help="Micro-batches per optimiser update. The gradient is exactly that of the one big batch.",
        group="Schedule",
        ge=1,
    )
    lr_schedule: Literal["constant", "linear", "cosine"] = option(
        "cosine",
        label="Schedule",
        help="How the learning rate falls after warm-up.",
        group="Schedule",
        advanced=True,
    )
    warmup_steps: int = option(
        0,
        label="Warm-up",
        help="Steps over which the learning rate rises to its peak.",
        group="Schedule",
        unit="steps",
        advanced=True,
        ge=0,
    )
    lr_floor: float = option(
        0.1,
        label="Final rate",
        help="The last step's learning rate as a share of the peak.",
        group="Schedule",
        advanced=True,
        applies={"lr_schedule": ("linear", "cosine")},
        ge=0,
        le=1,
    )
    optimizer: Literal["adamw"] = option(
        "adamw", label="Optimiser", help="AdamW with bias correction.", group="Schedule", advanced=True,
        only=("adamw",), why_only="other optimisers are not part of this version",
    )
    weight_decay: float = option(
        0.01, label="Weight decay", help="Decoupled weight decay.", group="Schedule", advanced=True, ge=0
    )
    adam_betas: tuple[float, float] = option(
        (0.9, 0.999),
        label="Adam betas",
        help="Decay of the first and second moment.",
        group="Schedule",
        advanced=True,
    )
    adam_eps: float = option(
        1e-8, label="Adam epsilon", help="Added to the root of the second moment.", group="Schedule",
        advanced=True, gt=0,
    )
    grad_clip: float = option(
        1.0,
        label="Gradient clip",
        help="Largest global norm of the gradient. 0 turns clipping off.",
        group="Schedule",
        advanced=True,
        ge=0,
    )
    seed: int = option(
        0, label="Seed", help="Seed of shuffling, initial weights and dropout.", group="Schedule",
        advanced=True, ge=0, lt=2**32,
    )
    best_metric: Literal["loss", "accuracy", "margin"] = option(
        "loss",
        label="Best by",
        help="The validation metric that decides which checkpoint is best.",
        group="Schedule",
        advanced=True,
    )
    early_stop_patience: int = option(
        0,
        label="Patience",
        help="Stop after this many validations without a new best. 0 turns it off.",
        group="Schedule",
        unit="validations",
        advanced=True,
        ge=0,
    )

    # Memory and speed
    head: Literal["auto", "full", "chunked", "fused", "flash"] = option(
        "auto",
        label="Head",
        help="How log-probabilities are computed from hidden states. `full` holds all logits, `chunked` "
        "and `fused` a chunk at a time.",
        group="Memory and speed",
        only=("auto", "full", "chunked", "fused"),
        why_only="the flash head is not part of this version",
    )
    chunk_size: int = option(
        512,
        label="Chunk size",
        help="Tokens per chunk of the head.",
        group="Memory and speed",
        unit="tokens",
        applies={"head": ("auto", "chunked", "fused", "flash")},
        ge=1,
    )
    segment_size: Literal["auto"] | int = option(
        "auto",
        label="Segment size",
        help="Layers per segment of the backward pass. 0 keeps the whole graph; small segments use the "
        "least memory.",
        group="Memory and speed",
        unit="layers",
    )
    prefix_sharing: Literal["auto", "on", "off"] = option(
        "auto",
        label="Prefix sharing",
        help="Run a pair's shared prompt once.",
        group="Memory and speed",
        advanced=True,
        applies={"method": PREFERENCE},
        only=("auto", "off"),
        why_only="prefix sharing is not part of this version",
    )
    grad_checkpoint: bool = option(
        False,
        label="Gradient checkpointing",
        help="Recompute each layer in the backward pass.",
        group="Memory and speed",
        advanced=True,
        only=(False,),
        why_only="gradient checkpointing is not part of this version",
    )
    attention: Literal["auto", "sdpa", "blocked"] = option(
        "auto",
        label="Attention",
        help="MLX's own attention, or one whose backward uses little memory.",
        group="Memory and speed",
        advanced=True,
        only=("auto", "sdpa"),
        why_only="blocked attention is not part of this version",
    )
    isolation: Literal["thread", "process"] = option(
        "thread",
        label="Isolation",
        help="Where the engine runs when started by the app.",
        group="Memory and speed",
        advanced=True,
        only=("thread",),
        why_only="a separate engine process is not part of this version",
    )

    # Output
    output: str | None = option(
        None,
        label="Runs folder",
        help="The folder in which run folders are made. If empty, `runs` in the user's data folder.",
        group="Output",
    )
    run_name: str | None = option(
        None, label="Run name", help="Name of the run folder. If empty, date, method and model.",
        group="Output",
    )
    steps_per_report: int = option(
        1,
        label="Report every",
        help="Steps between two reports.",
        group="Output",
        unit="steps",
        advanced=True,
        ge=1,
    )
    steps_per_eval: int = option(
        50,
        label="Validate every",
        help="Steps between two validations. Validation also runs at start and end. 0 means only then.",
        group="Output",
        unit="steps",
        ge=0,
    )
    save_every: int = option(
        100,
        label="Save every",
        help="Steps between two checkpoints, which are written at least every five minutes.",
        group="Output",
        unit="steps",
        advanced=True,
        ge=1,
    )
    keep_checkpoints: int = option(
        3,
        label="Keep checkpoints",
        help="Periodic checkpoints that are kept. The best and the last are always kept.",
        group="Output",
        advanced=True,
        ge=1,
    )

    @field_validator("segment_size")
    @classmethod
    def _segment_size_is_not_negative(cls, value: int | str) -> int | str:
        if isinstance(value, int) and value < 0:
            raise ValueError("must be auto, 0 or a positive number of layers")
        return value

    @field_validator("adam_betas")
    @classmethod
    def _betas_are_shares(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= beta < 1 for beta in value):
            raise ValueError("each must be at least 0 and less than 1")
        return value

    @field_validator("num_layers")
    @classmethod
    def _some_layer_is_adapted(cls, value: int) -> int:
        if value == 0:
            raise ValueError("0 would adapt no layer; -1 means all")
        return value


def options() -> dict[str, Option]:
    """Field name -> metadata, in the order of the form."""
    found: dict[str, Option] = {}
    for name, field in RunConfig.model_fields.items():
        extra: Any = field.json_schema_extra
        found[name] = extra["option"]
    return found


def inapplicable(name: str, values: dict[str, Any]) -> str | None:
    """Why option `name` has no effect with these values, or None if it has one."""
    applies = options()[name].applies or {}
    for other, allowed in applies.items():
        if values.get(other) not in allowed:
            wanted = " or ".join(str(v) for v in allowed)
            return f"only used when {other} is {wanted}"
    return None
