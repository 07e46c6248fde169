"""`check`: the data and the plan as JSON and as tables, without training."""

import json

import pytest
from tokenizers import Tokenizer

KEYS = {
    "rows",
    "rows_used",
    "rows_skipped",
    "rows_truncated",
    "supervised_tokens",
    "problems",
    "plan",
}


def report(ran) -> dict:
    return json.loads(ran.out)


def test_json_has_the_documented_keys_and_true_counts(burnish, config, golden, tmp_path):
    ran = burnish("check", config, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = report(ran)
    assert set(found) >= KEYS
    assert (found["rows"], found["rows_used"], found["rows_skipped"]) == (12, 12, 0)
    assert found["problems"] == []
    # Counted by the tokenizers library; every answer of the file has its end token.
    tokens = Tokenizer.from_file(str(golden / "llama" / "tokenizer.json"))
    rows = (golden / "llama" / "preference.jsonl").read_text().splitlines()
    answers = [json.loads(row)[key] for row in rows for key in ("chosen", "rejected")]
    lengths = [len(tokens.encode(text, add_special_tokens=False).ids) for text in answers]
    assert found["supervised_tokens"] == sum(lengths)
    assert not (tmp_path / "runs").exists()


def test_the_plan_is_what_would_run(burnish, config, golden, tmp_path):
    sets = ("--set", "batch_size=2", "--set", "grad_accumulation_steps=2", "--set", "iters=null")
    plan = report(burnish("check", config, "--json", *sets, "--set", "epochs=2"))["plan"]
    assert plan["steps"] == 6  # 12 rows, 4 a step, twice
    assert (plan["rows_per_step"], plan["epochs"]) == (4, 2.0)
    assert plan["model"] == str((golden / "llama").resolve())
    assert plan["output"] == str(tmp_path / "runs")
    assert "auto" not in (plan["config"]["head"], plan["config"]["weights"])
    assert plan["memory_bytes"] > (golden / "llama" / "model.safetensors").stat().st_size


def test_memory_comes_by_part_with_advice_and_is_measured_if_asked(burnish, config):
    found = report(burnish("check", config, "--json", "--probe", "--set", "segment_size=0"))
    plan = found["plan"]
    assert sum(plan["memory_parts"].values()) == plan["memory_bytes"]
    totals = [plan["memory_bytes"], *(each["total"] for each in plan["memory_advice"])]
    assert totals == sorted(totals, reverse=True)
    assert 0 < found["probe"]["peak_bytes"] <= plan["memory_bytes"]
    assert found["probe"]["seconds"] > 0
    text = burnish("check", config, "--probe").out
    for said in ("estimated peak", "measured in two steps", "weights", "free"):
        assert said in text


def test_rows_too_long_are_counted(burnish, config):
    found = report(burnish("check", config, "--json", "--set", "max_seq_length=40"))
    assert found["rows_truncated"] > 0
    assert found["longest"] == 40


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    good = '{"prompt": "a", "chosen": "b", "rejected": "c"}\n'
    path.write_text(good + "nonsense\n" + '{"prompt": "a"}\n' + good)
    return path


def test_all_problems_are_listed_where_train_would_refuse(burnish, config, rows):
    ran = burnish("check", config, "--json", "--set", f"data={rows}")
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    found = report(ran)
    assert (found["rows"], found["rows_used"], found["rows_skipped"]) == (4, 2, 2)
    assert [(p["file"], p["line"]) for p in found["problems"]] == [(str(rows), 2), (str(rows), 3)]
    assert all(p["what"] and p["hint"] for p in found["problems"])


def test_bad_rows_may_be_skipped(burnish, config, rows):
    ran = burnish("check", config, "--json", "--set", f"data={rows}", "--set", "bad_rows=skip")
    assert (ran.code, ran.err) == (0, "")
    assert report(ran)["rows_skipped"] == 2


@pytest.mark.parametrize("content", [None, "", '{"prompt": "a", "completion": "b"}\n', "x\ny\n"])
def test_data_without_a_usable_row_still_gives_a_report(burnish, config, tmp_path, content):
    path = tmp_path / "data.jsonl"
    if content is not None:
        path.write_text(content)
    ran = burnish("check", config, "--json", "--set", f"data={path}")
    assert ran.code == 2
    assert "Traceback" not in ran.err
    found = report(ran)
    assert set(found) >= KEYS
    assert found["rows_used"] == 0
    assert found["problems"]
    assert found["plan"] is None


def test_a_bad_option_is_code_2_and_prints_nothing(burnish, config):
    ran = burnish("check", config, "--json", "--set", "rank=0")
    assert (ran.code, ran.out) == (2, "")
    assert "rank = 0" in ran.err


def test_people_get_tables(burnish, config, rows):
    ran = burnish("check", config, "--set", f"data={rows}")
    for part in ("Data", "Tokens in a sequence", "Plan", "ORPO", "Problems (2)", "rows.jsonl"):
        assert part in ran.out
    assert "\x1b" not in ran.out


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["fine_tune_type=full"], "all weights"),
        (["fine_tune_type=full", "num_layers=1"], "all weights of the last 1 blocks"),
        (["fine_tune_type=dora", "rank=3"], "DoRA of rank 3, scale 2, every linear"),
    ],
)
def test_it_says_what_is_trained(burnish, golden, settings, says):
    llama = golden / "llama"
    sets = [f"model={llama}", f"data={llama / 'preference.jsonl'}", "prompt_format=raw", *settings]
    ran = burnish("check", *(part for item in sets for part in ("--set", item)))
    assert ran.code == 0, ran.err
    assert says in ran.out
