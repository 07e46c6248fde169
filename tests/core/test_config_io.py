"""Reading configurations: every way in, and errors that a person can act on."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trainer_core.config import RunConfig
from trainer_core.config_io import (
    ConfigErrors,
    dump_yaml,
    load_config,
    parse_override,
    problems,
)
from trainer_core.errors import ConfigError

BASE = {"model": "m", "data": "d"}


def write(folder: Path, text: str, name: str = "run.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path, overrides=()) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return caught.value


def test_yaml_numbers_words_and_lists(tmp_path):
    path = write(
        tmp_path,
        "schema_version: 1\nmodel: m\ndata: d\nmethod: orpo\nlearning_rate: 1e-5\n"
        "prefix_sharing: off\nshuffle: no\nadam_betas: [0.8, 0.99]\nseed: 010\n"
        "target_modules:\n- q_proj\n- v_proj\nscale: 1.\nweight_decay: .5\n",
    )
    config = load_config(path)
    assert config.learning_rate == 1e-5
    assert config.prefix_sharing == "off"
    assert config.shuffle is False
    assert config.adam_betas == (0.8, 0.99)
    assert config.seed == 10  # not octal
    assert config.target_modules == ["q_proj", "v_proj"]
    assert (config.scale, config.weight_decay) == (1.0, 0.5)


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_bytes(b"\xef\xbb\xbfmodel: m\r\ndata: d\r\nrank: 4\r\n")
    assert load_config(path).rank == 4


def test_json(tmp_path):
    path = write(tmp_path, json.dumps(BASE | {"rank": 4, "epochs": 1.5}), "run.json")
    assert load_config(path) == RunConfig(model="m", data="d", rank=4, epochs=1.5)


def test_overrides_win_and_suffice(tmp_path):
    path = write(tmp_path, "model: m\ndata: d\nrank: 4\n")
    assert load_config(path, ["rank=8"]).rank == 8
    assert load_config(path, {"rank": 8}).rank == 8
    assert load_config(None, ["model=m", "data=d", "rank=1", "rank=2"]).rank == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("rank=8", 8),
        ("learning_rate=1e-5", 1e-5),
        ("learning_rate=null", None),
        ("epochs=", None),
        ("shuffle=off", "off"),  # read as a boolean by the model
        ("prefix_sharing=on", "on"),
        ("segment_size=auto", "auto"),
        ("segment_size=4", 4),
        ("target_modules=auto", "auto"),
        ("target_modules=q_proj", ["q_proj"]),
        ("target_modules=q_proj, v_proj", ["q_proj", "v_proj"]),
        ("target_modules=[q_proj, v_proj]", ["q_proj", "v_proj"]),
        ("adam_betas=0.8,0.99", [0.8, 0.99]),
        ("run_name=2024", "2024"),
        ("run_name=a=b", "a=b"),
        ("model=1e5", "1e5"),
        ("warm_start=none", None),
        (" rank = 8 ", 8),
    ],
)
def test_set_is_read_as_the_options_type(text, value):
    assert parse_override(text)[1] == value


@pytest.mark.parametrize("text", ["rank", "=3", "rank=[", "rank={a"])
def test_a_set_that_cannot_be_read_is_an_error(text):
    with pytest.raises(ConfigError):
        parse_override(text)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("rank: 0", ["rank = 0", "from 1 to 1024"]),
        ("rank: many", ["rank = many", "a whole number from 1 to 1024"]),
        ("rank: 2.5", ["rank = 2.5"]),
        ("rank: true", ["rank = true"]),
        ("rank: [1]", ["rank = [1]"]),
        ("rank: null", ["rank = null"]),
        ("method: ppo", ["method = ppo", "sft, dpo or orpo"]),
        ("lerning_rate: 1", ["lerning_rate = 1", "no option", "learning_rate"]),
        ("zzz: 1", ["zzz = 1", "The nearest one is"]),
        ("isolation: box", ["isolation = box", "thread or process"]),
        ("orpo_lambda: 0.5", ["orpo_lambda = 0.5", "only used when method is orpo"]),
        ("shuffle: perhaps", ["shuffle = perhaps", "true or false"]),
        ("adam_betas: [0.9]", ["adam_betas = [0.9]"]),
        ("adam_betas: [0.9, 2]", ["adam_betas = [0.9, 2]", "less than 1"]),
        ("run_name: a/b", ["run_name = a/b", "folder name"]),
        ("scale: .inf", ["scale = inf"]),
        ("lora_alpha: 32", ["lora_alpha = 32", "alpha / rank"]),
        ("schema_version: 9", ["schema_version = 9", "schema_version 1"]),
    ],
)
def test_an_error_names_place_option_value_and_what_is_allowed(tmp_path, line, parts):
    error = refusal(write(tmp_path, f"model: m\ndata: d\n{line}\n"))
    text = str(error)
    for part in ["run.yaml, line 3", *parts]:
        assert part in text
    assert error.key == line.split(":")[0]
    assert "pydantic" not in text
    assert "\n" not in text


def test_several_errors_are_listed_at_once(tmp_path):
    path = write(tmp_path, "model: m\nrank: 0\nisolation: box\niters: 1\nepochs: 2\nmethd: sft\n")
    error = refusal(path, ["scale=-1"])
    assert isinstance(error, ConfigErrors)
    assert {e.key for e in error.errors} == {
        "data",
        "rank",
        "isolation",
        "epochs",
        "methd",
        "scale",
    }
    text = str(error)
    assert "6 options cannot be used" in text
    assert "run.yaml, line 2: rank = 0" in text
    assert "  scale = -1" in text  # not from the file


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("model: a\nmodel: b\n", "line 2: not valid YAML: the key `model` stands twice"),
        ("model: [a\n", "not valid YAML"),
        ("model: !!python/object/apply:os.system [ls]\n", "not valid YAML"),
        ("? [a, b]\n: c\n", "not valid YAML"),
        ("- model\n", "has no options"),
        ("", "it is empty"),
        ("[" * 5000, "nested too deeply"),
        ("model: \x07\n", "not valid YAML"),
    ],
)
def test_a_damaged_yaml_file_is_one_sentence(tmp_path, text, part):
    said = str(refusal(write(tmp_path, text)))
    assert part in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"model": "a", "model": "b"}', "the key `model` stands twice"),
        ('{"model": "a",}', "line 1: not valid JSON"),
        ("[]", "has no options"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_damaged_json_file_is_one_sentence(tmp_path, text, part):
    assert part in str(refusal(write(tmp_path, text, "run.json")))


def test_files_that_are_no_configuration(tmp_path):
    assert "No such file" in str(refusal(tmp_path / "none.yaml"))
    assert "directory" in str(refusal(tmp_path))
    (tmp_path / "latin.yaml").write_bytes(b"model: \xe9\n")
    assert "not UTF-8" in str(refusal(tmp_path / "latin.yaml"))
    assert "data file" in str(refusal(write(tmp_path, "x" * 1_000_001)))


def test_an_alias_is_refused_before_it_can_blow_up(tmp_path):
    lines = ["model: m", "data: d", "a0: &a0 [x, x]"]
    lines += [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)]
    assert "line 4: not valid YAML: an alias" in str(refusal(write(tmp_path, "\n".join(lines))))


def test_paths_are_found_beside_the_file_then_in_the_working_folder(tmp_path, monkeypatch):
    beside, here = tmp_path / "beside", tmp_path / "here"
    for folder in (beside, here):
        folder.mkdir()
        (folder / "rows.jsonl").touch()
    (here / "valid.jsonl").touch()
    path = write(
        beside, "model: org/name\ndata: rows.jsonl\nvalid_data: valid.jsonl\noutput: out\n"
    )
    monkeypatch.chdir(here)
    config = load_config(path)
    assert config.data == str(beside / "rows.jsonl")
    assert config.valid_data == str(here / "valid.jsonl")
    assert (config.model, config.output) == ("org/name", "out")
    assert load_config(path, ["data=rows.jsonl"]).data == str(here / "rows.jsonl")
    monkeypatch.chdir(tmp_path)
    assert load_config(Path("beside/run.yaml")).data == str(beside / "rows.jsonl")


def test_sample_is_a_name_even_beside_a_folder_of_that_name(tmp_path):
    (tmp_path / "sample").mkdir()
    config = load_config(write(tmp_path, "model: sample\ndata: sample\n"))
    assert (config.model, config.data) == ("sample", "sample")


def test_a_tilde_is_the_home_folder(dirs):
    assert load_config(None, ["model=~/m", "data=d"]).model == str(dirs / "m")


def test_problems_of_a_form():
    assert problems(BASE) == []
    assert [e.key for e in problems({"model": "m"})] == ["data"]
    assert [e.key for e in problems(BASE | {"rank": "", "batch_size": "x"})] == [
        "rank",
        "batch_size",
    ]
    found = problems(BASE | {"rank": 0, "dpo_beta": 0.5})
    assert {e.key for e in found} == {"rank", "dpo_beta"}  # a rule is checked beside a bad value


def test_problems_leaves_its_argument_alone():
    values = BASE | {"schema_version": 1, "nonsense": 2}
    problems(values)
    assert values == BASE | {"schema_version": 1, "nonsense": 2}


def test_a_dump_reads_back_and_shows_every_option(tmp_path):
    config = RunConfig(
        model="m", data="d", method="orpo", target_modules=["q_proj"], run_name="1e5"
    )
    text = dump_yaml(config)
    assert text.startswith("schema_version: 1\n")
    assert set(yaml.safe_load(text)) == {"schema_version", *RunConfig.model_fields}
    assert load_config(write(tmp_path, text)) == config


_words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    str.strip
)
_tricky = st.sampled_from(
    ["on", "null", "1e5", "1_0", "0x1f", "2024-01-01", "~", "- a", "a: b", "#", "1:30"]
)


@given(
    model=_words | _tricky,
    rate=st.floats(1e-12, 1),
    modules=st.lists(_words | _tricky, min_size=1, max_size=3),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_configuration_survives_the_file(tmp_path_factory, model, rate, modules, seed):
    config = RunConfig(model=model, data="d", learning_rate=rate, target_modules=modules, seed=seed)
    folder = tmp_path_factory.mktemp("dump")
    read = load_config(write(folder, dump_yaml(config)))
    assert read.model_copy(update={"model": model}) == config
    assert read.model == model or Path(read.model).exists() or model.startswith("~")


@pytest.mark.parametrize(
    "text",
    [
        "{prompt: question, chosen: good}",
        "prompt: question, chosen: good",
        "{prompt:question,chosen:good}",
    ],
)
def test_a_mapping_after_set(text):
    made = load_config(None, ["model=m", "data=d", f"columns={text}"])
    assert made.columns == {"prompt": "question", "chosen": "good"}


def test_a_mapping_that_is_none():
    with pytest.raises(ConfigError, match="columns"):
        load_config(None, ["model=m", "data=d", "columns=question"])
