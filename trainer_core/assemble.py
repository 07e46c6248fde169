"""Put a run's parts together: model, adapter, head, objective, rows, run folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer_core import backend, memory
from trainer_core.backward.autograd import checkpointed_graph, whole_graph
from trainer_core.backward.choose import Backward
from trainer_core.backward.compiled import CompiledRanges
from trainer_core.backward.compiled_graph import CompiledGraph
from trainer_core.backward.layer_ranges import EagerRanges
from trainer_core.backward.segmented import Segmented
from trainer_core.checkpoint import Keeper
from trainer_core.config import RunConfig
from trainer_core.data.chat import chat_files
from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.data.types import Dataset
from trainer_core.data.updates import updates
from trainer_core.events import Event, Warned
from trainer_core.fallback import fit_to_model, head_kind, refused
from trainer_core.heads.flash import VocabularyBlocks
from trainer_core.heads.head import Head
from trainer_core.job import Job
from trainer_core.model.answers import Answering
from trainer_core.model.load import is_half
from trainer_core.model.open_policy import AdaptedModel, open_for_training
from trainer_core.objectives.objective import Objective, make_objective
from trainer_core.plan import Plan
from trainer_core.policy import Policy
from trainer_core.row_losses import RowLossLog
from trainer_core.runfolder import RunFolder

Tell = Callable[[Event], None]

# On a GPU: lengths come in multiples of this many tokens. CUDA has a fused attention backward for
# such lengths only, and few lengths are then new to MLX's compiler and to the attention library.
_BUCKET = 128
# How many layer ranges the host is ahead of a GPU.
_AHEAD = 1


def assemble(
    plan: Plan,
    folder: Path,
    dataset: Dataset,
    tokenizer: ChatTokenizer,
    run: RunFolder,
    tell: Tell,
) -> Job:
    """Everything the loop works with.

    Args:
        plan: resolved but for what only the model knows.
        folder: the model's folder.
        dataset: tokenised rows.
        tokenizer: the model's.
        run: where adapters go.
        tell: told of warnings and progress.

    Raises:
        TrainerError: model, adapter or options do not fit.
    """
    opened = open_for_training(folder, plan.config)
    config, fallbacks = fit_to_model(plan, opened)
    for warning in [*_warnings(opened), *fallbacks]:
        tell(warning)
    device = backend.device()
    longest = memory.longest_of([*dataset.train, *dataset.valid], config)
    needs = memory.estimate(folder, config, longest, device.kind)
    backend.hold_to(device, needs.weights(config.weights), needs.total(config.weights))
    objective = make_objective(config)
    stack = opened.checked.stack
    on_gpu = device.kind != "cpu"
    policy = Policy(
        stack,
        opened.adapter,
        Head(
            head_kind(config.head),
            stack.project,
            config.chunk_size,
            VocabularyBlocks(stack.project_block, opened.checked.vocabulary),
            ahead=_AHEAD if on_gpu else 0,
        ),
        share_prefix=config.prefix_sharing == "on",
        dropout_seed=config.seed,
        bucket=_BUCKET if on_gpu else 1,
        joined=on_gpu and opened.checked.joins and not config.dropout,
        pack_tokens=config.max_seq_length if config.packing else 0,
        # A GPU's compiled functions would be new for every packed row, and MLX differentiates a
        # checkpointed layer when what tells it of the sequences is no longer in force.
        packs=opened.checked.packs and not on_gpu and not config.grad_checkpoint,
    )
    train = [objective.score(example) for example in dataset.train]
    valid = [objective.score(example) for example in dataset.valid]
    if config.val_rows:
        valid = valid[: config.val_rows]
    if config.early_stop_patience and not valid:
        raise refused(config, "early_stop_patience", "there are no validation rows")
    windows, total = updates(config, dataset.train)

    return Job(
        config=config,
        policy=policy,
        objective=objective,
        backward=_backward(config, objective, on_gpu),
        train=train,
        valid=valid,
        valid_skipped=dataset.valid_rows_skipped,
        windows=windows,
        total=total,
        keeper=Keeper(
            run,
            opened.adapter,
            opened.spec,
            _facts(config, folder),
            config.keep_checkpoints,
            chat_files(tokenizer.template_source, config),
        ),
        row_log=RowLossLog(run.row_losses, [row.example.source for row in valid]),
        answering=Answering(
            opened.model, tokenizer, opened.adapter, base=opened.spec.kind != "full"
        ),
    )


def _backward(config: RunConfig, objective: Objective, on_gpu: bool) -> Backward:
    if config.grad_checkpoint:
        return checkpointed_graph
    size = config.segment_size
    # Dropout draws new masks in every step, and a compiled function would repeat its first ones.
    compiles = on_gpu and not config.dropout  # compiling does not speed up a CPU
    if not isinstance(size, int) or size == 0:
        by_chunks = config.head != "full"
        return CompiledGraph() if compiles and by_chunks and objective.linear else whole_graph
    ranges = CompiledRanges() if compiles else EagerRanges()
    return Segmented(size, ranges, _AHEAD if on_gpu else 0)


def _warnings(opened: AdaptedModel) -> list[Warned]:
    found = list(opened.warnings)
    if is_half(opened.model):
        found.append(
            Warned(
                "float16",
                "the weights are float16, whose range is small for training",
                "use weights: bfloat16 or float32",
            )
        )
    return found


def _facts(config: RunConfig, folder: Path) -> dict[str, Any]:
    """What adapter_config.json says besides the shape; mlx-lm and people read it."""
    return {
        "model": config.model if config.model != "sample" else folder.name,
        "method": config.method,
        "prompt_format": config.prompt_format,
    }
