"""A task run by mlx-lm's or mlx-lm-lora's own trainer, on the same ids, weights and adapter.

Their `train` functions run as they are, with one report a step. DPO gets a second model as its
reference, as mlx-lm-lora's command line gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.callbacks import TrainingCallback
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model

from tests.bench.equal import adapter_values, loaded_bytes, save_gradients
from tests.bench.task import LEARNING_RATE, RANK, SCALE, TARGETS, Result, Row, Task, load_rows

BETA = 0.1

Gradients = Mapping[str, mx.array]


def run(task: Task, scratch: Path) -> Result:
    """Measure whole steps of the package's own `train`.

    Args:
        task: for mlx-lm or mlx-lm-lora.
        scratch: where `train` leaves its adapter.
    """
    rows = load_rows(Path(task.rows))
    model = _with_adapter(Path(task.model))
    reference = _loaded(Path(task.model)) if task.method == "dpo" else None
    if task.gradients:
        gradients = _sft(model, rows) if task.method == "sft" else _pairs(model, reference, rows)
        mx.eval(gradients)
        save_gradients(Path(task.gradients), gradients)
        del gradients
    watch = _Watch(task, Result([], loaded_bytes(), 0, 0.0))
    optimiser = optim.AdamW(learning_rate=LEARNING_RATE, weight_decay=0.0, bias_correction=True)
    longest = max(len(row.chosen) for row in rows)
    common: dict[str, Any] = {
        "batch_size": len(rows),
        "iters": task.warm_ups + task.steps,
        "steps_per_report": 1,
        "steps_per_save": 1_000_000,
        "max_seq_length": longest,
        "adapter_file": str(scratch / "adapters.safetensors"),
        "grad_checkpoint": bool(task.options.get("grad_checkpoint")),
    }
    with _where_metal_is_taken_for_granted():
        if task.method == "sft":
            from mlx_lm.tuner.trainer import TrainingArgs, train

            data = [(row.chosen.tolist(), 0) for row in rows]
            args = TrainingArgs(**common)
            train(model, optimiser, data, None, args, training_callback=watch)
        elif task.method == "orpo":
            from mlx_lm_lora.trainer.orpo_trainer import ORPOTrainingArgs, train_orpo

            orpo = ORPOTrainingArgs(beta=BETA, **common)
            data = [_pair(row) for row in rows]
            train_orpo(model, optimiser, data, args=orpo, training_callback=watch)
        else:
            from mlx_lm_lora.trainer.dpo_trainer import DPOTrainingArgs, train_dpo

            dpo = DPOTrainingArgs(beta=BETA, **common)
            data = [_pair(row) for row in rows]
            train_dpo(model, reference, optimiser, data, args=dpo, training_callback=watch)
    watch.result.peak = mx.get_peak_memory()
    return watch.result


class _Watch(TrainingCallback):
    """Takes the times and the first loss from the trainer's reports."""

    def __init__(self, task: Task, result: Result) -> None:
        self.result = result
        self._task = task

    def on_train_loss_report(self, train_info: dict[str, Any]) -> None:
        """Called after every step."""
        step, seconds = train_info["iteration"], 1 / train_info["iterations_per_second"]
        if step == 1:
            self.result.loss = train_info["train_loss"]
        if step > self._task.warm_ups:
            self.result.seconds.append(seconds)
        print(f"step {step}: {seconds:.3f} s, loss {train_info['train_loss']:.4f}", flush=True)


def _loaded(folder: Path) -> nn.Module:
    model, _ = load_model(folder)
    model.freeze()
    return model


def _with_adapter(folder: Path) -> nn.Module:
    model = _loaded(folder)
    layers: Any = model.layers
    shape = {"rank": RANK, "scale": SCALE, "dropout": 0.0, "keys": TARGETS}
    linear_to_lora_layers(model, len(layers), shape)
    flat: Any = tree_flatten(model.trainable_parameters())
    values = adapter_values(dict(flat))
    model.update(tree_unflatten(list(values.items())))
    model.train()
    return model


def _sft(model: nn.Module, rows: list[Row]) -> Gradients:
    """mlx-lm's loss without the padding token that its batches train."""
    from mlx_lm.tuner.trainer import default_loss

    width = max(len(row.chosen) for row in rows)
    ids, lengths = np.zeros((len(rows), width), np.int32), []
    for place, row in zip(ids, rows, strict=True):
        place[: len(row.chosen)] = row.chosen
        lengths.append((0, len(row.chosen) - 1))
    both = nn.value_and_grad(model, lambda m, *batch: default_loss(m, *batch)[0])
    return _flat(both(model, mx.array(ids), mx.array(lengths)))


def _pairs(model: nn.Module, reference: nn.Module | None, rows: list[Row]) -> Gradients:
    if reference is None:
        from mlx_lm_lora.trainer.orpo_trainer import iterate_orpo_batches, orpo_loss_from_model

        def loss(model: nn.Module, *batch: mx.array) -> mx.array:
            return orpo_loss_from_model(model, *batch, beta=BETA)[0]

        batches: Callable[..., Iterator[Any]] = iterate_orpo_batches
    else:
        from mlx_lm_lora.trainer.dpo_trainer import dpo_loss, get_token_scores, iterate_dpo_batches

        def loss(model: nn.Module, *batch: mx.array) -> mx.array:
            sides = list(zip(batch[:2], batch[2:], strict=True))
            own = [get_token_scores(model, ids, mask).sum(-1) for ids, mask in sides]
            others = [get_token_scores(reference, ids, mask).sum(-1) for ids, mask in sides]
            others = [mx.stop_gradient(other) for other in others]
            return dpo_loss(*own, *others, *batch[2:], beta=BETA, delta=50.0)[0]

        batches = iterate_dpo_batches
    longest = max(len(row.chosen) for row in rows)
    batch = next(batches([_pair(row) for row in rows], len(rows), longest))
    return _flat(nn.value_and_grad(model, loss)(model, *batch))


def _pair(row: Row) -> dict[str, Any]:
    assert row.rejected is not None, "the method takes pairs"
    return {
        "chosen": row.chosen.tolist(),
        "rejected": row.rejected.tolist(),
        "chosen_prompt_length": row.prompt,
        "rejected_prompt_length": row.prompt,
    }


def _flat(found: tuple[mx.array, Any]) -> Gradients:
    flat: Any = tree_flatten(found[1])
    return dict(flat)


@contextmanager
def _where_metal_is_taken_for_granted() -> Iterator[None]:
    """mlx-lm-lora asks for Metal's memory limit on every device; others do not have it."""
    if mx.metal.is_available():
        yield
        return
    core: Any = mx
    info, limit = mx.device_info, mx.set_wired_limit
    core.device_info = lambda *args: {"max_recommended_working_set_size": 0, **info(*args)}
    core.set_wired_limit = lambda size: size
    try:
        yield
    finally:
        core.device_info, core.set_wired_limit = info, limit
