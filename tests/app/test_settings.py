import json
from pathlib import Path

import pytest

from app.settings import MOST_RECENT, Settings, SettingsStore


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    store = SettingsStore(tmp_path / "deep" / "settings.json")
    settings = Settings(theme="dark", smoothing=0.3, last_values={"model": "sample", "iters": None})
    settings.remember(tmp_path / "a.yaml")
    store.save(settings)
    assert store.load() == settings
    assert [path.name for path in store.path.parent.iterdir()] == ["settings.json"]


def test_the_first_start_has_defaults(tmp_path: Path) -> None:
    assert SettingsStore(tmp_path / "none.json").load() == Settings()


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", "\x00\xff"])
def test_a_broken_file_is_put_aside_and_defaults_are_used(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text, encoding="latin-1")
    assert SettingsStore(path).load() == Settings()
    assert (tmp_path / "settings.json.broken").read_text(encoding="latin-1") == text
    assert not path.exists()


def test_a_key_of_the_wrong_type_alone_is_reset(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    stored = {"theme": 5, "smoothing": 0, "recent": ["a", 7], "log_open": False, "from_later": 1}
    path.write_text(json.dumps(stored), encoding="utf-8")
    settings = SettingsStore(path).load()
    assert settings == Settings(smoothing=0.0, recent=["a"], log_open=False)


def test_recent_files_are_few_and_each_once(tmp_path: Path) -> None:
    settings = Settings()
    for number in range(12):
        settings.remember(tmp_path / f"{number}.yaml")
    settings.remember(tmp_path / "8.yaml")
    assert len(settings.recent) == MOST_RECENT
    assert settings.recent[0] == str(tmp_path / "8.yaml")
    assert len(set(settings.recent)) == MOST_RECENT


def test_a_folder_that_cannot_be_made_does_not_stop_the_app(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("x", encoding="utf-8")
    SettingsStore(blocker / "settings.json").save(Settings())
    assert "settings not saved" in caplog.text
