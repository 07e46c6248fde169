"""`generate` and `export` on a run made by `train`."""

import json
import shlex
import shutil

import pytest
from safetensors.numpy import load_file


@pytest.fixture
def run(burnish, config, tmp_path):
    ran = burnish("train", config, "--set", "run_name=a run", "--set", "learning_rate=0.05")
    assert ran.code == 0, ran.err
    return tmp_path / "runs" / "a run"


def ask(burnish, golden, *arguments):
    return burnish("generate", "--model", golden / "llama", "--raw", "--max-tokens", 12, *arguments)


def test_the_exported_adapter_answers_as_the_trained_one(burnish, golden, run, tmp_path):
    out = tmp_path / "out"
    exported = burnish("export", run, "--out", out)
    assert exported.code == 0, exported.err
    assert str(out) in exported.out
    held = {"adapters.safetensors", "adapter_config.json", "chat.json"}
    assert held == {p.name for p in out.iterdir()}
    trained = ask(burnish, golden, "--prompt", "The", "--adapter", run / "adapter")
    again = ask(burnish, golden, "--prompt", "The", "--adapter", out)
    plain = ask(burnish, golden, "--prompt", "The")
    assert trained.code == again.code == plain.code == 0
    assert trained.out == again.out
    assert trained.out != plain.out


def test_mlx_lm_itself_loads_the_export(burnish, golden, run, tmp_path):
    out = tmp_path / "out"
    assert burnish("export", run, "--out", out).code == 0
    from mlx_lm import load

    model, _ = load(str(golden / "llama"), adapter_path=str(out))
    names = dict(__import__("mlx.utils", fromlist=["x"]).tree_flatten(model.parameters()))
    for name, value in load_file(out / "adapters.safetensors").items():
        assert (value == names[name]).all()


def test_the_commands_that_train_names_work_as_they_stand(burnish, config, tmp_path):
    ran = burnish("train", config, "--set", "run_name=with space")
    lines = [line.partition(":  ")[2] for line in ran.out.splitlines()[-2:]]
    for line in lines:
        words = shlex.split(line)
        assert words[:3] == ["python", "-m", "trainer_core"]
        words = [str(tmp_path / "x") if word == "FOLDER" else word for word in words]
        extra = ["--raw", "--max-tokens", "3"] if "generate" in words else []
        assert burnish(*words[3:], *extra).code == 0


@pytest.mark.parametrize("case", ["no run", "not a run", "a file", "not empty", "into the run"])
def test_folders_that_cannot_be_used_are_code_2(burnish, run, tmp_path, case):
    source, out = run, tmp_path / "out"
    if case == "no run":
        source = tmp_path / "nothing"
    elif case == "not a run":
        source = tmp_path / "empty"
        source.mkdir()
    elif case == "a file":
        out.write_text("x")
    elif case == "not empty":
        out.mkdir()
        (out / "letter.txt").write_text("dear")
    else:
        out = run / "adapter"
    ran = burnish("export", source, "--out", out)
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert (run / "adapter" / "adapters.safetensors").exists()


def test_an_export_that_does_not_hold_is_a_fault_of_ours(environment, run, tmp_path):
    # Damage the copy between writing and reading it back, as a failing disk would.
    import subprocess
    import sys

    script = (
        "import sys, shutil, numpy as np\n"
        "from safetensors.numpy import load_file, save_file\n"
        "from trainer_core import backend; backend.prepare()\n"
        "real = shutil.copyfile\n"
        "def worn(a, b, **k):\n"
        "    real(a, b, **k)\n"
        "    save_file({n: v + np.float32(0.5) for n, v in load_file(b).items()}, b)\n"
        "shutil.copyfile = worn\n"
        "from trainer_core.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "export", str(run), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=100,
    )
    assert done.returncode == 1
    assert "does not behave like the trained one" in done.stderr
    assert "Traceback" not in done.stderr


def test_several_prompts_are_answered_under_their_text(burnish, golden):
    ran = ask(burnish, golden, "--prompt", "one", "--prompt", "two")
    assert [line for line in ran.out.splitlines() if line.startswith("> ")] == ["> one", "> two"]


def test_sampling_follows_its_seed(burnish, golden):
    answers = [
        ask(burnish, golden, "--prompt", "a", "--temperature", 2, "--seed", seed).out
        for seed in (1, 1, 2)
    ]
    assert answers[0] == answers[1] != answers[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--model", "/nowhere", "--prompt", "x"],
        ["--prompt", "x"],
        ["--model", "m"],
        ["--model", "m", "--prompt", "x", "--max-tokens", "0"],
        ["--model", "m", "--prompt", "x", "--temperature", "nan"],
    ],
)
def test_bad_input_is_code_2(burnish, arguments):
    ran = burnish("generate", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err


def test_an_adapter_of_another_model_is_code_2(burnish, golden, tmp_path):
    adapter = tmp_path / "adapter"
    shutil.copytree(golden / "gemma4" / "init_adapter", adapter)
    assert json.loads((adapter / "adapter_config.json").read_text())
    ran = ask(burnish, golden, "--prompt", "x", "--adapter", adapter)
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
