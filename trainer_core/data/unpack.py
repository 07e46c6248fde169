"""Opens a file of rows as bytes of UTF-8, whatever it is packed in and however it is encoded.

Unpacking is bounded: a small archive that unpacks without end is refused before it fills memory or
disk.
"""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, BinaryIO, Protocol

from typing_extensions import override

from trainer_core.data.files import DataFile
from trainer_core.errors import DataError

BOM = codecs.BOM_UTF8
HEAD = 65536

_GZIP = b"\x1f\x8b"
_ROOM = 256 << 20
_RATIO = 100
_CHUNK = 1 << 18
# UTF-32 before UTF-16, whose mark begins alike.
_ENCODINGS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, gzip.BadGzipFile)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@contextmanager
def open_bytes(file: DataFile) -> Iterator[io.BufferedReader[Any]]:
    """The file's bytes, out of its archive.

    Raises:
        DataError: the archive is damaged, locked, or unpacks to far more than it should.
    """
    with ExitStack() as stack:
        size = file.path.stat().st_size
        stream: _Readable = stack.enter_context(file.path.open("rb"))
        if file.member:
            archive = stack.enter_context(zipfile.ZipFile(stream))
            size = max(1, archive.getinfo(file.member).compress_size)
            stream = stack.enter_context(_member(archive, file))
        plain = io.BufferedReader(_Bounded(file, stream, size, packed=bool(file.member)), _CHUNK)
        if plain.peek(2)[:2] == _GZIP:
            unpacked = stack.enter_context(gzip.GzipFile(fileobj=plain))
            plain = io.BufferedReader(_Bounded(file, unpacked, size, packed=True), _CHUNK)
        yield plain


@contextmanager
def open_text(file: DataFile) -> Iterator[BinaryIO]:
    """The file's text as UTF-8 without a byte order mark.

    UTF-16 and UTF-32 are recognised by their mark. What is not valid in them comes out as bytes
    that are not UTF-8, so that it spoils its own row only.
    """
    with open_bytes(file) as plain:
        head = plain.peek(4)[:4]
        if head.startswith(BOM):
            plain.read(len(BOM))
        for mark, encoding in _ENCODINGS.items():
            if head.startswith(mark):
                plain.read(len(mark))
                yield io.BufferedReader(_Recoded(plain, encoding), _CHUNK)
                return
        yield plain


def _member(archive: zipfile.ZipFile, file: DataFile) -> IO[bytes]:
    try:
        return archive.open(file.member)
    except NotImplementedError as error:
        raise DataError(
            f"{file.name} cannot be unpacked", str(error), "unpack the archive first"
        ) from None
    except RuntimeError:
        raise DataError(
            f"{file.name} is locked by a password", "", "unpack the archive first"
        ) from None


class _Bounded(io.RawIOBase):
    """Passes bytes on, up to a limit that sound archives of text stay far below."""

    def __init__(self, file: DataFile, stream: _Readable, size: int, *, packed: bool) -> None:
        self._file, self._stream, self._packed = file, stream, packed
        self._left = max(_ROOM, _RATIO * size)

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            got = self._stream.read(len(buffer))
        except _DAMAGE as error:
            raise DataError(
                f"{self._file.name} is a damaged archive",
                " ".join(str(error).split()),
                "it may not have been downloaded whole; copy it again",
            ) from None
        buffer[: len(got)] = got
        if self._packed:
            self._left -= len(got)
            if self._left < 0:
                raise DataError(
                    f"{self._file.name} unpacks to more than {_RATIO} times its size",
                    "which text hardly ever does",
                    "if the file is sound, unpack it and give the unpacked file",
                )
        return len(got)


class _Recoded(io.RawIOBase):
    """Text in another encoding as UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decode: Callable[..., str] = codecs.getincrementaldecoder(encoding)(
            "surrogatepass"
        ).decode
        self._ready = b""
        self._ended = False

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        while not self._ready and not self._ended:
            raw = self._stream.read(_CHUNK)
            self._ended = not raw
            try:
                text = self._decode(raw, not raw)
            except UnicodeDecodeError:
                text, self._ended = "\ud800", True  # the file ends inside a character
            self._ready = text.encode("utf-8", "surrogatepass")
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
