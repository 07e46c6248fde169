"""The models on this machine: where they are found, what is said of them, and taking one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.reading.models import ModelInfo, describe, hub_cache
from app.settings import Settings
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.models_vm import ModelsViewModel, parameters_text
from app.views.models_page import ModelsPage, _verdict

pytestmark = pytest.mark.gui


def copy_model(golden: Path, to: Path, **config: object) -> Path:
    """The small llama of the goldens, with changes to its config.json."""
    shutil.copytree(
        golden / "llama", to, ignore=shutil.ignore_patterns("final*", "init*", "golden*", "*.jsonl")
    )
    if config:
        file = to / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **config}))
    return to


@pytest.fixture
def hub(dirs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return dirs / ".cache" / "huggingface" / "hub"


@pytest.fixture
def page(qtbot: QtBot, qapp: QApplication, golden: Path, hub: Path) -> Iterator[ModelsPage]:
    repo = hub / "models--org--small-llama"
    copy_model(golden, repo / "snapshots" / "old")
    copy_model(golden, repo / "snapshots" / "new", vocab_size=1)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("old")
    studio = Path("~/.lmstudio/models/maker").expanduser()
    (studio / "only-gguf").mkdir(parents=True)
    (studio / "only-gguf" / "model.gguf").write_bytes(b"GGUF")
    form = ConfigViewModel()
    form.set_value("model", "sample")
    vm = ModelsViewModel(form, Settings())
    form.setParent(vm)
    made = ModelsPage(vm)
    qtbot.addWidget(made)
    made.resize(900, 600)
    made.show()
    qtbot.waitUntil(lambda: vm.models is not None)
    yield made
    vm.close()


def titles(page: ModelsPage) -> list[str]:
    table = page._vm.table
    return [table.data(table.index(i, 0)) for i in range(table.rowCount())]


def test_the_sample_the_cache_and_lm_studio_are_listed(page: ModelsPage) -> None:
    assert titles(page) == ["SmolLM2-135M-Instruct (sample)", "only-gguf", "org/small-llama"]


def test_a_cached_model_is_the_revision_that_main_names(page: ModelsPage) -> None:
    model = next(m for m in page._vm.models or () if m.name == "org/small-llama")
    assert model.folder.name == "old"
    assert (model.family, model.precision, model.problem) == ("llama", "float32", "")
    weights = sum(p.stat().st_size for p in model.folder.iterdir() if p.is_file())
    assert model.size == weights
    assert model.parameters * 4 < model.size


def test_a_model_is_taken_into_the_form(qtbot: QtBot, page: ModelsPage) -> None:
    page.table.selectRow(2)
    assert "llama" in page.facts.text()
    assert page.problem.text() == "Can be trained. All fast paths apply."
    qtbot.mouseClick(page.buttons["use"], Qt.MouseButton.LeftButton)
    assert page._vm.chosen == "org/small-llama"
    assert page.problem.text() == "The form has this model. All fast paths apply."
    assert not page.buttons["use"].isEnabled()


@pytest.mark.parametrize(
    ("family", "told"),
    [
        ("gpt2", "Fast paths apply, but for packing into one row."),
        ("qwen3_next", "Fast paths apply, but for shared prompts and packing into one row."),
        ("plamo", "Which fast paths apply is checked when a run begins."),
    ],
)
def test_what_a_family_lacks_is_told(
    golden: Path, tmp_path: Path, page: ModelsPage, family: str, told: str
) -> None:
    folder = copy_model(golden, tmp_path / "m", model_type=family)
    model = describe(ModelInfo("m", "m", "here", folder))
    assert _verdict(model, "").endswith(told)


def test_what_cannot_be_trained_says_why(page: ModelsPage) -> None:
    page.table.selectRow(1)
    assert (
        page.problem.text() == "It holds GGUF files only. Use the safetensors version of the model."
    )
    assert not page.buttons["use"].isEnabled()


def test_a_folder_is_added_and_kept(
    qtbot: QtBot, page: ModelsPage, golden: Path, tmp_path: Path
) -> None:
    copy_model(golden, tmp_path / "mine" / "deep" / "llama-x")
    page._vm.add(tmp_path / "mine")
    qtbot.waitUntil(lambda: "llama-x" in titles(page))
    assert page._vm._settings.model_folders == [str(tmp_path / "mine")]
    page.search.setText("ADDED llama")
    assert titles(page) == ["llama-x"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "unheard_of"}, "mlx-lm has no family unheard_of"),
        ({"model_type": "base"}, "mlx-lm has no family base"),
        ({"model_type": ""}, "names no model_type"),
        ({"model_file": "modeling.py"}, "brings its own program code"),
        ({"model_type": "mistral"}, ""),
    ],
)
def test_reasons(golden: Path, tmp_path: Path, config: dict[str, object], said: str) -> None:
    folder = copy_model(golden, tmp_path / "m", **config)
    problem = describe(ModelInfo("m", "m", "here", folder)).problem
    assert said in problem
    assert bool(problem) is bool(said)


def test_a_folder_without_tokenizer_or_weights(golden: Path, tmp_path: Path) -> None:
    bare = copy_model(golden, tmp_path / "bare")
    for file in bare.glob("tokenizer*"):
        file.unlink()
    assert describe(ModelInfo("m", "m", "", bare)).problem == "it has no tokenizer"
    (bare / "model.safetensors").unlink()
    assert "no model*.safetensors" in describe(ModelInfo("m", "m", "", bare)).problem
    (bare / "config.json").write_text("[")
    assert "not valid JSON" in describe(ModelInfo("m", "m", "", bare)).problem


def test_quantisation_licence_and_context(golden: Path, tmp_path: Path) -> None:
    folder = copy_model(
        golden, tmp_path / "q", quantization={"bits": 4}, max_position_embeddings=8192
    )
    (folder / "README.md").write_text("---\ntags: [x]\nlicense: apache-2.0\n---\n# Hi\n")
    found = describe(ModelInfo("q", "q", "", folder))
    assert (found.precision, found.licence, found.context) == ("4 bit", "apache-2.0", 8192)


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"HF_HUB_CACHE": "/a/b", "HF_HOME": "/c"}, "/a/b"),
        ({"HF_HOME": "/c"}, "/c/hub"),
        ({"XDG_CACHE_HOME": "/d"}, "/d/huggingface/hub"),
    ],
)
def test_the_cache_is_where_its_variables_say(
    hub: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert hub_cache() == Path(wanted)


@pytest.mark.parametrize(
    ("n", "text"), [(0, ""), (45_000, "45 k"), (134_515_008, "135 M"), (7_240_000_000, "7.2 B")]
)
def test_parameters_in_words(n: int, text: str) -> None:
    assert parameters_text(n) == text
