"""RunConfig: every option of a run, declared once.

The form of the app, `--set key=value`, the YAML file and the options table of the README are all
made from this class. Loading and the wording of errors are in `config_io`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from trainer_core.option import Option, allowed, kinds, option, option_of
from trainer_core.option_types import (
    Betas,
    ColumnNames,
    FolderName,
    LayerCount,
    ModuleNames,
    OptionalText,
    Prompts,
    SegmentSize,
    TemplateValues,
    Text,
)

Method = Literal["sft", "dpo", "orpo"]

PREFERENCE = ("dpo", "orpo")

# Of an adapter and, after TRL's own for DPO and the ORPO paper's, of all weights.
_ADAPTER_RATES: dict[str, float] = {"sft": 2e-4, "dpo": 5e-5, "orpo": 1e-4}
_FULL_RATES: dict[str, float] = {"sft": 1e-5, "dpo": 1e-6, "orpo": 8e-6}

DEFAULT_ITERS = 100

_model = partial(option, group="Model")
_data = partial(option, group="Data")
_method = partial(option, group="Method")
_lora = partial(option, group="LoRA")
_schedule = partial(option, group="Schedule")
_speed = partial(option, group="Memory and speed")
_output = partial(option, group="Output")

_ORPO: dict[str, tuple[Any, ...]] = {"method": ("orpo",)}
_CHAT: dict[str, tuple[Any, ...]] = {"prompt_format": ("chat",)}
_DPO: dict[str, tuple[Any, ...]] = {"method": ("dpo",)}
_ADAPTER: dict[str, tuple[Any, ...]] = {"fine_tune_type": ("lora", "dora")}
_ADAM: dict[str, tuple[Any, ...]] = {"optimizer": ("adamw", "adam", "muon")}


class RunConfig(BaseModel):
    """One run. Field names are the keys of the YAML file."""

    model_config = ConfigDict(
        extra="forbid",
        validate_default=True,
        frozen=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    # fmt: off
    model: Text = _model(
        ..., "Model", "A local folder, a Hugging Face id in the local cache, or `sample` for the "
        "small model that comes with the sample project.", path=True)
    weights: Literal["auto", "keep", "float32", "bfloat16"] = _model(
        "auto", "Weights", "Precision of the frozen weights while training. `auto` keeps the "
        "model's own on a GPU and uses float32 on a CPU if that fits in memory.", advanced=True)

    data: Text = _data(
        ..., "Data", "A file of rows (JSON lines, JSON, CSV, TSV or Parquet, also in gzip or "
        "zip), or a folder with train.jsonl and an optional valid.jsonl, or `sample`.", path=True)
    columns: ColumnNames = _data(
        None, "Columns", "Which of the file's columns is what, if they are called otherwise, such "
        "as {prompt: question, chosen: good, rejected: bad}.", advanced=True)
    row_changes: OptionalText = _data(
        None, "Row changes", "A file that leaves rows out or gives them other values; the file of "
        "rows stays as it is. The Data page of the app writes it.", advanced=True, path=True)
    valid_data: OptionalText = _data(
        None, "Validation file", "A file of validation rows. Without one, a share of the training "
        "rows is held out.", path=True)
    valid_fraction: float = _data(
        0.1, "Held-out share", "Share of the rows held out for validation when there is no "
        "validation file. 0 means none.", ge=0, lt=1)
    max_seq_length: int = _data(
        2048, "Sequence length", "Longest sequence. Longer rows are cut or dropped as `overlong` "
        "says.", unit="tokens", ge=16)
    overlong: Literal["truncate", "drop"] = _data(
        "truncate", "Overlong rows", "What happens to a row that is longer than the sequence "
        "length.", advanced=True)
    bad_rows: Literal["error", "skip"] = _data(
        "error", "Bad rows", "Refuse a file with rows that cannot be used, or skip and count them.",
        advanced=True)
    prompt_format: Literal["chat", "raw"] = _data(
        "chat", "Prompt format", "`chat` uses the model's chat template. `raw` takes the text as "
        "it is and adds the end token to a response that lacks it.", advanced=True)
    chat_template: OptionalText = _data(
        None, "Chat template", "A template file, or one of chatml, llama3, gemma, mistral, phi3, "
        "zephyr and alpaca, instead of the model's own.", advanced=True, path=True,
        applies=_CHAT)
    template_kwargs: TemplateValues = _data(
        None, "Template values", "Values that the chat template reads, such as {enable_thinking: "
        "false}.", advanced=True, applies=_CHAT)
    system_prompt: OptionalText = _data(
        None, "System prompt", "Put before every conversation that has none.", advanced=True,
        applies=_CHAT)
    loss_on: Literal["assistant", "last", "everything"] = _data(
        "assistant", "Train on", "Which tokens SFT learns: every assistant turn, only the last "
        "one, or everything.", advanced=True, applies={"method": ("sft",)})
    shuffle: bool = _data(
        True, "Shuffle", "Shuffle the rows anew in every epoch.", advanced=True)
    group_by_length: bool = _data(
        False, "Group by length", "Put rows of like length into one batch, which then has less "
        "padding. Pairs that share their prompts run one by one and need none.", advanced=True)
    packing: bool = _data(
        False, "Packing", "Put rows behind one another in rows of up to the sequence length, of "
        "which `batch_size` then counts. Each sees only itself, so that it learns as without, and "
        "nothing is spent on padding.", advanced=True, applies={"method": ("sft",)})
    val_rows: int = _data(
        32, "Validation rows", "At most this many validation rows are evaluated each time. 0 means "
        "all.", unit="rows", advanced=True, ge=0)

    method: Method = _method(
        "sft", "Method", "SFT imitates answers. DPO and ORPO learn from pairs of a preferred and a "
        "rejected answer.")
    orpo_lambda: float = _method(
        0.1, "Lambda", "Weight of the odds-ratio term: loss = nll + lambda x or.", applies=_ORPO,
        ge=0)
    sft_scope: Literal["full", "response"] = _method(
        "full", "NLL scope", "What ORPO's nll covers: the whole chosen sequence as in the paper "
        "and TRL, or the response only.", applies=_ORPO)
    dpo_beta: float = _method(
        0.1, "Beta", "How strongly DPO holds the policy to its reference; with `cpo` and `simpo`, "
        "which have none, how sharply answers are told apart. 2 is common for `simpo`.",
        applies=_DPO, gt=0)
    preference_loss: Literal["sigmoid", "robust", "hinge", "ipo", "cpo", "simpo"] = _method(
        "sigmoid", "Preference loss", "`sigmoid` is DPO itself, `robust` allows for labels that "
        "are wrong, `hinge` and `ipo` stop pushing once answers are far enough apart. `cpo` and "
        "`simpo` need no reference: `cpo` adds the nll of the chosen answer, `simpo` compares "
        "means over tokens.", advanced=True, applies=_DPO)
    label_smoothing: float = _method(
        0.0, "Label smoothing", "Share of the pairs whose labels are taken to be the wrong way "
        "round.", advanced=True, ge=0, lt=0.5,
        applies={**_DPO, "preference_loss": ("sigmoid", "robust", "cpo", "simpo")})
    cpo_alpha: float = _method(
        1.0, "CPO's nll", "Weight of the chosen answer's nll beside the preference.", ge=0,
        advanced=True, applies={**_DPO, "preference_loss": ("cpo",)})
    simpo_gamma: float = _method(
        0.5, "SimPO's margin", "How far apart the answers are to be, in units of the reward.",
        ge=0, advanced=True, applies={**_DPO, "preference_loss": ("simpo",)})
    dpo_reference: Literal["start", "base"] = _method(
        "start", "Reference", "DPO's reference: the model as training starts (with a warm start, "
        "that adapter), or the base model without an adapter.", advanced=True,
        applies={**_DPO, "preference_loss": ("sigmoid", "robust", "hinge", "ipo")})

    fine_tune_type: Literal["lora", "dora", "full"] = _lora(
        "lora", "Fine-tune type", "What is trained: a low-rank update of each layer, with `dora` "
        "also the length of each row of its weights, or with `full` all weights of a model that "
        "is not quantised. `full` needs several times the model's memory.", advanced=True)
    rank: int = _lora(
        16, "Rank", "Rank of the adapter matrices.", applies=_ADAPTER, ge=1, le=1024)
    scale: float = _lora(
        2.0, "Scale", "Multiplies the adapter's product B A directly. Alpha, as other tools call "
        "it, is scale x rank.", applies=_ADAPTER, gt=0)
    dropout: float = _lora(
        0.0, "Dropout", "Share of the adapter's inputs that are dropped while training.",
        advanced=True, applies=_ADAPTER, ge=0, lt=1)
    target_modules: ModuleNames = _lora(
        "auto", "Target modules", "Names of the linear layers to adapt, such as q_proj. `auto` "
        "takes every linear of a block except routers.", advanced=True, applies=_ADAPTER)
    num_layers: LayerCount = _lora(
        -1, "Layers", "Train the last n blocks. -1 means all, with `full` the embedding and the "
        "head too.", advanced=True, ge=-1)
    warm_start: OptionalText = _lora(
        None, "Warm start", "A folder of mlx-lm or PEFT with the adapter, or of Burnish with all "
        "the weights, that training starts from.", advanced=True, path=True)
    rank_scaling: Literal["constant", "by_bits", "by_kl"] = _lora(
        "constant", "Rank scaling", "Same rank everywhere, or more where a mixed quantisation "
        "keeps more bits: rank x bits / 4 with `by_bits`. `by_kl` goes by the sensitivities that "
        "the model's folder records, half to twice the rank, and by bits where it has none.",
        advanced=True, applies=_ADAPTER)
    rs_lora: bool = _lora(
        False, "rsLoRA", "Multiply B A by scale x the root of the rank, that is by alpha over the "
        "root of the rank, so that a higher rank does not weaken what each part of it adds.",
        advanced=True, applies=_ADAPTER)
    lora_plus_ratio: float = _lora(
        1.0, "LoRA+ ratio", "Learning rate of B over that of A. 16 is common; 1 trains both alike.",
        advanced=True, applies=_ADAPTER, gt=0, le=1000)

    iters: int | None = _schedule(
        None, "Steps", f"Number of optimiser updates. {DEFAULT_ITERS} if neither steps nor epochs "
        "are given.", unit="steps", ge=1)
    epochs: float | None = _schedule(
        None, "Epochs", "Passes over the training rows, instead of a number of steps.",
        advanced=True, gt=0)
    learning_rate: float | None = _schedule(
        None, "Learning rate", "Peak learning rate. If empty: 2e-4 for SFT, 1e-4 for ORPO, 5e-5 "
        "for DPO; with `full` 1e-5, 8e-6 and 1e-6.", gt=0, le=1)
    batch_size: int = _schedule(
        1, "Batch size", "Rows per micro-batch.", unit="rows", ge=1)
    grad_accumulation_steps: int = _schedule(
        1, "Accumulation", "Micro-batches per optimiser update. The gradient is exactly that of "
        "the one big batch.", ge=1)
    lr_schedule: Literal["constant", "linear", "cosine"] = _schedule(
        "cosine", "Schedule", "How the learning rate falls after warm-up.", advanced=True)
    warmup_steps: int = _schedule(
        0, "Warm-up", "Steps over which the learning rate rises to its peak.", unit="steps",
        advanced=True, ge=0)
    lr_floor: float = _schedule(
        0.1, "Final rate", "The last step's learning rate as a share of the peak.", advanced=True,
        applies={"lr_schedule": ("linear", "cosine")}, ge=0, le=1)
    optimizer: Literal["adamw", "adam", "sgd", "adafactor", "muon"] = _schedule(
        "adamw", "Optimiser", "All as torch has them. Adam is AdamW without decay, SGD has no "
        "momentum, Adafactor keeps the least state, and Muon leaves what is not a matrix to "
        "AdamW. Learning rates do not carry over from one to another.", advanced=True)
    weight_decay: float = _schedule(
        0.01, "Weight decay", "Every step shrinks what is trained by this times the learning rate.",
        advanced=True, applies={"optimizer": ("adamw", "sgd", "adafactor", "muon")}, ge=0)
    adam_betas: Betas = _schedule(
        (0.9, 0.999), "Adam betas", "Decay of the first and second moment.", advanced=True,
        applies=_ADAM)
    adam_eps: float = _schedule(
        1e-8, "Adam epsilon", "Added to the root of the second moment.", advanced=True,
        applies=_ADAM, gt=0)
    grad_clip: float = _schedule(
        1.0, "Gradient clip", "Largest global norm of the gradient. 0 turns clipping off.",
        advanced=True, ge=0)
    seed: int = _schedule(
        0, "Seed", "Seed of shuffling, initial weights and dropout.", advanced=True, ge=0, lt=2**32)
    best_metric: Literal["loss", "accuracy", "margin"] = _schedule(
        "loss", "Best by", "The validation metric that decides which checkpoint is best.",
        advanced=True)
    early_stop_patience: int = _schedule(
        0, "Patience", "Stop after this many validations without a new best. 0 turns it off.",
        unit="validations", advanced=True, ge=0)

    head: Literal["auto", "full", "chunked", "fused", "flash"] = _speed(
        "auto", "Head", "How log-probabilities are computed. `full` holds all logits, `chunked` "
        "and `fused` those of a chunk of tokens, `flash` those of a block of the vocabulary.")
    chunk_size: int = _speed(
        512, "Chunk size", "Tokens per chunk of the head.", unit="tokens",
        applies={"head": ("auto", "chunked", "fused", "flash")}, ge=1)
    segment_size: SegmentSize = _speed(
        "auto", "Segment size", "Layers per segment of the backward pass. 0 keeps the whole graph; "
        "small segments use the least memory.", unit="layers")
    prefix_sharing: Literal["auto", "on", "off"] = _speed(
        "auto", "Prefix sharing", "Run a pair's shared prompt once. With dropout the prompt then "
        "has one mask instead of two.", applies={"method": PREFERENCE})
    grad_checkpoint: bool = _speed(
        False, "Gradient checkpointing", "Keep the whole graph but recompute each layer in the "
        "backward pass, for less memory. Segments need less still, and prompts can be shared with "
        "them; this takes the rows of a batch side by side.", advanced=True,
        applies={"segment_size": ("auto", 0), "prefix_sharing": ("auto", "off")})
    attention: Literal["auto", "sdpa", "blocked"] = _speed(
        "auto", "Attention", "`sdpa` is MLX's own. `blocked` is exact too; its backward needs less "
        "memory where MLX's grows with the square of the length, and is slower.")
    isolation: Literal["thread", "process"] = _speed(
        "thread", "Isolation", "Where the app runs the engine. In a `process` of its own, a run "
        "that is killed or aborts leaves the app alive, and all memory is given back at its end.",
        advanced=True)

    output: OptionalText = _output(
        None, "Runs folder", "The folder in which run folders are made. If empty, `runs` in the "
        "user's data folder.", path=True)
    run_name: FolderName = _output(
        None, "Run name", "Name of the run folder. If empty, date, method and model.")
    resume: OptionalText = _output(
        None, "Resume", "A run folder whose training goes on from its last checkpoint, with its "
        "own options. Steps or epochs, `save_every` and `keep_checkpoints` may change.",
        path=True, form=False)
    steps_per_report: int = _output(
        1, "Report every", "Steps between two reports.", unit="steps", advanced=True, ge=1)
    steps_per_eval: int = _output(
        50, "Validate every", "Steps between two validations. Validation also runs at start and "
        "end. 0 means only then.", unit="steps", ge=0)
    sample_prompts: Prompts = _output(
        None, "Prompts", "Questions that the model answers at every validation, so that you can "
        "read what changes.", advanced=True)
    sample_tokens: int = _output(
        64, "Longest answer", "To those prompts.", unit="tokens", advanced=True, ge=1, le=4096)
    save_every: int = _output(
        100, "Save every", "Steps between two checkpoints, which are written at least every five "
        "minutes.", unit="steps", advanced=True, ge=1)
    keep_checkpoints: int = _output(
        3, "Keep checkpoints", "Periodic checkpoints that are kept. The best and the last are "
        "always kept.", advanced=True, ge=1)
    # fmt: on

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_not_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        if isinstance(value, bool) and bool not in kinds(field.annotation):
            raise ValueError(f"must be {allowed(field)}")
        return value

    @model_validator(mode="after")
    def _options_go_together(self) -> Self:
        broken = broken_rules(dict(self))
        if broken:
            text = "; ".join(f"{name}: {why}" for name, why in broken)
            raise PydanticCustomError("options", "{text}", {"text": text, "broken": broken})
        return self


def options() -> dict[str, Option]:
    """Field name -> metadata, in the order of the form."""
    return {name: option_of(field) for name, field in RunConfig.model_fields.items()}


def inapplicable(name: str, values: Mapping[str, Any]) -> str | None:
    """Why option `name` has no effect with these values, or None if it has one.

    An option that `values` lacks counts as having its default.
    """
    for other, wanted in (option_of(RunConfig.model_fields[name]).applies or {}).items():
        if values.get(other, RunConfig.model_fields[other].default) not in wanted:
            return f"only used when {other} is {' or '.join(map(str, wanted))}"
    return None


def without_inapplicable(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` without the options that have no effect, for a form that keeps them in grey."""
    return {
        k: v
        for k, v in values.items()
        if k not in RunConfig.model_fields or not inapplicable(k, values)
    }


def broken_rules(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Option and reason for each valid value that is refused beside another option."""
    broken: list[tuple[str, str]] = []
    for name, field in RunConfig.model_fields.items():
        value = values.get(name, field.default)
        if value not in (field.default, "off") and (why := inapplicable(name, values)):
            broken.append((name, why))
    if values.get("method", "sft") == "sft" and values.get("best_metric", "loss") != "loss":
        broken.append(("best_metric", "sft has no accuracy and no margin; its metric is loss"))
    if values.get("rs_lora") and values.get("warm_start"):
        broken.append(("rs_lora", "a warm start keeps the adapter's own multiplier"))
    if values.get("rank_scaling", "constant") != "constant" and values.get("warm_start"):
        broken.append(("rank_scaling", "a warm start keeps the adapter's own ranks"))
    if values.get("group_by_length") and values.get("batch_size", 1) == 1:
        broken.append(("group_by_length", "a batch of one row has nothing to group"))
    if values.get("group_by_length") and values.get("packing"):
        broken.append(("group_by_length", "packed rows have no padding"))
    if values.get("iters") is not None and values.get("epochs") is not None:
        broken.append(("epochs", "give either iters or epochs, not both"))
    return broken


def default_learning_rate(method: str, fine_tune_type: str) -> float:
    """The peak learning rate where none is given."""
    return (_FULL_RATES if fine_tune_type == "full" else _ADAPTER_RATES)[method]


def resolve(config: RunConfig) -> RunConfig:
    """`config` with a learning rate and a number of steps where none is given."""
    update: dict[str, Any] = {}
    if config.learning_rate is None:
        update["learning_rate"] = default_learning_rate(config.method, config.fine_tune_type)
    if config.iters is None and config.epochs is None:
        update["iters"] = DEFAULT_ITERS
    return config.model_copy(update=update)
