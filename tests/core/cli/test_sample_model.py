"""`sample-model` prints the folder of a model that loads, last on standard output."""

import json
from pathlib import Path

import pytest


@pytest.mark.long
def test_the_path_comes_last_and_is_a_model_folder(burnish, dirs):
    ran = burnish("sample-model")
    assert ran.code == 0, ran.err
    folder = Path(ran.out.splitlines()[-1])
    assert dirs in folder.parents
    assert json.loads((folder / "config.json").read_text())["model_type"] == "llama"
    again = burnish("sample-model")
    assert again.out.splitlines()[-1] == str(folder)
