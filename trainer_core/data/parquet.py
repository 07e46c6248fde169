"""Rows of a Parquet file, read group by group with pyarrow, which is an optional extra."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

from trainer_core.data.files import DataFile
from trainer_core.data.types import Problem, Row, Source
from trainer_core.errors import DataError

_TOGETHER = 256


def read_parquet(file: DataFile, stream: BinaryIO) -> Iterator[Row | Problem]:
    """The rows in order. Their `line` is the row's number, from 1.

    Args:
        file: as the user knows it.
        stream: its bytes, unpacked.

    Raises:
        DataError: pyarrow is not installed, or the file is damaged.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            f"{file.name} is a Parquet file, and pyarrow, which reads it, is not installed",
            "",
            "run `pip install burnish[parquet]`, or save the rows as JSON lines",
        ) from None
    # Parquet is read from its end, which an unpacked stream cannot do.
    source: Any = stream if stream.seekable() else io.BytesIO(stream.read())
    number = 0
    try:
        opened = pyarrow.parquet.ParquetFile(source)
        for batch in opened.iter_batches(batch_size=_TOGETHER):
            for values in batch.to_pylist():
                number += 1
                yield Row(Source(file.name, number), values)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{file.name} is a damaged Parquet file",
            " ".join(str(error).split())[:200],
            "it may not have been downloaded whole; copy it again",
        ) from None
