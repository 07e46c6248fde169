"""The playground: what it says is what mlx-lm says, with the adapter and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.engine import small_policy
from trainer_core.control import Control, Question, SampleRequest
from trainer_core.errors import ModelError, TrainerError
from trainer_core.events import Event, Sample, SamplePiece, Stage
from trainer_core.generate import generate
from trainer_core.model.adapter_files import read_spec, write_adapter
from trainer_core.playground import Playground

PROMPTS = ("the cat", "ünï")


@pytest.fixture
def adapter(golden: Path, tmp_path: Path) -> Path:
    """An adapter that changes what the model says."""
    parameters = small_policy(golden / "llama").adapter.parameters()
    strong = {name: a * 8 if name.endswith("b") else a for name, a in parameters.items()}
    folder = tmp_path / "adapter"
    folder.mkdir()
    write_adapter(folder, strong, read_spec(golden / "llama" / "init_adapter", 4), {})
    (folder / "chat.json").write_text(
        '{"prompt_format": "raw", "system_prompt": null, "template_kwargs": {}}'
    )
    return folder


def ask(
    playground: Playground, model: Path, adapter: Path | None, request: SampleRequest
) -> list[Event]:
    events: list[Event] = []
    playground.ask(Question(str(model), adapter, request), events.append, Control())
    return events


def said(model: Path, adapter: Path | None, **how: float) -> list[str]:
    """What `generate`, which is compared with mlx-lm elsewhere, says to the prompts."""
    answers = generate(str(model), PROMPTS, adapter=adapter, max_tokens=8, raw=True, **how)  # type: ignore[arg-type]
    return [answer.text for answer in answers]


def test_base_and_adapter_answer_side_by_side(golden: Path, adapter: Path) -> None:
    model = golden / "llama"
    request = SampleRequest(PROMPTS, 8, beside_base=True, streamed=True)
    events = ask(Playground(), model, adapter, request)
    samples = [event for event in events if isinstance(event, Sample)]
    assert [(s.prompt, s.base) for s in samples] == [
        (prompt, base) for prompt in PROMPTS for base in (True, None)
    ]
    base, tuned = said(model, None), said(model, adapter)
    assert base != tuned
    assert [s.text for s in samples if s.base] == base
    assert [s.text for s in samples if not s.base] == tuned
    assert all(s.tokens and s.seconds for s in samples)


def test_the_pieces_of_an_answer_are_its_text(golden: Path, adapter: Path) -> None:
    request = SampleRequest(("the cat",), 8, beside_base=True, streamed=True)
    events = ask(Playground(), golden / "llama", adapter, request)
    for base in (True, None):
        whole = next(e.text for e in events if isinstance(e, Sample) and e.base is base)
        pieces = [e.text for e in events if isinstance(e, SamplePiece) and e.base is base]
        assert "".join(pieces) == whole
        assert len(pieces) > 1


def test_both_sides_draw_from_the_same_seed(golden: Path, adapter: Path) -> None:
    model = golden / "llama"
    request = SampleRequest(PROMPTS, 8, temperature=2.0, seed=5, beside_base=True)
    samples = [e for e in ask(Playground(), model, adapter, request) if isinstance(e, Sample)]
    how = {"temperature": 2.0, "seed": 5}
    assert [s.text for s in samples if s.base] == said(model, None, **how)
    assert [s.text for s in samples if not s.base] == said(model, adapter, **how)


def test_a_model_stays_loaded_until_it_is_given_back(golden: Path, adapter: Path) -> None:
    playground, request = Playground(), SampleRequest(("the cat",), 2)

    def loads(folder: Path | None) -> bool:
        events = ask(playground, golden / "llama", folder, request)
        return any(isinstance(event, Stage) for event in events)

    assert loads(adapter)
    assert not loads(adapter)
    assert loads(None)
    playground.release()
    assert loads(None)


def test_an_adapter_that_was_written_anew_is_read_anew(golden: Path, adapter: Path) -> None:
    playground, request = Playground(), SampleRequest(("the cat",), 8)
    before = ask(playground, golden / "llama", adapter, request)
    other = small_policy(golden / "llama").adapter.parameters()
    write_adapter(
        adapter,
        {name: a * -20 for name, a in other.items()},
        read_spec(golden / "llama" / "init_adapter", 4),
        {},
    )
    after = ask(playground, golden / "llama", adapter, request)
    assert before[-1] != after[-1]


def test_hush_ends_the_answer_in_hand(golden: Path, adapter: Path) -> None:
    control = Control()
    events: list[Event] = []

    def emit(event: Event) -> None:
        events.append(event)
        if isinstance(event, SamplePiece):
            control.hush()

    request = SampleRequest(PROMPTS, 8, beside_base=True, streamed=True)
    Playground().ask(Question(str(golden / "llama"), adapter, request), emit, control)
    kinds = [type(event) for event in events if not isinstance(event, Stage)]
    assert kinds == [SamplePiece, Sample]


def test_what_cannot_be_asked_is_told(golden: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no adapter in"):
        ask(Playground(), golden / "llama", tmp_path / "gone", SampleRequest(("a",), 2))
    with pytest.raises(TrainerError, match="the prompt is empty"):
        ask(Playground(), golden / "llama", None, SampleRequest(("",), 2))


def test_fully_trained_weights_are_set_beside_the_base_model(golden: Path, tmp_path: Path) -> None:
    from trainer_core.model.adapter_files import AdapterSpec
    from trainer_core.model.full import FullWeights
    from trainer_core.model.load import load_model

    model = golden / "llama"
    weights = FullWeights(load_model(model, "float32").model).parameters()
    strong = {name: a * 1.5 for name, a in weights.items()}
    folder = tmp_path / "full"
    folder.mkdir()
    write_adapter(folder, strong, AdapterSpec(0, 0.0, 0.0, (), -1, "full"), {})
    request = SampleRequest(PROMPTS, 8, beside_base=True)
    samples = [e for e in ask(Playground(), model, folder, request) if isinstance(e, Sample)]
    taught = [list(generate(str(model), PROMPTS, adapter=f, max_tokens=8)) for f in (None, folder)]
    assert [s.text for s in samples if s.base] == [answer.text for answer in taught[0]]
    assert [s.text for s in samples if not s.base] == [answer.text for answer in taught[1]]
