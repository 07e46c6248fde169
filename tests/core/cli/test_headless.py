"""The whole job without a screen, on a small model."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from trainer_core.cli.headless import compared, main
from trainer_core.cli.questions import Question


def test_answers_stand_side_by_side_with_their_length_and_facts() -> None:
    asked = [Question("Gold?", ("Au",)), Question("Paris?", ("France",)), Question("Why?")]
    before = ["It is\nAu, which is known to all", "France", "a b"]
    after = ["Au", "Spain", "c"]
    text = "\n".join(compared(asked, before, after))
    assert "? Gold?\n  before: It is Au, which is known to all\n  after:  Au" in text
    assert "Mean answer: 4 words before, 1 after." in text  # (8 + 1 + 2) / 3 and 1
    assert "Facts right: 2 of 2 before, 1 after." in text
    assert compared([], [], []) == []
    assert "Facts" not in "\n".join(compared(asked[2:], before[2:], after[2:]))


def settings(golden: Path, output: Path) -> dict[str, object]:
    return {
        "model": str(golden / "llama"),
        "data": str(golden / "llama" / "preference.jsonl"),
        "method": "orpo",
        "prompt_format": "raw",
        "valid_fraction": 0.25,
        "iters": 3,
        "output": str(output),
        "run_name": "r",
    }


def test_it_trains_exports_verifies_and_asks_again(
    golden: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump(settings(golden, tmp_path / "runs")))
    assert main([str(config), "--questions", "2", "--out", str(tmp_path / "out")]) == 0
    text = capfd.readouterr().out
    assert "Verified in" in text
    assert text.count("  before: ") == text.count("  after:  ") == 2
    assert (tmp_path / "out" / "adapters.safetensors").is_file()
    assert (tmp_path / "out" / "adapter_config.json").is_file()
    assert (tmp_path / "runs" / "r" / "adapter").is_dir()


def test_a_mistake_ends_with_a_sentence_and_code_2(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["--set", f"data={tmp_path / 'nothing'}"]) == 2
    captured = capfd.readouterr()
    assert "nothing" in captured.err
    assert "Traceback" not in captured.err
