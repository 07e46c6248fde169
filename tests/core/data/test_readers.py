from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer_core.data.json_stream import JsonStream
from trainer_core.data.readers import read_rows_of
from trainer_core.data.types import Problem, Row
from trainer_core.errors import DataError


def read(path: Path, content: bytes | str) -> list[Row | Problem]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_rows_of(path))


def rows(items: list[Row | Problem]) -> list[tuple[int, object]]:
    return [(item.source.line, item.values) for item in items if isinstance(item, Row)]


def problems(items: list[Row | Problem]) -> list[Problem]:
    return [item for item in items if isinstance(item, Problem)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1}\n{"a": 2}\n',
        b'{"a": 1}\n{"a": 2}',
        b'{"a": 1}\r\n{"a": 2}\r\n',
        b'\xef\xbb\xbf{"a": 1}\n{"a": 2}\n',
        b'{"a": 1}\n\xef\xbb\xbf{"a": 2}\n',
    ],
    ids=["plain", "no final newline", "CRLF", "BOM", "BOM of a file that was appended"],
)
def test_json_lines(file: Path, content: bytes) -> None:
    assert rows(read(file, content)) == [(1, {"a": 1}), (2, {"a": 2})]


def test_blank_lines_count_but_are_not_rows(file: Path) -> None:
    assert rows(read(file, b'\n{"a": 1}\n  \n\r\n{"a": 2}\n\n')) == [(2, {"a": 1}), (5, {"a": 2})]


def test_lines_of_a_pretty_printed_array(file: Path) -> None:
    values = [{"a": 1, "b": [1, 2]}, {"a": "x\ny"}, {"c": {"d": None}}]
    text = json.dumps(values, indent=2)
    found = rows(read(file, text))
    assert [value for _, value in found] == values
    lines = text.split("\n")
    assert [number for number, _ in found] == [
        i + 1 for i, line in enumerate(lines) if line == "  {"
    ]


@pytest.mark.parametrize("indent", [None, 0, 4])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_arrays_of_any_layout(file: Path, indent: int | None, ending: str) -> None:
    values = [{"messages": [{"role": "user", "content": f"q{i} }} ] , {{"}]} for i in range(5)]
    text = "\n \n" + json.dumps(values, indent=indent).replace("\n", ending) + ending
    assert [value for _, value in rows(read(file, text))] == values


def test_objects_one_after_the_other(file: Path) -> None:
    text = "\n".join(json.dumps({"a": i}, indent=1) for i in range(3))
    assert rows(read(file, text)) == [(1, {"a": 0}), (4, {"a": 1}), (7, {"a": 2})]


def test_array_across_chunks(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_core.data.json_stream._CHUNK", 7)
    values = [{"text": "é" * 40 + '"\\', "n": 12345678}, {"text": "b"}]
    found = rows(read(file, json.dumps(values, indent=1, ensure_ascii=False)))
    assert found == [(2, values[0]), (6, values[1])]


def test_a_broken_line_costs_only_itself(file: Path) -> None:
    items = read(file, '{"a": 1}\n{"a": 2\n{"a": 3}\n')
    assert rows(items) == [(1, {"a": 1}), (3, {"a": 3})]
    (problem,) = problems(items)
    assert (problem.line, problem.file) == (2, str(file))
    assert "not valid JSON" in problem.what
    assert problem.hint


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('{"a": 1},', "comma at the end"),
        ('{"a": 1} {"a": 2}', "line of its own"),
        ("{'a': 1}", "double quotes"),
        ('{"a": "x" y"}', "quote"),
        ('{"a": 1,}', "comma before the closing brace"),
        ('{"a": "\\x"}', "backslash"),
        ('{"a": "x', "cut short"),
        ('{"a": "\t"}', "tab"),
    ],
)
def test_hints_fit_the_mistake(file: Path, line: str, hint: str) -> None:
    (problem,) = problems(read(file, '{"ok": 1}\n' + line + "\n"))
    assert problem.line == 2
    assert hint in problem.hint


@pytest.mark.parametrize(
    "broken",
    [
        '{"text": "no end}',
        '{"text": "a "quoted" word"}',
        '{"text": "x",}',
        '{"text" "x"}',
        '{"messages": [{"role": "user", "content": "a "b" c"}, {"role": "assistant"}]}',
    ],
)
@pytest.mark.parametrize("indent", [0, 2])
def test_a_broken_element_of_an_array_costs_only_itself(
    file: Path, broken: str, indent: int
) -> None:
    pad = " " * indent
    good = [json.dumps({"text": f"row {i}"}) for i in range(3)]
    lines = ["[", f"{pad}{good[0]},", f"{pad}{broken},", f"{pad}{good[1]},", f"{pad}{good[2]}", "]"]
    items = read(file, "\n".join(lines))
    assert [line for line, _ in rows(items)] == [2, 4, 5]
    assert problems(items)[0].line == 3


def test_a_broken_element_of_a_pretty_printed_array(file: Path) -> None:
    values = [{"conversations": [{"from": "human", "value": f"question {i}"}]} for i in range(4)]
    text = json.dumps(values, indent=0).replace('"question 1"', '"question "1"', 1)
    items = read(file, text)
    assert [value for _, value in rows(items)] == [values[0], values[2], values[3]]
    (problem,) = problems(items)
    start = text[: text.index('"question "1"')].count("\n") + 1
    assert f"line {start}" in problem.what


@pytest.mark.parametrize("text", ['[\n{"a": 1}\n{"a": 2}\n]', '[\n{"a": 1},,\n{"a": 2},\n]'])
def test_commas_that_are_missing_or_too_many_cost_nothing(file: Path, text: str) -> None:
    items = read(file, text)
    assert [line for line, _ in rows(items)] == [2, 3]
    assert not problems(items)


def test_a_cut_array_keeps_what_is_whole(file: Path) -> None:
    items = read(file, '[\n{"a": 1},\n{"a": 2},\n{"a": "thr')
    assert [line for line, _ in rows(items)] == [2, 3]
    (problem,) = problems(items)
    assert problem.line == 4
    assert "ends in the middle" in problem.what


def test_an_array_that_is_not_closed(file: Path) -> None:
    items = read(file, '[\n{"a": 1}\n')
    assert len(rows(items)) == 1
    assert "not closed" in problems(items)[0].what


@pytest.mark.parametrize(
    ("row", "kind"), [("[1]", "a list"), ("3", "a number"), ('"x"', "text"), ("null", "null")]
)
def test_a_row_that_is_no_object(file: Path, row: str, kind: str) -> None:
    (problem,) = problems(read(file, '{"a": 1}\n' + row + "\n"))
    assert problem.line == 2
    assert kind in problem.what


def test_deep_nesting(file: Path) -> None:
    items = read(file, '{"a": ' + "[" * 100_000 + "]" * 100_000 + '}\n{"a": 1}\n')
    assert rows(items) == [(2, {"a": 1})]
    assert "nested too deeply" in problems(items)[0].what


def test_a_number_longer_than_python_reads(file: Path) -> None:
    items = read(file, '{"a": ' + "9" * 5000 + '}\n{"a": 1}\n')
    assert rows(items) == [(2, {"a": 1})]
    assert "number" in problems(items)[0].what


def test_latin_1_is_a_problem_of_its_line(file: Path) -> None:
    items = read(file, '{"a": "caf\xe9"}\n'.encode("latin-1") + b'{"a": 1}\n')
    assert rows(items) == [(2, {"a": 1})]
    assert "0xe9" in problems(items)[0].what
    assert "UTF-8" in problems(items)[0].hint


def test_latin_1_inside_an_array(file: Path) -> None:
    items = read(file, b'[\n{"a": 1},\n' + '{"a": "caf\xe9"},\n{"a": 2}]'.encode("latin-1"))
    assert [line for line, _ in rows(items)] == [2, 4]
    (problem,) = problems(items)
    assert problem.line == 3
    assert "0xe9" in problem.what


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        ('{"a": 1}'.encode("utf-16-le"), "UTF-16"),
        (b'{"a": "x\x00y"}\n', "not a text file"),
        (b"PAR1\x15\x04", "Parquet"),
        (b"\x1f\x8b\x08\x00", "damaged archive"),
        (b"\x28\xb5\x2f\xfd\x00", "zstd"),
        (b"prompt,completion\nhi,there\n", "no JSON"),
        (b"[]", "no rows"),
    ],
)
def test_files_that_cannot_be_read_at_all(file: Path, content: bytes, said: str) -> None:
    with pytest.raises(DataError) as raised:
        read(file, content)
    assert said in str(raised.value)
    assert str(file) in raised.value.what
    assert raised.value.try_this


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=3), min_size=1, max_size=6)
RELAXED = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(values=OBJECTS, indent=st.sampled_from([None, 0, 1, 4]), array=st.booleans())
@RELAXED
def test_every_object_comes_back_in_order(
    tmp_path: Path, values: list[dict[str, object]], indent: int | None, array: bool
) -> None:
    text = (
        json.dumps(values, indent=indent)
        if array
        else "".join(json.dumps(v, ensure_ascii=False) + "\n" for v in values)
    )
    items = read(tmp_path / "x.jsonl", text.encode("utf-8", "surrogatepass"))
    assert not problems(items)
    assert [value for _, value in rows(items)] == values


@given(content=st.binary(max_size=200) | st.text('[]{}":,\\ \na1', max_size=80).map(str.encode))
@RELAXED
def test_readers_raise_nothing_but_data_errors(tmp_path: Path, content: bytes) -> None:
    try:
        items = read(tmp_path / "x.jsonl", content)
    except DataError:
        return
    assert items
    last = content.count(b"\n") + 1
    for item in items:
        assert 1 <= (item.line if isinstance(item, Problem) else item.source.line) <= last


@given(values=OBJECTS, cut=st.integers(0, 10_000), insert=st.text('"{}[],\n', max_size=3))
@RELAXED
def test_damaged_arrays_end_in_problems_not_in_exceptions(
    tmp_path: Path, values: list[dict[str, object]], cut: int, insert: str
) -> None:
    text = json.dumps(values, indent=1)
    place = cut % len(text)
    try:
        read(tmp_path / "x.json", text[:place] + insert + text[place + 1 :])
    except DataError:
        return


def test_stream_reads_ahead_by_one_chunk_only(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    path.write_text("[" + ",\n".join(json.dumps({"text": "x" * 1000}) for _ in range(4000)) + "]")
    with path.open("rb") as file:
        stream = iter(JsonStream("big", file, array=True))
        next(stream)
        assert file.tell() <= 2 << 20
