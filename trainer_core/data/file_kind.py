"""Tells a file that is not JSON text in UTF-8 from one that is, by its first bytes."""

from __future__ import annotations

from trainer_core.errors import DataError

BOM = b"\xef\xbb\xbf"

_UTF16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")

_MAGIC = {
    b"\x1f\x8b": "gzip archive",
    b"PK\x03\x04": "zip archive or a spreadsheet",
    b"PAR1": "Parquet file",
    b"ARROW1": "Arrow file",
    b"\x28\xb5\x2f\xfd": "zstd archive",
    b"SQLite format 3": "SQLite database",
    b"%PDF": "PDF",
    b"\x89HDF": "HDF5 file",
}


def refuse_foreign_file(name: str, head: bytes) -> None:
    """Raise with one clear sentence if the first bytes are not those of JSON text in UTF-8.

    Args:
        name: the file, as the user knows it.
        head: its first bytes, up to 64 KiB.

    Raises:
        DataError: the file is empty, of another kind, or in another encoding.
    """
    if not head.removeprefix(BOM).strip():
        if len(head) < 65536:
            raise DataError(f"{name} is empty", "", "put one JSON object on each line")
        return
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            raise DataError(f"{name} is a {kind}, not JSON", "", "export the rows as JSON lines")
    if head.startswith(_UTF16_OR_32) or _looks_like_utf16(head):
        raise DataError(f"{name} is encoded in UTF-16 or UTF-32", "", "save it as UTF-8")
    if b"\x00" in head:
        raise DataError(
            f"{name} is not a text file",
            "it contains NUL bytes",
            "give a file of JSON lines in UTF-8",
        )
    first = head.removeprefix(BOM).lstrip()[:1]
    if first not in (b"{", b"[") and b"{" not in head and b"[" not in head:
        raise DataError(
            f"{name} holds no JSON",
            "rows must be JSON objects",
            "save the rows as JSON lines or as a JSON array",
        )


def _looks_like_utf16(head: bytes) -> bool:
    """UTF-16 without a byte order mark: nearly every second byte of ASCII text is zero."""
    sample = head[:512]
    if len(sample) < 4:
        return False
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    return max(even, odd) > 0.8 * (len(sample) // 2)
