"""Archives and encodings: the rows come out the same, and what unpacks without end is refused."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer_core.data import unpack
from trainer_core.data.files import DataFile, find_files
from trainer_core.data.readers import read_rows_of
from trainer_core.data.types import Problem, Row
from trainer_core.errors import DataError

TEXT = '{"text": "Grüße 🦊"}\n{"text": "zwei"}\n'
VALUES = [{"text": "Grüße 🦊"}, {"text": "zwei"}]


def values(path: Path) -> list[object]:
    found: list[object] = []
    for file in find_files(path).train:
        for item in read_rows_of(file):
            assert isinstance(item, Row), item
            found.append(item.values)
    return found


def zipped(**members: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return held.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("packing", ["plain", "gzip", "zip", "gzip in zip"])
@pytest.mark.parametrize("layout", ["lines", "array", "table"])
def test_every_packing_of_every_encoding(
    tmp_path: Path, encoding: str, packing: str, layout: str
) -> None:
    text = {
        "lines": TEXT,
        "array": json.dumps(VALUES, indent=1, ensure_ascii=False),
        "table": "text\nGrüße 🦊\nzwei\n",
    }[layout]
    name = {"lines": "jsonl", "array": "json", "table": "csv"}[layout]
    plain = text.encode(encoding)
    content = {
        "plain": plain,
        "gzip": gzip.compress(plain),
        "zip": zipped(**{f"rows_{name}": plain}),
        "gzip in zip": zipped(**{f"rows_{name}_gz": gzip.compress(plain)}),
    }[packing]
    path = tmp_path / f"rows.{name}{'.gz' if packing == 'gzip' else ''}"
    path.write_bytes(content)
    assert values(path) == VALUES


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_big_and_little_endian(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(mark + TEXT.encode("utf-16-le" if mark == b"\xff\xfe" else "utf-16-be"))
    assert values(path) == VALUES


def test_a_lone_surrogate_in_utf_16_spoils_its_own_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    text = '{"text": "a"}\n{"text": "\ud800"}\n{"text": "b"}\n'
    path.write_bytes(b"\xff\xfe" + text.encode("utf-16-le", "surrogatepass"))
    items = list(read_rows_of(path))
    assert [isinstance(item, Row) for item in items] == [True, False, True]


def test_utf_16_that_is_cut_inside_a_character(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(TEXT.encode("utf-16")[:-1])
    items = list(read_rows_of(path))
    assert isinstance(items[0], Row)
    assert isinstance(items[-1], Problem)


@pytest.mark.parametrize("packing", ["gzip", "zip"])
def test_a_bomb_is_refused(tmp_path: Path, packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "_ROOM", 1 << 20)
    bomb = b'{"text": "' + b"a" * (8 << 20) + b'"}\n'
    path = tmp_path / "rows.jsonl"
    path.write_bytes(gzip.compress(bomb) if packing == "gzip" else zipped(rows_jsonl=bomb))
    with pytest.raises(DataError, match="more than 100 times its size") as raised:
        values(path)
    assert "unpack it" in raised.value.try_this


def test_text_that_packs_well_is_no_bomb(tmp_path: Path) -> None:
    rows = [{"text": "the same text again"}] * 20_000
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    assert len(values(path)) == 20_000


@pytest.mark.parametrize("packing", ["gzip", "zip"])
def test_a_damaged_archive(tmp_path: Path, packing: str) -> None:
    rows = "".join(json.dumps({"text": f"row {i * 7919}"}) + "\n" for i in range(3000)).encode()
    content = bytearray(gzip.compress(rows) if packing == "gzip" else zipped(rows_jsonl=rows))
    middle = len(content) // 2
    content[middle : middle + 20] = b"x" * 20
    path = tmp_path / "rows.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged archive"):
        values(path)


def test_a_locked_archive(tmp_path: Path) -> None:
    path = tmp_path / "rows.zip"
    content = bytearray(zipped(rows_jsonl=TEXT.encode()))
    # The flag of encryption, in the member's own header and in the table at the end.
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="locked by a password"):
        values(path)


@given(content=st.binary(max_size=120), start=st.sampled_from([b"\x1f\x8b", b"PK\x03\x04", b""]))
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes_are_rows_problems_or_one_error(
    tmp_path: Path, content: bytes, start: bytes
) -> None:
    path = tmp_path / "rows"
    path.write_bytes(start + content)
    try:
        assert [item for file in find_files(path).train for item in read_rows_of(file)]
    except DataError:
        return


def test_the_name_of_a_member_is_in_its_problems(tmp_path: Path) -> None:
    path = tmp_path / "rows.zip"
    path.write_bytes(zipped(rows_jsonl=b'{"text": 1}\n{"text"\n'))
    (file,) = find_files(path).train
    assert file == DataFile(path, "rows.jsonl")
    problem = list(read_rows_of(file))[1]
    assert isinstance(problem, Problem)
    assert (problem.file, problem.line) == (f"{path}/rows.jsonl", 2)
