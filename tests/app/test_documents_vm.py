from pathlib import Path

import pytest

from app.settings import Settings
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.documents_vm import DocumentsViewModel
from trainer_core.config_io import load_config
from trainer_core.errors import ConfigError

pytestmark = pytest.mark.gui


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.yaml"
    path.write_text("model: sample\ndata: sample\nmethod: orpo\niters: 60\n", encoding="utf-8")
    return path


def documents(sample: Path, settings: Settings) -> tuple[DocumentsViewModel, ConfigViewModel]:
    form = ConfigViewModel()
    return DocumentsViewModel(form, settings, sample), form


def test_the_first_start_shows_the_sample(sample: Path) -> None:
    vm, form = documents(sample, Settings())
    vm.restore()
    assert (vm.name, form.values["method"], form.values["iters"]) == ("sample", "orpo", 60)


def test_the_form_comes_back_as_it_was_left(sample: Path) -> None:
    settings = Settings()
    vm, form = documents(sample, settings)
    vm.restore()
    form.set_value("rank", "nonsense")
    form.set_value("orpo_lambda", 0.25)
    vm.keep()
    again, second = documents(sample, settings)
    again.restore()
    assert second.values == form.values
    assert second.values["rank"] == "nonsense"


def test_keys_of_another_version_are_left_out(sample: Path) -> None:
    vm, form = documents(sample, Settings(last_values={"gone": 1, "rank": 4}))
    vm.restore()
    assert form.values["rank"] == 4


def test_opening_a_file_names_it_and_remembers_it(sample: Path, tmp_path: Path) -> None:
    other = tmp_path / "terse.yaml"
    other.write_text("model: sample\ndata: sample\nrank: 4\n", encoding="utf-8")
    settings = Settings()
    vm, form = documents(sample, settings)
    vm.restore()
    vm.open(other)
    assert (vm.name, form.values["rank"], vm.recent) == ("terse", 4, [other])
    other.unlink()
    assert vm.recent == []


def test_a_file_that_cannot_be_is_refused_and_the_form_stays(sample: Path, tmp_path: Path) -> None:
    other = tmp_path / "bad.yaml"
    other.write_text("model: sample\ndata: sample\nrankk: 4\n", encoding="utf-8")
    vm, form = documents(sample, Settings())
    vm.restore()
    with pytest.raises(ConfigError, match="rank"):
        vm.open(other)
    assert (vm.name, form.values["method"]) == ("sample", "orpo")


def test_a_saved_file_opens_as_the_same_run(sample: Path, tmp_path: Path) -> None:
    vm, form = documents(sample, Settings())
    vm.restore()
    vm.save(tmp_path / "mine.yaml")
    assert vm.name == "mine"
    assert load_config(tmp_path / "mine.yaml") == form.config()


def test_a_form_with_problems_or_a_missing_folder_is_not_saved(
    sample: Path, tmp_path: Path
) -> None:
    vm, form = documents(sample, Settings())
    vm.restore()
    with pytest.raises(ConfigError, match="cannot be written"):
        vm.save(tmp_path / "no" / "mine.yaml")
    form.set_value("rank", "x")
    with pytest.raises(ConfigError, match="cannot be saved"):
        vm.save(tmp_path / "mine.yaml")
    assert not (tmp_path / "mine.yaml").exists()
