"""Rows of texts as a file for COPY, without those that PostgreSQL has no text for: these would break all of it off."""

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

ZERO_BYTE, SHOWN_INSTEAD = "\0", "\N{SYMBOL FOR NULL}"
NO_TEXT = 'invalid byte sequence for encoding "UTF8": {}'  # the database's own words
CSV = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")


class Parts(io.RawIOBase):
    """A file that is made as it is read."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        super().__init__()
        self._parts = parts
        self._left = b""

    def read(self, size: int = -1) -> bytes:
        if not self._left:
            self._left = next(self._parts, b"")
        size = len(self._left) if size < 0 else size
        now, self._left = self._left[:size], self._left[size:]
        return now


def as_csv(columns: list[pa.Array]) -> bytes:
    out = io.BytesIO()
    pyarrow.csv.write_csv(pa.RecordBatch.from_arrays(columns, [str(number) for number in range(len(columns))]), out, CSV)
    return out.getvalue()


def staged_as_csv(token: str, batch: pa.RecordBatch) -> bytes:
    no_text, texts = _as_postgres_has_them(batch.columns[2:])
    return as_csv([pa.repeat(token, batch.num_rows), *batch.columns[:2], no_text, *texts])


def _as_postgres_has_them(texts: list[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
    """PostgreSQL has no text with a zero byte, nor one that is no UTF-8, and would break the COPY off: why is sent beside what is
    left of such a text, and the row is refused later like any other."""
    no_text = pa.nulls(len(texts[0]), pa.string())
    clean = []
    for column in texts:
        broken, column = _without_broken_bytes(column)
        has_zero = pc.fill_null(pc.match_substring(column, ZERO_BYTE), False)
        if pc.any(has_zero).as_py():
            no_text = pc.if_else(has_zero, NO_TEXT.format("0x00"), no_text)
            column = pc.replace_substring(column, ZERO_BYTE, SHOWN_INSTEAD)
        if broken is not None:
            no_text = pc.coalesce(broken, no_text)
        clean.append(column)
    return no_text, clean


def _without_broken_bytes(column: pa.Array) -> tuple[pa.Array | None, pa.Array]:
    """Only an expression makes texts that are no UTF-8: those of records are checked when they are decoded."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = column.cast(pa.binary()).to_pylist()
    else:
        return None, column
    return pa.array([_first_broken(one) for one in raw], pa.string()), pa.array(
        [None if one is None else one.decode(errors="replace") for one in raw], pa.string()
    )


def _first_broken(raw: bytes | None) -> str | None:
    try:
        (raw or b"").decode()
    except UnicodeDecodeError as error:
        return NO_TEXT.format(f"0x{(raw or b'')[error.start]:02x}")
    return None
