"""CSV and TSV as spreadsheets, databases and pandas write them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer_core.data.readers import read_rows_of
from trainer_core.data.types import Problem, Row
from trainer_core.errors import DataError


def read(tmp_path: Path, content: str | bytes, name: str = "rows.csv") -> list[Row | Problem]:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_rows_of(path))


def rows(items: list[Row | Problem]) -> list[tuple[int, dict[str, Any]]]:
    return [(item.source.line, item.values) for item in items if isinstance(item, Row)]


def problems(items: list[Row | Problem]) -> list[Problem]:
    return [item for item in items if isinstance(item, Problem)]


TWO = [{"prompt": "a", "completion": "b"}, {"prompt": "c, d", "completion": "e"}]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('prompt,completion\na,b\n"c, d",e\n', "rows.csv"),
        ('prompt;completion\na;b\n"c, d";e\n', "rows.csv"),
        ("prompt\tcompletion\na\tb\nc, d\te\n", "rows.tsv"),
        ("prompt\tcompletion\na\tb\nc, d\te\n", "rows.csv"),
        ("prompt|completion\na|b\nc, d|e\n", "rows.csv"),
        ("'prompt','completion'\n'a','b'\n'c, d','e'\n", "rows.csv"),
        ('"prompt","completion"\r\n"a","b"\r\n"c, d","e"\r\n', "rows.csv"),
        ('prompt,completion\ra,b\r"c, d",e\r', "rows.csv"),
        ('prompt,completion\na,b\n"c, d",e', "rows.csv"),
        (',prompt,completion\n0,a,b\n1,"c, d",e\n', "rows.csv"),
        ('prompt,completion\na,b\n\n"c, d",e\n,\n', "rows"),
    ],
    ids=[
        *("comma", "semicolon", "tab", "tab in csv", "bar", "single quotes", "all quoted, CRLF"),
        *("CR alone", "no last line break", "index column of pandas", "no name, empty lines"),
    ],
)
def test_delimiters_and_quotes(tmp_path: Path, content: str, name: str) -> None:
    items = read(tmp_path, content, name)
    assert not problems(items)
    assert [value for _, value in rows(items)] == TWO


def test_quotes_that_a_backslash_escapes(tmp_path: Path) -> None:
    text = 'prompt,completion\n"say \\"hi\\", please","hi"\n"a","b \\"c\\""\n'
    assert [value for _, value in rows(read(tmp_path, text))] == [
        {"prompt": 'say "hi", please', "completion": "hi"},
        {"prompt": "a", "completion": 'b "c"'},
    ]


def test_tabs_with_quotes_that_are_text(tmp_path: Path) -> None:
    text = 'prompt\tcompletion\n"Well, he said\tno\nwhat is "x"?\ta "word"\n'
    assert [value for _, value in rows(read(tmp_path, text, "rows.tsv"))] == [
        {"prompt": '"Well, he said', "completion": "no"},
        {"prompt": 'what is "x"?', "completion": 'a "word"'},
    ]


def test_commas_in_long_texts_do_not_hide_semicolons(tmp_path: Path) -> None:
    body = "".join(f"one, two, three {i};well, yes, no\n" for i in range(30))
    found = rows(read(tmp_path, "question;answer\n" + body))
    assert len(found) == 30
    assert found[0][1] == {"question": "one, two, three 0", "answer": "well, yes, no"}


def test_one_column(tmp_path: Path) -> None:
    assert rows(read(tmp_path, "text\nhello, you\n\nbye\n")) == [
        (2, {"text": "hello, you"}),
        (4, {"text": "bye"}),
    ]


def test_lines_are_counted_through_quoted_line_breaks(tmp_path: Path) -> None:
    text = 'prompt,completion\n"a\nb\nc",d\ne,f\n"g\r\nh",i\nj\n'
    items = read(tmp_path, text)
    assert [line for line, _ in rows(items)] == [2, 5, 6]
    (problem,) = problems(items)
    assert problem.line == 8
    assert "1 fields and the first line 2" in problem.what
    assert "comma" in problem.hint


@pytest.mark.parametrize(
    "bad", ['"never closed,x', '"closed" too early,x', '"one, two'], ids=["open", "text", "wide"]
)
def test_a_broken_quote_costs_its_own_row(tmp_path: Path, bad: str) -> None:
    good = "".join(f'"question {i}, please","answer {i}"\n' for i in range(20))
    items = read(tmp_path, f"prompt,completion\n{good}{bad}\n{good}")
    assert len(rows(items)) == 40
    assert [problem.line for problem in problems(items)] == [22]
    assert rows(items)[20][0] == 23


def test_hopeless_quotes_end_in_time(tmp_path: Path) -> None:
    items = read(tmp_path, "prompt,completion\n" + '"a" b,c,"d\n' * 300)
    assert problems(items)[-1].what == "the rest of the file cannot be read"


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    items = read(tmp_path, b"prompt,completion\na,b\ncaf\xe9,c\n")
    assert len(rows(items)) == 1
    assert "0xe9" in problems(items)[0].what


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("prompt,prompt\na,b\n", "two columns are called prompt"),
        (f"{'long ' * 40},b\na,b\n", "does not name the columns"),
        (",,\na,b,c\n", "no rows"),
        ("prompt,completion\n", "no rows"),
    ],
)
def test_headers_that_cannot_be_used(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(tmp_path, content)


@pytest.mark.parametrize("write", [json.dumps, repr])
def test_messages_in_a_cell(tmp_path: Path, write: Any) -> None:
    turns = [{"role": "user", "content": 'a "b", it\'s'}, {"role": "assistant", "content": "c"}]
    made = io.StringIO()
    csv.writer(made).writerows([["messages", "n"], [write(turns), "1"], ["[1] a note", "[{x"]])
    assert [value for _, value in rows(read(tmp_path, made.getvalue()))] == [
        {"messages": turns, "n": "1"},
        {"messages": "[1] a note", "n": "[{x"},
    ]


def test_a_field_longer_than_csv_takes_by_default(tmp_path: Path) -> None:
    text = "x" * 300_000
    assert rows(read(tmp_path, f"text,n\n{text},1\n"))[0][1]["text"] == text


CELL = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12
) | st.sampled_from(['"', "a,b", "a;b", "x\ny", "\t", "'", 'say "hi"', "\\", '\\"'])


@given(
    cells=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    ending=st.sampled_from(["\n", "\r\n"]),
)
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_csv_writes_is_read_back(
    tmp_path: Path,
    cells: list[tuple[str, str]],
    delimiter: str,
    quoting: Any,
    ending: str,
) -> None:
    made = io.StringIO(newline="")
    writer = csv.writer(made, delimiter=delimiter, quoting=quoting, lineterminator=ending)
    writer.writerow(["prompt", "completion"])
    writer.writerows(cells)
    content = made.getvalue().encode()
    kept = [cell for cell in cells if any(cell)]
    if not kept:
        return
    items = read(tmp_path, content)
    assert not problems(items)
    assert [(v["prompt"], v["completion"]) for _, v in rows(items)] == kept
