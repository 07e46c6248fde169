"""Chat templates that loop, fill the memory or write without end are found out and not used."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import psutil
import pytest

from tests.core.runs import GOLDEN
from trainer_core.config import RunConfig
from trainer_core.data import template_trial
from trainer_core.data.template_trial import try_out
from trainer_core.data.tokenizer import load_tokenizer
from trainer_core.errors import ModelError

CHATML = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
# Python's range is limited inside the sandbox; loops in loops are not.
FOREVER = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
    "{% endfor %}{% endfor %}{% endfor %}"
)


@pytest.fixture(autouse=True)
def unknown(dirs: Path) -> Path:
    """A machine on which no template was tried."""
    return dirs


def test_a_good_template_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    try_out(CHATML, {"bos_token": "<s>"})
    first = time.monotonic() - began
    monkeypatch.setattr(template_trial, "_problem", lambda *_: "it was tried again")
    try_out(CHATML, {"bos_token": "<s>"})
    assert first < 30
    with pytest.raises(ModelError, match="tried again"):
        try_out(CHATML, {"bos_token": "</s>"})


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (FOREVER, "it was not done after 3 seconds"),
        ("{{ 'ab' * (messages | length * 20000000) }}", "it writes millions of characters"),
        ("{{ ('ab' * 2000000000) | length }}", "code|memory|$"),
        ("{% for m in messages %}{{ 'x' * 3000000 }}{% endfor %}", "millions of characters"),
    ],
)
def test_a_hostile_template_is_ended(source: str, why: str) -> None:
    before = psutil.Process().memory_info().rss
    if why.endswith("$"):  # refused memory is a refusal like any other, and nothing was taken
        try_out(source, {})
    else:
        with pytest.raises(ModelError, match=why) as caught:
            try_out(source, {}, seconds=3 if "seconds" in why else 30)
        assert "the chat template is not used" in caught.value.what
    assert psutil.Process().memory_info().rss < before + 200_000_000
    assert not psutil.Process().children()


def test_a_model_with_a_hostile_template_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Path(shutil.copytree(GOLDEN / "llama", tmp_path / "model"))
    (model / "chat_template.jinja").write_text(FOREVER)
    monkeypatch.setattr(template_trial.try_out, "__kwdefaults__", {"seconds": 3.0})
    with pytest.raises(ModelError, match="not done after 3 seconds"):
        _ = load_tokenizer(model, RunConfig(model=str(model), data="d")).template
